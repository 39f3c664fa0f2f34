"""Each cell of `permissions.csv` is tried; one test tries a row of the table below one owner.

The status must be exactly that of the table. A write that succeeds changes rows, and no other
request does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction

from tests.permission_cases import CELLS, PEOPLE, Cell, PermissionCase
from tests.routes import routed
from tests.sample_data import SampleData, everything

WRITE = re.compile(r"INSERT|UPDATE|DELETE")
NOTES = re.compile(
    r'UPDATE "accounts_(apitoken" SET "last_used_at|user" SET "last_seen_at)"'
    r'|\w+ (INTO )?"browse_gitcache"'
)
"""Reads store the use of a token, when its person was last seen, and slow results of git."""


@contextmanager
def writing() -> Iterator[list[str]]:
    """The statements that change rows, except those of `NOTES`."""
    seen: list[str] = []

    def note(execute: Any, sql: str, *others: Any) -> Any:
        if WRITE.match(sql) and not NOTES.match(sql):
            seen.append(sql)
        return execute(sql, *others)

    with connection.execute_wrapper(note):
        yield seen


def refusals(cell: Cell) -> set[str]:
    """The codes of a refusal: a repository is closed to strangers, and needs a role of readers."""
    if cell.status == 401:
        return {"inactive_user" if cell.who == "In" else "not_authenticated"}
    if cell.who == "B":
        return {"forbidden", "role_required", "staff_required", "person_required", "not_creator"}
    if "{repo_slug}" in cell.operation:
        return {"forbidden"} if cell.who == "S0" else {"role_required", "not_creator"}
    return {"forbidden", "role_required", "staff_required"}


def check(cell: Cell, sample: SampleData, method: str, path: str) -> None:
    """Make the request of a cell, and compare status and writes with the table."""
    before = everything() if cell.status == 409 else None
    with writing() as written:
        answer = sample.api(PEOPLE[cell.who]).send(method, path, cell.body)

    assert answer.status == cell.status, f"{answer.status} {answer.json}"
    if cell.status in {401, 403} and answer.json:  # HEAD has no body
        assert answer.json["error"] in refusals(cell), answer.json
    if before is None:
        writes = cell.status < 400 and method not in {"GET", "HEAD"}
        assert bool(written) == writes, f"wrote {written}"
    else:
        assert everything() == before, "changed something"


OWNERS = {"team": (), "user": [pytest.mark.slow, pytest.mark.once]}
"""A plain run tries repositories of a team, and CI on SQLite also those of a person."""
CODE = re.compile(
    r"/(archive|blame|compare|contents|raw|tree)\b"
    r"|pulls/.+/(commits|diff|files|patch)"
)
"""The operations that read code: they ask the database only for a level, like others."""


def rows() -> Iterator[Any]:
    """The cells of each row of the table, of one owner at a time."""
    found: dict[str, list[Cell]] = {}
    for cell in CELLS:
        words = [cell.operation.replace("{owner}", cell.owner), cell.case, cell.body or ""]
        found.setdefault(" ".join(filter(None, map(str, words))), []).append(cell)
    for name, cells in found.items():
        reads_code = CODE.search(cells[0].operation) and [pytest.mark.once]
        yield pytest.param(cells, id=name, marks=[*OWNERS[cells[0].owner], *(reads_code or [])])


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.mark.parametrize("cells", list(rows()))
def test_each_person_may_do_exactly_what_the_table_says(cells, sample, db, tmp_path_factory, case):
    for aim in dict.fromkeys(cell.aim for cell in cells):
        aiming = [cell for cell in cells if cell.aim == aim]
        with undone():
            method, path = PermissionCase(aiming[0], sample, tmp_path_factory).request()
            for cell in aiming:
                with case(str(cell)), undone():
                    check(cell, sample, method, path)


def test_every_operation_has_a_row_in_the_table():
    def in_the_table(text: str) -> str:
        both = re.compile(r"/(teams/\{team_slug\}|users/\{username\})(?=/repos|/check-repo)")
        return both.sub("/{owner}", text)

    assert {in_the_table(str(one)) for one in routed()} == {cell.operation for cell in CELLS}

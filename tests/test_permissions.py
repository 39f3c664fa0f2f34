"""Who may what, one test per cell of `permissions.csv` (behaviour.md §9).

A success is exactly the documented one; a write that succeeds writes, and nothing else does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from tests.attempts import CELLS, PEOPLE, Attempt
from tests.routes import routed
from tests.world import everything

WRITE = re.compile(r"INSERT|UPDATE|DELETE")
USE = 'UPDATE "accounts_apitoken" SET "last_used_at"'


@contextmanager
def writing() -> Iterator[list[str]]:
    """The statements that change rows; that a token was used is noted whatever happens."""
    seen: list[str] = []

    def note(execute: Any, sql: str, *others: Any) -> Any:
        if WRITE.match(sql) and not sql.startswith(USE):
            seen.append(sql)
        return execute(sql, *others)

    with connection.execute_wrapper(note):
        yield seen


OWNERS = {"team": (), "user": [pytest.mark.slow]}
"""A plain run tries the cells of a team's repositories, CI those of a person's too."""


@pytest.mark.parametrize(
    "cell", [pytest.param(cell, id=str(cell), marks=OWNERS[cell.owner]) for cell in CELLS]
)
def test_a_person_may_do_exactly_what_the_table_says(cell, world, db, tmp_path_factory):
    method, path = Attempt(cell, world, tmp_path_factory).request()
    before = everything() if cell.status == 409 else None
    with writing() as written:
        answer = world.api(PEOPLE[cell.who]).send(method, path, cell.body)

    assert answer.status == cell.status, answer.json
    if before is None:
        assert bool(written) == (cell.status < 400 and method not in {"GET", "HEAD"})
    else:
        assert everything() == before


def test_every_operation_has_a_row_in_the_table():
    def in_the_table(text: str) -> str:
        both = re.compile(r"/(teams/\{team_slug\}|users/\{username\})(?=/repos|/check-repo)")
        return both.sub("/{owner}", text)

    assert {in_the_table(str(one)) for one in routed()} == {cell.operation for cell in CELLS}

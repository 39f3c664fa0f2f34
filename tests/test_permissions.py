"""Who may what, one test per cell of `permissions.csv` (behaviour.md §9).

An anonymous, S0 stranger to a private and S1 to an internal or public repository, V viewer,
M member, D admin, O owner, St staff, In inactive. A refusal changes nothing; a success is exactly
the documented one. `case` says whose the thing is, or is a query string.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.actions import create_token
from apps.accounts.models import User
from apps.repos.models import Repo, Visibility
from apps.threads import actions as threads
from tests.routes import routed
from tests.world import World, everything

PEOPLE = {
    "An": None,
    "S0": "carol",
    "S1": "carol",
    "V": "vera",
    "M": "bob",
    "D": "dan",
    "O": "alice",
    "St": "sam",
    "In": "ina",
}
ONLY_IN_TEAMS = {"V", "M", "D"}
OWNERS = {"team": "teams/{team_slug}", "user": "users/{username}"}


@dataclass(frozen=True)
class Cell:
    """One person trying one operation on what one owner has."""

    operation: str
    case: str
    body: Any
    who: str
    owner: str
    visibility: Visibility
    status: int

    def __str__(self) -> str:
        words = (self.who, self.operation.replace("{owner}", self.owner), self.case)
        return " ".join([*words, self.visibility if self.who in {"S1", "In"} else ""]).strip()


def read_cells() -> Iterator[Cell]:
    with Path(__file__).with_name("permissions.csv").open(newline="") as lines:
        for row in csv.DictReader(lines):
            body = json.loads(row["body"]) if row["body"] else None
            for who, owner, visibility in places(row["operation"]):
                status = int(row[who])
                yield Cell(row["operation"], row["case"], body, who, owner, visibility, status)


def places(operation: str) -> Iterator[tuple[str, str, Visibility]]:
    """Where each person tries it: both owners, and the visibility that the column means."""
    meant = {
        "An": [Visibility.PUBLIC],
        "S1": [Visibility.INTERNAL, Visibility.PUBLIC],
        "In": [Visibility.PUBLIC],
    }
    for owner in OWNERS if "{owner}" in operation else ["team"]:
        for who in PEOPLE:
            if owner == "team" or who not in ONLY_IN_TEAMS:
                several = meant.get(who, [Visibility.PRIVATE])
                for visibility in several if "{repo_slug}" in operation else several[:1]:
                    yield who, owner, visibility


CELLS = list(read_cells())


@dataclass
class Attempt:
    """Fills a cell's address with what its case speaks of, made anew where that is one's own."""

    cell: Cell
    world: World

    @property
    def name(self) -> str:
        return PEOPLE[self.cell.who] or "zoe"

    @property
    def person(self) -> User:
        return self.world.people[self.name]

    @property
    def repo(self) -> Repo:
        return self.world.repos[self.cell.owner, self.cell.visibility]

    def path(self) -> str:
        """The address, and the query string that a case may be."""
        address = self.cell.operation.partition(" ")[2]
        filled = address.replace("{owner}", self.repo.owner.path)
        for name, fill in FILL.items():
            if f"{{{name}}}" in filled:
                filled = filled.replace(f"{{{name}}}", str(fill(self)))
        return filled + (self.cell.case if self.cell.case.startswith("?") else "")

    def token(self) -> object:
        owner = self.person if self.cell.case == "own" else self.world.zoe
        return create_token(actor=owner, owner=owner, name="another")[0].uuid

    def member(self) -> str:
        words = {"a viewer": "vic", "a member": "zoe", "an admin": "ada", "the owner": "alice"}
        return self.name if self.cell.case == "oneself" else words[self.cell.case]

    def thread(self) -> int:
        replying = "{reply_number}" in self.cell.operation
        if self.cell.case == ("in own thread" if replying else "own"):
            self.made = self.world.make.thread(self.repo, by=self.person)
        else:
            self.made = self.world.threads[self.repo.pk]
        return self.made.number

    def reply(self) -> int:
        author = self.person if self.cell.case == "own" else self.world.zoe
        reply = self.world.make.reply(self.made, by=author)
        if self.cell.case == "deleted already":
            threads.delete_reply(actor=author, reply=reply)
        return reply.number


FILL = {
    "team_slug": lambda attempt: attempt.world.acme.slug,
    "username": Attempt.member,
    "uuid": Attempt.token,
    "repo_slug": lambda attempt: attempt.repo.slug,
    "number": Attempt.thread,
    "reply_number": Attempt.reply,
}


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_person_may_do_exactly_what_the_table_says(cell, world, db):
    attempt = Attempt(cell, world)
    path = attempt.path()
    before = everything() if cell.status >= 400 else None

    answer = world.api(PEOPLE[cell.who]).send(cell.operation.partition(" ")[0], path, cell.body)

    assert answer.status == cell.status, answer.json
    if before is not None:
        assert everything() == before


def test_every_operation_has_a_row_in_the_table():
    def in_the_table(text: str) -> str:
        both = re.compile(r"/(teams/\{team_slug\}|users/\{username\})(?=/repos|/check-repo)")
        return both.sub("/{owner}", text)

    assert {in_the_table(str(one)) for one in routed()} == {cell.operation for cell in CELLS}

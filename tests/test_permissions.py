"""Who may what, one test per cell of `permissions.csv` (behaviour.md §9).

A success is exactly the documented one and, where something is written, changes a row; a refusal
changes none.
"""

from __future__ import annotations

import re

import pytest

from tests.attempts import CELLS, PEOPLE, Attempt
from tests.routes import routed
from tests.world import everything


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_person_may_do_exactly_what_the_table_says(cell, world, db, tmp_path):
    method, path = Attempt(cell, world, tmp_path / "clone").request()
    before = everything()

    answer = world.api(PEOPLE[cell.who]).send(method, path, cell.body)

    assert answer.status == cell.status, answer.json
    assert (everything() != before) == (cell.status < 400 and method not in {"GET", "HEAD"})


def test_every_operation_has_a_row_in_the_table():
    def in_the_table(text: str) -> str:
        both = re.compile(r"/(teams/\{team_slug\}|users/\{username\})(?=/repos|/check-repo)")
        return both.sub("/{owner}", text)

    assert {in_the_table(str(one)) for one in routed()} == {cell.operation for cell in CELLS}

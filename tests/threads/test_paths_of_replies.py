"""Sorting replies by their paths gives the order of the tree, for all trees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.threads.models import (
    DEPTH_MAX,
    PATH_MAX,
    STEP_WIDTH,
    ancestor_paths,
    child_path,
    parent_number,
)

pytestmark = pytest.mark.once

BIGGEST = 36**STEP_WIDTH - 1
steps = st.lists(st.integers(1, BIGGEST), min_size=1, max_size=DEPTH_MAX + 1)


def path_of(numbers: list[int]) -> str:
    path = ""
    for number in numbers:
        path = child_path(path, number)
    return path


@given(st.integers(0, BIGGEST), st.integers(0, BIGGEST))
def test_steps_sort_as_numbers_do(one, other):
    step = child_path("", one)
    assert (step < child_path("", other)) == (one < other)
    assert int(step, 36) == one
    assert len(step) == STEP_WIDTH


@given(steps, steps)
def test_paths_sort_as_lists_of_numbers_do(one, other):
    assert (path_of(one) < path_of(other)) == (one < other)


@given(steps)
def test_a_path_knows_what_is_above_it(numbers):
    above = [path_of(numbers[:end]) for end in range(1, len(numbers))]
    assert ancestor_paths(path_of(numbers)) == above
    assert parent_number(path_of(numbers)) == (numbers[-2] if len(numbers) > 1 else None)


def test_the_deepest_path_has_room():
    assert len(path_of([BIGGEST] * (DEPTH_MAX + 1))) == PATH_MAX
    assert ancestor_paths(path_of([7])) == []

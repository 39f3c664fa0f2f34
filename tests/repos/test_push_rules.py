"""`find_chain`: the chain of journal steps from the stored head to git's current value."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.repos.models import PushJournal
from apps.repos.rules import ZERO, find_chain

pytestmark = pytest.mark.once


def steps(*pairs):
    return [PushJournal(pk=place, old=old, new=new) for place, (old, new) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("start", "end", "journal", "used"),
    [
        ("a", "a", [], []),
        ("a", "b", [], None),
        ("a", "b", [("a", "b")], [0]),
        ("a", "c", [("b", "c"), ("a", "b")], [1, 0]),
        # git has refused the first step, or not made it yet
        ("a", "b", [("a", "x"), ("a", "b")], [1]),
        ("a", "b", [("a", "b"), ("b", "c")], [0]),
        ("a", "c", [("a", "c"), ("a", "b"), ("b", "c")], [1, 2]),
        # moving away and back are two steps
        ("a", "a", [("a", "b"), ("b", "a")], [0, 1]),
        (ZERO, ZERO, [(ZERO, "a"), ("a", ZERO)], [0, 1]),
        ("a", "d", [("x", "d"), ("a", "b")], None),
        # nobody has seen the loop of the steps that are left: git may have refused both
        ("a", "a", [("a", "b"), ("a", "b"), ("b", "a"), ("b", "a")], [0, 2]),
        ("a", "b", [("a", "b"), ("a", "c"), ("b", "a")], [0]),
        # the last step was written at "b", so the ref was there
        ("a", "c", [("a", "b"), ("a", "c"), ("b", "a")], [0, 2, 1]),
    ],
)
def test_the_chain_leads_through_the_old_values_to_the_present(start, end, journal, used):
    chain = find_chain(start, end, steps(*journal))
    assert (None if chain is None else [step.pk for step in chain]) == used


def test_a_step_that_git_has_reported_is_part_of_the_chain():
    journal = steps(("a", "b"), ("a", "b"), ("b", "a"), ("b", "a"))
    chain = find_chain("a", "a", journal, {1})
    assert chain is not None
    assert [step.pk for step in chain] == [1, 2]
    journal = steps(("a", "b"), ("b", "a"))
    assert find_chain("b", "b", journal, {1}) == [journal[1], journal[0]]
    assert find_chain("b", "b", journal) == []


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=6))
def test_pushes_one_after_another_are_all_explained(heads):
    journal = steps(*(pair for pair in pairwise(heads) if pair[0] != pair[1]))
    assert find_chain(heads[0], heads[-1], journal) == journal


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=6), st.randoms())
def test_pushes_one_after_another_are_all_explained_in_whatever_order_they_end(heads, random):
    walked = [pair for pair in pairwise(heads) if pair[0] != pair[1]]
    journal = steps(*walked)
    random.shuffle(journal)
    chain = find_chain(heads[0], heads[-1], journal, {step.pk for step in journal})
    assert chain is not None
    assert len(chain) == len(walked)
    assert all(one.new == two.old for one, two in pairwise(chain))


def test_a_branch_moved_to_and_fro_many_times_is_explained_at_once():
    journal = steps(*[("a", "b")] * 30, *[("b", "a")] * 30)
    chain = find_chain("a", "a", journal, {*range(60)})
    assert chain is not None
    assert len(chain) == 60


def test_no_journal_takes_long_to_explain():
    """Pushers write the journal, and the repository is locked meanwhile."""
    journal = steps(*permutations("abcdefgh", 2))
    chain = find_chain("a", "a", journal, {*range(len(journal))})
    assert chain is not None
    assert {step.pk for step in chain} == set(range(len(journal))) and len(chain) == len(journal)
    assert all(one.new == two.old for one, two in pairwise(chain))

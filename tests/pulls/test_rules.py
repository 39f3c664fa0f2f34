"""Rules of pulls that need no repository on disk."""

from __future__ import annotations

import pytest

from apps.core.errors import Invalid
from apps.git import merge
from apps.pulls import rules
from apps.pulls.heads import find_source
from apps.repos.rules import branch_problem, pattern_problem
from tests.principals import access_of

pytestmark = pytest.mark.once


@pytest.mark.parametrize("name", ["main", "feature/one", "a.b", "é" * 125, "users"])
def test_a_branch_name_is_taken(name):
    assert branch_problem(name) is None
    assert rules.source_problem(f"teams/acme:{name}") is None


@pytest.mark.parametrize("name", ["", "HEAD", "-a", "a..b", "a:b", "a b", "/a", "a.lock", "0" * 40])
def test_a_name_that_is_no_branch_is_refused(name):
    assert branch_problem(name)
    assert rules.source_problem(f"acme:{name}") or ":" in name


@pytest.mark.parametrize("mark", ["\x07", "\x85", "\u061c", "\u200f", "\u202e", "\u2066"])
def test_a_name_that_looks_like_another_is_refused_in_words(mark):
    """Control characters, and characters that change the direction of text."""
    words = "A branch name may not contain control characters, invisible"
    for problem in (branch_problem, rules.source_problem, pattern_problem):
        assert str(problem(f"main{mark}gpj")).startswith(words)


def test_a_source_of_a_team_is_not_meant_by_its_bare_name(team_repo, alice):
    assert find_source(access_of(alice, team_repo), "teams/acme:x") == (team_repo, "x")
    for text in ("acme:x", ":x", "users/acme:x", "teams/acme/api:x"):
        with pytest.raises(Invalid) as refused:
            find_source(access_of(alice, team_repo), text)
        assert refused.value.code == "source_not_found"


@pytest.mark.parametrize(
    ("outcome", "code", "paths"),
    [
        (merge.NothingToMerge(), "nothing_to_merge", None),
        (merge.FastForwardImpossible(), "fast_forward_impossible", None),
        (merge.Conflict(("a", "b")), "merge_conflict", ["a", "b"]),
        (merge.Conflict(), "merge_conflict", []),
    ],
)
def test_what_git_says_becomes_a_refusal(outcome, code, paths):
    blocker = rules.outcome_blocker(outcome)
    refusal = rules.MergeRefused([blocker])
    assert (refusal.code, refusal.conflict_paths, refusal.detail) == (code, paths, blocker.text)


def test_conflict_paths_come_with_a_conflict_that_is_the_error_only():
    closed, conflict = rules.Blocker("pull_closed", "C."), rules.Blocker("x", "X.", ["a"])
    refusal = rules.MergeRefused([closed, conflict])
    assert (refusal.code, refusal.conflict_paths) == ("pull_closed", None)
    assert refusal.detail == "pull_closed: C. x: X."

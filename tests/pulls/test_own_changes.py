"""Nobody approves commits that they have pushed themselves, even after somebody else pushes a new
head.
"""

from __future__ import annotations

import pytest

from apps.pulls.models import Pull, Review
from tests.pulls import paths

REASON = "Pushed the approved commit, or nobody knows who did."


@pytest.fixture
def approvals(api, alice):
    """`approvals(pull)`: the number that count, the reason against each, and the blockers."""

    def read(pull):
        record = api(alice).get(f"{paths.pull(pull)}/protection").gives()
        reasons = [row["reason"] for row in record["approvals"]]
        return record["approval_count"], reasons, record["blocked_reasons"]

    return read


def push(clone, by, *, message):
    """Force-push the same change to `feature` in a new commit, which gives the same result."""
    clone.push_commit("feature", {"arch": "ajar\n"}, onto="main", message=message, by=by)


def test_who_has_pushed_a_commit_does_not_approve_it_by_another_head_of_the_same_result(
    api, make, clone, pull, protection, approvals, bob, sam
):
    push(clone, bob, message="bob's")
    mine = make.review(pull, by=bob)
    push(clone, sam, message="the same, put on main again by sam")
    assert approvals(pull) == (0, [REASON], ["approval_required"])
    shown = api(sam).get(paths.review(mine)).gives()
    assert (shown["is_eligible"], shown["reason"]) == (False, REASON)
    api(sam).post(f"{paths.pull(pull)}/merge").fails(409, "approval_required")
    record = api(sam).get(f"{paths.pull(pull)}/protection").gives()
    assert record["caller_can_review"] is False


def test_what_somebody_else_has_pushed_is_approved_anew(
    api, make, clone, pull, protection, approvals, bob, sam
):
    """A repeated decision is about the current head, even if its commit is the same as before."""
    push(clone, bob, message="bob's")
    mine = make.review(pull, by=bob)
    kept = clone.sha("feature")
    push(clone, sam, message="sam's")
    clone.git("update-ref", "refs/heads/feature", kept)
    clone.push("feature", by=sam)
    assert approvals(pull)[0] == 0
    again = api(bob).put(paths.review(mine), status="approved").gives()
    assert (again["commit_sha"], again["is_eligible"]) == (kept, True)
    assert again["updated_at"] > again["created_at"]
    assert approvals(pull) == (1, [None], [])


def test_a_commit_of_which_nobody_knows_who_pushed_it_is_approved_by_nobody_for_good(
    make, clone, pull, protection, approvals, bob, sam
):
    """The reviewer may have pushed the head."""
    Pull.objects.update(head_pushed_by=None)
    make.review(Pull.objects.select_related("repo").get(), by=bob)
    clone.push_commit("feature", {"arch": "open\n"}, onto="main", message="the same by sam", by=sam)
    assert approvals(pull) == (0, [REASON], ["approval_required"])


def test_an_approval_is_of_its_commit_whoever_pushes_later(
    make, clone, pull, protection, approvals, bob, sam
):
    push(clone, sam, message="sam's")
    make.review(pull, by=bob)
    push(clone, bob, message="bob puts it on main again")
    assert approvals(pull) == (0, ["Pushed the current head."], ["approval_required"])
    push(clone, sam, message="and sam again")
    assert approvals(pull) == (1, [None], [])


def test_a_request_for_changes_to_ones_own_commit_blocks_the_heads_of_others(
    make, clone, pull, protection, approvals, bob, sam
):
    """A request for changes remains after a push."""
    push(clone, bob, message="bob's")
    make.review(pull, by=bob, status="changes_requested")
    push(clone, sam, message="sam's")
    assert "changes_requested" in approvals(pull)[2]


def test_who_edits_a_review_has_not_approved_anew(api, make, clone, pull, protection, bob, sam):
    push(clone, bob, message="bob's")
    mine = make.review(pull, by=bob)
    push(clone, sam, message="sam's")
    assert api(bob).put(paths.review(mine), body="Fine.").gives()["is_eligible"] is False
    assert Review.objects.get().by_pusher

"""`…/pulls/{number}/protection`: all blockers, and the approvals that count."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.git import run
from apps.pulls.models import Pull
from apps.repos.actions import update_protection
from apps.repos.models import Repo, Visibility
from apps.teams.models import Team
from tests.factories import MemberFactory, UserFactory
from tests.principals import access_of
from tests.pulls import paths
from tests.test_queries import costing


@pytest.fixture
def read(api, alice):
    """`read(pull)`: the record for alice, or for another person."""
    return lambda pull, by=None: api(by or alice).get(f"{paths.pull(pull)}/protection").gives()


def test_every_field_of_a_pull_without_a_protection(read, make, pull, bob):
    review = make.review(pull, by=bob)
    approval = {
        "review_uuid": str(review.uuid),
        "user_uuid": str(bob.uuid),
        "username": "bob",
        "is_bot": False,
        "commit_sha": pull.head_sha,
        "is_stale": False,
        "is_eligible": True,
        "reason": None,
    }
    assert read(pull) == {
        "pull_number": 1,
        "source_branch": "feature",
        "source_moved": False,
        "target_branch": "main",
        "head_sha": pull.head_sha,
        "base_sha": pull.base_sha,
        "is_protected": False,
        "protections": [],
        "required_approvals": 0,
        "approval_count": 1,
        "approvals_missing": 0,
        "approvals": [approval],
        "checks": [],
        "statuses_missing": [],
        "comments": {"total": 0, "unresolved": 0},
        "changes_requested_by": [],
        "pending_approvers": [],
        "is_mergeable": True,
        "conflict_paths": [],
        "allowed_strategies": ["merge", "squash", "rebase", "fast_forward"],
        "caller_can_review": False,
        "caller_can_merge": True,
        "blocked_reasons": [],
    }


def test_a_pull_that_is_not_there_has_none(api, make, repo, alice):
    url = f"{paths.pull(make.pull(repo, by=alice))}/protection"
    api(alice).get(f"{paths.pulls(repo)}/9/protection").fails(404, "not_found")
    assert api(alice).get(url).gives()["blocked_reasons"] == ["branch_missing"]


def test_an_approval_is_asked_for_and_counted(read, make, pull, protection, bob, carol):
    make.approver(protection, bob)
    record = read(pull, bob)
    assert record["protections"] == [
        {
            "uuid": str(protection.uuid),
            "branch": "main",
            "required_approvals": 1,
            "required_statuses": [],
            "status_reporters": [],
            "resolved_required": False,
            "is_satisfiable": True,
            "approvers": [{"user_uuid": str(bob.uuid), "username": "bob"}],
        }
    ]
    assert (record["required_approvals"], record["approvals_missing"]) == (1, 1)
    assert (record["pending_approvers"], record["blocked_reasons"]) == (
        *(["bob"], ["approval_required"]),
    )
    assert (record["caller_can_review"], record["caller_can_merge"]) == (True, False)
    make.review(pull, by=bob)
    record = read(pull, bob)
    assert (record["approval_count"], record["approvals_missing"]) == (1, 0)
    assert (record["pending_approvers"], record["caller_can_merge"]) == ([], True)
    reader = read(pull, carol)
    assert (reader["caller_can_review"], reader["caller_can_merge"]) == (False, False)


def test_who_is_not_named_does_not_count(read, make, pull, protection, acme, bob):
    dan = UserFactory.create(username="dan")
    MemberFactory.create(team=acme, user=dan, admin=True)
    make.approver(protection, bob)
    make.review(pull, by=dan)
    [approval] = read(pull)["approvals"]
    assert (approval["is_eligible"], approval["reason"]) == (False, "Not an approver of main.")
    assert read(pull)["blocked_reasons"] == ["approval_required"]


def test_a_named_reader_counts_as_long_as_they_can_read(read, make, pull, protection, carol):
    make.approver(protection, carol)
    make.review(pull, by=carol)
    assert read(pull)["approval_count"] == 1
    Repo.objects.update(visibility=Visibility.PRIVATE)
    record = read(pull)
    assert record["approvals"][0]["reason"] == "No access to the repository."
    assert (record["approval_count"], record["pending_approvers"]) == (0, [])


def test_author_pusher_and_the_inactive_never_count(
    read, make, pull, clone, protection, alice, bob, sam
):
    for person in (alice, bob, sam):
        make.approver(protection, person)
    clone.push_commit("feature", {"window": "1"}, by=bob)
    for person in (alice, bob, sam):
        make.review(pull, by=person)
    assert read(pull)["approval_count"] == 1
    User.objects.filter(pk=sam.pk).update(is_active=False)
    record = read(pull)
    assert {row["username"]: row["reason"] for row in record["approvals"]} == {
        "alice": "The author of the pull.",
        "bob": "Pushed the current head.",
        "sam": "The account has been deactivated.",
    }
    assert (record["approval_count"], record["pending_approvers"]) == (0, [])


def test_the_latest_decision_of_a_person_counts_comments_aside(
    read, api, make, pull, protection, bob, alice
):
    first = make.review(pull, by=bob)
    make.review(pull, by=bob, status="commented")
    assert read(pull)["blocked_reasons"] == []
    second = make.review(pull, by=bob, status="changes_requested")
    record = read(pull)
    assert record["changes_requested_by"] == ["bob"]
    assert record["blocked_reasons"] == ["changes_requested", "approval_required"]
    api(bob).put(paths.review(first), body="Still.").gives()
    assert read(pull)["changes_requested_by"] == ["bob"]
    again = api(bob).put(paths.review(first), status="approved").gives()
    assert again["updated_at"] > again["created_at"]
    assert read(pull)["blocked_reasons"] == []
    api(bob).put(paths.review(second), status="changes_requested").gives()
    assert read(pull)["blocked_reasons"] == ["changes_requested", "approval_required"]
    api(alice).put(paths.review(second), status="dismissed").gives()
    assert read(pull)["blocked_reasons"] == ["approval_required"]
    api(alice).delete(paths.review(second)).gives(204)
    assert read(pull)["blocked_reasons"] == []


def test_a_request_for_changes_outlives_pushes(read, make, pull, clone, protection, bob):
    make.review(pull, by=bob, status="changes_requested")
    clone.push_commit("feature", {"window": "1"})
    assert read(pull)["changes_requested_by"] == ["bob"]


def test_an_approval_is_of_a_patch_and_survives_a_rebase_and_a_merge_of_the_target(
    read, make, pull, clone, protection, bob
):
    review = make.review(pull, by=bob)
    clone.push_commit("main", {"gate": "1"})
    clone.checkout("feature")
    clone.git("rebase", "--quiet", "main")
    clone.push("feature")
    [rebased] = read(pull)["approvals"]
    assert rebased["commit_sha"] == review.commit_sha != Pull.objects.get().head_sha
    assert (rebased["is_stale"], read(pull)["approval_count"]) == (False, 1)
    clone.push_commit("main", {"fence": "1"})
    clone.checkout("feature")
    clone.git("merge", "--quiet", "--no-edit", "main")
    clone.push("feature")
    assert read(pull)["approval_count"] == 1
    clone.commit("feature", {"arch": "open \n"})  # white space is a change
    clone.push("feature")
    record = read(pull)
    assert (record["approvals"][0]["is_stale"], record["approval_count"]) == (True, 0)
    assert record["blocked_reasons"] == ["approval_required"]


def test_several_protections_are_each_to_be_satisfied(read, make, pull, alice, bob, sam):
    named = make.protection(pull.repo, by=alice, approver=sam)
    open_to_all = make.protection(pull.repo, "m*", by=alice)
    make.protection(pull.repo, "release/*", by=alice)
    update_protection(
        access=access_of(sam, open_to_all.repo), protection=open_to_all, required_approvals=2
    )
    make.review(pull, by=bob)
    record = read(pull)
    assert [row["branch"] for row in record["protections"]] == ["main", "m*"]
    assert (record["required_approvals"], record["approval_count"]) == (2, 1)
    assert (record["approvals_missing"], record["pending_approvers"]) == (1, ["sam"])
    make.review(pull, by=sam)
    record = read(pull)
    assert (record["approval_count"], record["approvals_missing"]) == (2, 0)
    assert record["blocked_reasons"] == []
    update_protection(access=access_of(sam, named.repo), protection=named, required_approvals=2)
    assert read(pull)["approvals_missing"] == 1


def test_protections_that_name_different_people_want_an_approval_of_each(
    read, make, pull, alice, bob, sam
):
    first = make.protection(pull.repo, by=alice, approver=sam)
    make.protection(pull.repo, "m*", by=alice, approver=bob)
    make.protection(pull.repo, "*", by=alice)  # names nobody: an approval by either counts
    record = read(pull)
    assert (record["required_approvals"], record["approvals_missing"]) == (2, 2)
    make.review(pull, by=sam)
    record = read(pull)
    assert (record["required_approvals"], record["approvals_missing"]) == (2, 1)
    make.approver(first, bob)
    record = read(pull)
    assert (record["required_approvals"], record["approvals_missing"]) == (1, 1)


@pytest.mark.parametrize("status", ["draft", "closed", "merged"])
def test_the_status_is_named_first(read, make, pull, clone, protection, bob, status):
    make.review(pull, by=bob)
    clone.push_commit("main", {"arch": "shut\n"})
    Pull.objects.update(status=status)
    record = read(pull)
    expected = {
        "draft": ["pull_is_draft", "merge_conflict"],
        "closed": ["pull_closed", "merge_conflict", "approval_required"],
        "merged": ["pull_already_merged"],
    }
    assert record["blocked_reasons"] == expected[status]
    assert record["conflict_paths"] == ([] if status == "merged" else ["arch"])
    assert (record["allowed_strategies"], record["is_mergeable"]) == ([], False)


def test_an_archived_repository_or_a_retired_team_lets_nobody_merge(read, pull, alice):
    Repo.objects.update(is_archived=True)
    record = read(pull)
    assert (record["is_mergeable"], record["caller_can_merge"]) == (True, False)
    Repo.objects.update(is_archived=False)
    Team.objects.update(is_active=False)
    assert read(pull)["caller_can_merge"] is False


def test_git_is_asked_once_for_two_commits(read, pull):
    read(pull)
    before = run.spawned
    read(pull)
    assert run.spawned == before


def test_any_number_of_people_takes_the_same_queries(api, make, pull, protection, alice, bob):
    caller, url, costs = api(alice), f"{paths.pull(pull)}/protection", []
    for people in ([bob], UserFactory.create_batch(5)):
        for person in people:
            make.approver(protection, person)
            make.review(pull, by=person)
        caller.get(url).gives()
        with costing() as cost:
            caller.get(url).gives()
        costs.append(cost.sql)
    assert costs[1] == costs[0] <= 9


def test_reviews_are_read_with_the_same_eyes(api, make, pull, protection, alice, bob, sam):
    make.approver(protection, sam)
    for person in (bob, sam):
        make.review(pull, by=person)
    rows = api(alice).get(paths.reviews(pull)).gives()["results"]
    assert [(row["is_eligible"], row["reason"]) for row in rows] == [
        (False, "Not an approver of main."),
        (True, None),
    ]
    api(alice).get(f"{paths.reviews(pull)}/{rows[0]['uuid']}").gives()["is_eligible"]

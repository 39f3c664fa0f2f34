"""`…/pulls/{number}/merge` into a protected branch, and changes at the last moment of a merge."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace

import pytest
from django.utils import timezone

from apps.accounts.models import ApiToken, User
from apps.git.merge import Strategy
from apps.pulls.actions import create_review, delete_review, update_review
from apps.pulls.models import MergeAttempt
from apps.repos.actions import add_approver, create_protection, remove_approver, update_protection
from apps.repos.models import Approver, Repo
from apps.teams.models import Member, Role, Team
from tests.principals import access_of
from tests.pulls import paths

MERGE = "/merge"


def test_nobody_merges_without_an_approval_and_with_one_those_who_may(
    api, make, pull, protection, alice, bob, sam, events
):
    url = paths.pull(pull) + MERGE
    with events():
        for person in (alice, bob, sam):
            said = api(person).post(url).fails(409, "approval_required")
    assert said == "Approvals are missing: main asks for 1, and has 0."
    make.review(pull, by=bob)
    assert not pull.repo.journal.exists()
    with events("branch-pushed", "pull-merged"):
        api(alice).post(url).gives()
    api(alice).post(url).fails(409, "pull_already_merged")


def without_approval(c):
    """The protected branch requires one approval, and there is none."""


def with_changes_requested(c):
    c.make.review(c.pull, by=c.sam)
    c.make.review(c.pull, by=c.bob, status="changes_requested")


def with_stale_approval(c):
    c.make.review(c.pull, by=c.bob)
    pushed_over(c.clone, c.alice)


def in_status(status):
    def set_status(c):
        c.make.review(c.pull, by=c.bob)
        c.api(c.alice).put(f"{paths.pull(c.pull)}/status", status=status).gives()

    return set_status


def with_missing_branch(c):
    c.make.review(c.pull, by=c.bob)
    c.clone.push(":feature")


BLOCKED = {
    "no approval": (without_approval, "approval_required"),
    "an approval of an earlier head": (with_stale_approval, "approval_required"),
    "a request for changes": (with_changes_requested, "changes_requested"),
    "a draft": (in_status("draft"), "pull_is_draft"),
    "a closed pull": (in_status("closed"), "pull_closed"),
    "a missing branch": (with_missing_branch, "branch_missing"),
}


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("blocked", BLOCKED)
def test_every_blocker_holds_for_every_strategy(
    api, make, pull, clone, protection, alice, bob, sam, strategy, blocked
):
    prepare, error = BLOCKED[blocked]
    prepare(
        SimpleNamespace(api=api, make=make, pull=pull, clone=clone, alice=alice, bob=bob, sam=sam)
    )
    before = pull.repo.git.ref("refs/heads/main")
    url = paths.pull(pull) + MERGE
    api(alice).post(url, merge_strategy=strategy.value).fails(409, error)
    assert pull.repo.git.ref("refs/heads/main") == before
    assert not pull.repo.journal.exists()
    assert not MergeAttempt.objects.exists()


@pytest.mark.parametrize("strategy", Strategy)
def test_the_head_that_was_seen_holds_for_every_strategy(
    api, make, pull, protection, alice, bob, strategy
):
    make.review(pull, by=bob)
    url = paths.pull(pull) + MERGE
    unseen = f"{url}?expected_head_sha={'0' * 40}"
    api(alice).post(unseen, merge_strategy=strategy.value).fails(409, "head_changed")
    api(alice).post(url, merge_strategy=strategy.value).gives()


def test_all_blockers_are_named_in_their_order(api, make, pull, clone, protection, alice, bob):
    make.review(pull, by=bob, status="changes_requested")
    clone.push_commit("main", {"arch": "shut\n"})
    url = paths.pull(pull) + MERGE
    answer = api(alice).post(url)
    said = answer.fails(409, "merge_conflict")
    assert [word for word in said.split() if "_" in word] == [
        "merge_conflict:",
        "changes_requested:",
        "approval_required:",
    ]
    assert answer.json["conflict_paths"] == ["arch"]
    said = api(alice).post(url, merge_strategy="fast_forward").fails(409, "fast_forward_impossible")
    assert "approval_required:" in said
    api(alice).put(f"{paths.pull(pull)}/status", status="draft").gives()
    said = api(alice).post(url).fails(409, "pull_is_draft")
    assert said.index("merge_conflict:") < said.index("changes_requested:")
    clone.push(":feature")
    said = api(alice).post(url).fails(409, "pull_is_draft")
    assert said.index("branch_missing:") < said.index("approval_required:")


def test_a_request_for_changes_blocks_even_beside_an_approval(
    api, make, pull, protection, alice, bob, sam
):
    make.review(pull, by=sam)
    review = make.review(pull, by=bob, status="changes_requested")
    url = paths.pull(pull) + MERGE
    assert "bob" in api(alice).post(url).fails(409, "changes_requested")
    api(alice).put(paths.review(review), status="dismissed").gives()
    api(alice).post(url).gives()


def test_without_a_protection_a_request_for_changes_does_not_block(api, make, pull, alice, bob):
    make.protection(pull.repo, "main/*", by=alice)
    make.review(pull, by=bob, status="changes_requested")
    api(alice).post(paths.pull(pull) + MERGE).gives()


def test_the_head_that_was_not_seen_is_named_before_the_approval_that_is_missing(
    api, pull, protection, alice
):
    url = f"{paths.pull(pull)}{MERGE}?expected_head_sha={'0' * 40}"
    api(alice).post(url).fails(409, "head_changed")


def test_a_list_whose_people_are_gone_counts_nobody(api, make, pull, protection, alice, bob, sam):
    make.approver(protection, sam)
    User.objects.filter(pk=sam.pk).update(is_active=False)
    make.review(pull, by=bob)
    api(alice).post(paths.pull(pull) + MERGE).fails(409, "approval_required")


def pushed_over(clone, by):
    clone.push_commit("feature", {"window": "1"}, by=by)


LAST = {
    "the review is dismissed": lambda c: update_review(
        access=access_of(c.alice, c.pull.repo), review=c.review, status="dismissed"
    ),
    "the review is deleted": lambda c: delete_review(
        access=access_of(c.alice, c.pull.repo), review=c.review
    ),
    "its author asks for changes": lambda c: create_review(
        access=access_of(c.bob, c.pull.repo), pull=c.pull, status="changes_requested"
    ),
    "the author of the pull pushes": lambda c: pushed_over(c.clone, c.alice),
    "another approver is named": lambda c: add_approver(
        access=access_of(c.alice, c.protection.repo), protection=c.protection, user=c.sam
    ),
    "more approvals are asked for": lambda c: update_protection(
        access=access_of(c.sam, c.protection.repo), protection=c.protection, required_approvals=2
    ),
    "another protection is made": lambda c: update_protection(
        access=access_of(c.sam, c.pull.repo),
        protection=create_protection(access=access_of(c.alice, c.pull.repo), branch="m*n"),
        required_approvals=2,
    ),
    "the reviewer is deactivated": lambda c: User.objects.filter(pk=c.bob.pk).update(
        is_active=False
    ),
}


@pytest.fixture
def reviewed(make, pull, clone, protection, alice, bob, sam):
    """A pull with bob's approval, which suffices, and all that changes at the last moment."""

    return SimpleNamespace(
        review=make.review(pull, by=bob),
        pull=pull,
        clone=clone,
        protection=protection,
        alice=alice,
        bob=bob,
        sam=sam,
    )


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("moment", LAST)
def test_what_happens_last_counts(api, reviewed, last_moment, moment):
    before = reviewed.pull.repo.branch_sha("main")
    last_moment(lambda: LAST[moment](reviewed))
    answer = api(reviewed.alice).post(paths.pull(reviewed.pull) + MERGE)
    assert answer.status == 409, answer.json
    assert answer.json["error"] in {"approval_required", "changes_requested"}
    assert reviewed.pull.repo.git.ref("refs/heads/main") == before
    assert reviewed.pull.repo.branch_sha("main") == before
    assert not reviewed.pull.repo.journal.exists()
    assert not MergeAttempt.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("strategy", Strategy)
def test_an_approval_that_is_dismissed_last_merges_by_no_strategy(
    api, reviewed, last_moment, strategy
):
    before = reviewed.pull.repo.git.ref("refs/heads/main")
    last_moment(lambda: LAST["the review is dismissed"](reviewed))
    answer = api(reviewed.alice).post(
        paths.pull(reviewed.pull) + MERGE, merge_strategy=strategy.value
    )
    answer.fails(409, "approval_required")
    assert reviewed.pull.repo.git.ref("refs/heads/main") == before


@pytest.mark.django_db(transaction=True)
def test_an_approver_who_is_removed_at_the_last_moment_does_not_count(
    api, make, reviewed, last_moment
):
    for person in (reviewed.bob, reviewed.sam):
        make.approver(reviewed.protection, person)
    approver = Approver.objects.get(user=reviewed.bob)
    last_moment(
        lambda: remove_approver(
            access=access_of(reviewed.alice, approver.protection.repo), approver=approver
        )
    )
    api(reviewed.alice).post(paths.pull(reviewed.pull) + MERGE).fails(409, "approval_required")
    assert reviewed.pull.repo.git.ref("refs/heads/main") == reviewed.pull.base_sha


@pytest.mark.django_db(transaction=True)
def test_a_rebase_at_the_last_moment_keeps_the_approval(api, reviewed, last_moment):
    """The merge makes a new plan for the new head."""

    def rebase():
        reviewed.clone.checkout("feature")
        reviewed.clone.git("commit", "--quiet", "--amend", "--message", "better said")
        reviewed.clone.push("feature")

    last_moment(rebase)
    merged = api(reviewed.alice).post(paths.pull(reviewed.pull) + MERGE).gives()
    assert merged["head_sha"] != reviewed.pull.head_sha


# Access that is lost at the last moment

LOST = {
    "the role is lowered": (
        lambda bob: Member.objects.filter(user=bob).update(role=Role.VIEWER),
        "role_required",
    ),
    "the role is lost": (lambda bob: Member.objects.filter(user=bob).delete(), "forbidden"),
    "the team is deactivated": (lambda bob: Team.objects.update(is_active=False), "team_inactive"),
    "the repository is archived": (
        lambda bob: Repo.objects.update(is_archived=True),
        "repo_archived",
    ),
    "the token is revoked": (
        lambda bob: ApiToken.objects.filter(user=bob).update(revoked_at=timezone.now()),
        "not_authenticated",
    ),
    "the token expires": (
        lambda bob: ApiToken.objects.filter(user=bob).update(
            expires_at=timezone.now() - dt.timedelta(seconds=1)
        ),
        "not_authenticated",
    ),
    "the account is closed": (
        lambda bob: User.objects.filter(pk=bob.pk).update(is_active=False),
        "not_authenticated",
    ),
}


@pytest.mark.parametrize("lost", LOST)
def test_a_merge_needs_its_access_until_the_end(api, make, pull, bob, last_moment, events, lost):
    lose, code = LOST[lost]
    Repo.objects.update(visibility="private")
    pull.repo.visibility = "private"
    make.review(pull, by=bob)
    last_moment(lambda: lose(bob))
    with events():
        assert api(bob).post(f"{paths.pull(pull)}/merge").json["error"] == code
    assert pull.repo.git.ref("refs/heads/main") == pull.repo.branch_sha("main") == pull.base_sha
    assert not pull.repo.journal.exists()
    assert not MergeAttempt.objects.exists()

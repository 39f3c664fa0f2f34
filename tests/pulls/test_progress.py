"""The states of all pulls of a person agree with the stored state of each pull."""

from __future__ import annotations

import pytest

from apps.pulls.approval import approval_of
from apps.pulls.models import Pull, PullStatus, Review, ReviewStatus
from apps.pulls.queries import list_ended, own_pulls, pulls_awaiting
from apps.repos.models import BRANCHES, Repo, Visibility
from apps.teams.models import Member, Team
from tests.factories import (
    ApproverFactory,
    MemberFactory,
    ProtectionFactory,
    PullFactory,
    RefFactory,
    RepoFactory,
    ReviewFactory,
    UserFactory,
)
from tests.principals import principal_of
from tests.test_queries import costing

HEAD, OLD = "a" * 40, "b" * 40


@pytest.fixture
def repo(acme) -> Repo:
    return RepoFactory.create(owner=acme)


def pull_of(author, repo: Repo, **fields) -> Pull:
    return PullFactory.create(
        **{"repo": repo, "head_sha": HEAD, "head_pushed_by": author, **fields},
        thread__created_by=author,
    )


def test_approvals_of_many_pulls_are_those_of_each(alice, bob, carol, sam, acme, repo):
    MemberFactory.create(team=acme, user=carol, role="viewer")
    named = ProtectionFactory.create(repo=repo, branch="a", required_approvals=2)
    ApproverFactory.create(protection=named, user=carol)
    ProtectionFactory.create(repo=repo, branch="*", required_approvals=1)
    ProtectionFactory.create(branch="*", required_approvals=3)  # of another repository
    people = {"bob": bob, "carol": carol, "sam": sam, "stranger": UserFactory.create()}
    for target in ("a", "b"):
        for status in ReviewStatus:
            for person in people.values():
                pull = pull_of(alice, repo, target_branch=target)
                given = {"pull": pull, "created_by": person, "commit_sha": HEAD}
                ReviewFactory.create(**given, by_pusher=False)
                ReviewFactory.create(**given, by_pusher=False, status=status)
    owned = own_pulls(principal_of(alice), 100)
    assert len(owned) == 32
    seen = set()
    for own in owned:
        pull = Pull.objects.select_related("thread", "repo__owner_team").get(pk=own.pull.pk)
        single = approval_of(pull)
        expected = (single.required, single.wanting, single.changes_requested_by)
        assert (own.approval.required, own.approval.wanting, own.approval.changes_requested_by) == (
            expected
        )
        assert own.approval.pending == single.pending
        seen.add(str(expected))
    assert len(seen) >= 4


def test_an_approval_of_another_head_does_not_count_and_starts_no_git(alice, bob, repo):
    ProtectionFactory.create(repo=repo, branch="main")
    review = {"created_by": bob, "by_pusher": False}
    for sha in (HEAD, OLD):
        ReviewFactory.create(pull=pull_of(alice, repo), commit_sha=sha, **review)
    with costing() as cost:
        wanting = [own.approval.wanting for own in own_pulls(principal_of(alice), 9)]
    assert sorted(wanting) == [0, 1] and cost.git == 0


def test_only_open_pulls_that_one_may_read_and_change_are_looked_at(alice, bob, acme, repo):
    mine = pull_of(bob, repo)
    pull_of(alice, repo)
    draft = pull_of(bob, repo, status=PullStatus.DRAFT)
    ended = [pull_of(bob, repo, status=status) for status in (PullStatus.CLOSED, PullStatus.MERGED)]
    pull_of(bob, RepoFactory.create(owner=acme, is_archived=True))
    who = principal_of(bob)
    assert {own.pull.pk for own in own_pulls(who, 9)} == {mine.pk, draft.pk}
    assert {row.pk for row in list_ended(who)} == {row.pk for row in ended}
    Member.objects.filter(user=bob).delete()
    assert not own_pulls(who, 9) and not list_ended(who)
    Repo.objects.update(visibility=Visibility.PUBLIC)
    assert {own.may_write for own in own_pulls(who, 9)} == {False}
    Team.objects.update(is_active=False)
    assert not own_pulls(who, 9)


def test_it_says_which_branch_is_missing(alice, repo):
    pull = pull_of(alice, repo, source_branch="topic", target_branch="main")

    def missing() -> str | None:
        [one] = own_pulls(principal_of(alice), 9)
        return one.missing_branch

    assert missing() == "topic"
    RefFactory.create(repo=repo, full_name=f"{BRANCHES}topic")
    assert missing() == "main"
    RefFactory.create(repo=repo, full_name=f"{BRANCHES}main")
    assert missing() is None
    repo.refs.filter(full_name=f"{BRANCHES}topic").delete()
    Pull.objects.filter(pk=pull.pk).update(source_moved=True)
    assert missing() is None
    Pull.objects.filter(pk=pull.pk).update(source_moved=False, source_repo=None)
    assert missing() is None


def test_it_costs_the_same_for_thirty_pulls_as_for_two(alice, bob, repo):
    protection = ProtectionFactory.create(repo=repo, branch="main")
    for person in (alice, bob):
        ApproverFactory.create(protection=protection, user=person)
    costs = []
    for count in (2, 28):
        for _ in range(count):
            ReviewFactory.create(pull=pull_of(alice, repo), created_by=bob, commit_sha=HEAD)
            pull_of(bob, repo)
        with costing() as cost:
            own = own_pulls(principal_of(alice), 50)
            [row.approval.pending for row in own]
            awaiting = pulls_awaiting(principal_of(alice), 50)
            [(row.thread.created_by.username, row.repo.path) for row in awaiting]
        costs.append((cost.sql, cost.git))
    assert len(own) == len(awaiting) == 30 and Review.objects.count() == 30
    assert costs[0] == costs[1] == (6, 0)

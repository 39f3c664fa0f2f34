"""The actions of pulls and reviews refuse by themselves, and a merge asks again at its end."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from apps.accounts.models import ApiToken, User
from apps.core.errors import ApiError
from apps.pulls import actions
from apps.pulls.models import MergeAttempt
from apps.repos.models import Repo
from apps.teams.models import Member, Role, Team
from tests.principals import access_of
from tests.pulls import paths

BRANCHES = {"source_branch": "topic", "target_branch": "main"}
ACTIONS = {
    "create_pull": lambda by, review: actions.create_pull(by=by, title="x", body="", **BRANCHES),
    "update_pull": lambda by, review: actions.update_pull(by=by, pull=review.pull, title="x"),
    "merge_pull": lambda by, review: actions.merge_pull(by=by, pull=review.pull),
    "create_review": lambda by, review: actions.create_review(
        by=by, pull=review.pull, status="approved"
    ),
    "update_review": lambda by, review: actions.update_review(by=by, review=review, body="x"),
    "dismissal": lambda by, review: actions.update_review(by=by, review=review, status="dismissed"),
    "delete_review": lambda by, review: actions.delete_review(by=by, review=review),
}


@pytest.fixture
def review(make, pull, bob):
    """bob's, in a private repository."""
    Repo.objects.update(visibility="private")
    pull.repo.visibility = "private"
    return make.review(pull, by=bob)


def refusal(call):
    """Status and code of what the call raises."""
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value.status, refused.value.code


@pytest.mark.parametrize("name", ACTIONS)
def test_a_repository_that_takes_no_changes_takes_none_of_staff(name, review, sam, events):
    repo = review.pull.repo
    with events():
        repo.is_archived = True
        found = refusal(lambda: ACTIONS[name](access_of(sam, repo), review))
        assert found == (409, "repo_archived")
        repo.owner_team.is_active = False
        found = refusal(lambda: ACTIONS[name](access_of(sam, repo), review))
        assert found == (403, "team_inactive")


@pytest.mark.parametrize("name", [name for name in ACTIONS if name != "create_pull"])
def test_access_to_another_repository_is_of_no_use(name, make, review, sam, events):
    by = access_of(sam, make.repo(sam, by=sam))
    with events(), pytest.raises(ValueError, match="is not in"):
        ACTIONS[name](by, review)


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
def test_a_merge_needs_its_access_until_the_end(api, review, bob, last_moment, events, lost):
    lose, code = LOST[lost]
    pull = review.pull
    last_moment(lambda: lose(bob))
    with events():
        assert api(bob).post(f"{paths.pull(pull)}/merge").json["error"] == code
    assert pull.repo.git.ref("refs/heads/main") == pull.repo.branch_sha("main") == pull.base_sha
    assert not pull.repo.journal.exists()
    assert not MergeAttempt.objects.exists()

"""A merge asks for its access again at its end."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from apps.accounts.models import ApiToken, User
from apps.pulls.models import MergeAttempt
from apps.repos.models import Repo
from apps.teams.models import Member, Role, Team
from tests.pulls import paths


@pytest.fixture
def review(make, pull, bob):
    """bob's, in a private repository."""
    Repo.objects.update(visibility="private")
    pull.repo.visibility = "private"
    return make.review(pull, by=bob)


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

"""Actions refuse the same as the API: each cell of `permissions.csv` with a write, tried on the
action with the access of its person, without a view.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts import actions as accounts
from apps.accounts.models import ApiToken, Invite, User
from apps.accounts.principal import Principal
from apps.core.errors import ApiError
from apps.events import actions as pings
from apps.events.models import Ping
from apps.pulls import actions as pulls
from apps.pulls.models import Pull, Review
from apps.repos import actions as repos
from apps.repos.access import RepoAccess
from apps.repos.models import Protection, Repo, Visibility
from apps.site import actions as site
from apps.site.models import RateLimit
from apps.teams import actions as teams
from apps.teams.access import TeamAccess
from apps.teams.models import Member, Team
from apps.threads import actions as threads
from apps.threads.models import Reply, Thread
from apps.uploads import actions as uploads
from tests.permission_cases import CELLS, PEOPLE, Cell, PermissionCase
from tests.principals import access_of, principal_of, space_access_of, team_access_of
from tests.sample_data import SampleData
from tests.test_permissions import OWNERS, undone

pytestmark = pytest.mark.once


class Call:
    """The arguments of an action, in place of a request: the caller's access, rows and values."""

    def __init__(self, case: PermissionCase, path: str) -> None:
        name = PEOPLE[case.cell.who]
        self.user = User.objects.get(pk=case.person.pk) if name else None
        self.body: dict[str, Any] = dict(case.cell.body or {})
        self.case = case
        template = case.cell.operation.partition(" ")[2].replace("{owner}", "[^/]+/[^/]+")
        found = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", template), path)
        assert found, path
        self.keys = found.groupdict()

    @property
    def principal(self) -> Principal:
        return principal_of(self.user)

    @cached_property
    def repo(self) -> Repo:
        return Repo.objects.get(pk=self.case.repo.pk)

    @property
    def access(self) -> RepoAccess:
        return access_of(self.user, self.repo)

    @property
    def space(self) -> Any:
        return space_access_of(self.user, self.repo.owner)

    @property
    def own_space(self) -> Any:
        """An anonymous caller has none, and is refused before."""
        return space_access_of(self.user, self.user or self.repo.owner)

    @property
    def team(self) -> TeamAccess:
        return team_access_of(self.user, Team.objects.get(slug=self.keys["team_slug"]))

    @property
    def member(self) -> Member:
        return self.team.team.members.get(user__username=self.keys["username"])

    @property
    def named(self) -> User:
        """The person in the body; else the caller, or anybody for an anonymous one."""
        somebody = self.user.username if self.user else "zoe"
        return User.objects.get(username=self.body.pop("username", somebody))

    @property
    def token(self) -> ApiToken:
        return ApiToken.objects.get(uuid=self.keys["uuid"])

    @property
    def invite(self) -> Invite:
        return Invite.objects.get(uuid=self.keys["uuid"])

    @property
    def ping(self) -> Ping:
        return Ping.objects.get(uuid=self.keys["uuid"])

    @property
    def rate_limit(self) -> RateLimit:
        return RateLimit.objects.get(uuid=self.keys["uuid"])

    @property
    def protection(self) -> Protection:
        return self.repo.protections.get(uuid=self.keys["protection_uuid"])

    @property
    def thread(self) -> Thread:
        return Thread.objects.get(repo=self.repo, number=self.keys["number"])

    @property
    def reply(self) -> Reply:
        return Reply.objects.get(thread=self.thread, number=self.keys["reply_number"])

    @property
    def pull(self) -> Pull:
        return Pull.objects.get(repo=self.repo, number=self.keys["number"])

    @property
    def review(self) -> Review:
        return Review.objects.get(pull=self.pull, uuid=self.keys["review_uuid"])


def tomorrow() -> dt.datetime:
    return timezone.now() + dt.timedelta(days=1)


REPO = "/{owner}/repos/{repo_slug}"
MEMBER = "/teams/{team_slug}/members/{username}"
PROTECTION = f"{REPO}/protections/{{protection_uuid}}"
THREAD = f"{REPO}/threads/{{number}}"
REPLY = f"{THREAD}/replies/{{reply_number}}"
PULL = f"{REPO}/pulls/{{number}}"
REVIEW = f"{PULL}/reviews/{{review_uuid}}"

ACTIONS: dict[str, Callable[[Call], object]] = {
    "POST /api-tokens": lambda c: accounts.create_token(
        principal=c.principal, owner=c.named, **c.body
    ),
    "DELETE /api-tokens/{uuid}": lambda c: accounts.delete_token(
        principal=c.principal, token=c.token
    ),
    "PUT /api-tokens/{uuid}/revoke": lambda c: accounts.revoke_token(
        principal=c.principal, token=c.token
    ),
    "POST /signup-invites": lambda c: accounts.create_invite(
        principal=c.principal, **{**c.body, "expires_at": tomorrow()}
    ),
    "PUT /signup-invites/{uuid}": lambda c: accounts.update_invite(
        principal=c.principal, invite=c.invite, **c.body
    ),
    "DELETE /signup-invites/{uuid}": lambda c: accounts.delete_invite(
        principal=c.principal, invite=c.invite
    ),
    "PUT /users/self": lambda c: accounts.update_user(
        principal=c.principal, user=c.principal.user, **c.body
    ),
    "POST /teams": lambda c: teams.create_team(principal=c.principal, **c.body),
    "PUT /teams/{team_slug}": lambda c: teams.update_team(access=c.team, **c.body),
    "POST /teams/{team_slug}/members": lambda c: teams.add_member(
        access=c.team, user=c.named, **c.body
    ),
    f"PUT {MEMBER}": lambda c: teams.update_member(access=c.team, member=c.member, **c.body),
    f"DELETE {MEMBER}": lambda c: teams.remove_member(access=c.team, member=c.member),
    "POST /{owner}/repos": lambda c: repos.create_repo(access=c.space, **c.body),
    f"PUT {REPO}": lambda c: repos.update_repo(access=c.access, **c.body),
    f"POST {REPO}/protections": lambda c: repos.create_protection(access=c.access, **c.body),
    f"PUT {PROTECTION}": lambda c: repos.update_protection(
        access=c.access, protection=c.protection, **c.body
    ),
    f"DELETE {PROTECTION}": lambda c: repos.delete_protection(
        access=c.access, protection=c.protection
    ),
    f"POST {PROTECTION}/approvers": lambda c: repos.add_approver(
        access=c.access, protection=c.protection, user=c.named
    ),
    f"DELETE {PROTECTION}/approvers/{{user_uuid}}": lambda c: repos.remove_approver(
        access=c.access, approver=c.protection.approvers.get(user__uuid=c.keys["user_uuid"])
    ),
    f"POST {REPO}/forks": lambda c: repos.create_fork(access=c.access, into=c.own_space),
    f"POST {REPO}/uploads": lambda c: uploads.create_upload(
        access=c.access,
        filename=c.body["filename"],
        content=base64.b64decode(c.body["content_base64"]),
    ),
    f"POST {REPO}/threads": lambda c: threads.create_thread(access=c.access, **c.body),
    f"PATCH {THREAD}": lambda c: threads.update_thread(access=c.access, thread=c.thread, **c.body),
    f"DELETE {THREAD}": lambda c: threads.delete_thread(access=c.access, thread=c.thread),
    f"POST {THREAD}/replies": lambda c: threads.create_reply(
        access=c.access, thread=c.thread, **c.body
    ),
    f"PATCH {REPLY}": lambda c: threads.update_reply(access=c.access, reply=c.reply, **c.body),
    f"DELETE {REPLY}": lambda c: threads.delete_reply(access=c.access, reply=c.reply),
    f"POST {REPO}/pulls": lambda c: pulls.create_pull(access=c.access, **c.body),
    f"PUT {PULL}": lambda c: pulls.update_pull(access=c.access, pull=c.pull, **c.body),
    f"PUT {PULL}/status": lambda c: pulls.update_pull(access=c.access, pull=c.pull, **c.body),
    f"POST {PULL}/merge": lambda c: pulls.merge_pull(access=c.access, pull=c.pull, **c.body),
    f"POST {PULL}/reviews": lambda c: pulls.create_review(access=c.access, pull=c.pull, **c.body),
    f"PUT {REVIEW}": lambda c: pulls.update_review(access=c.access, review=c.review, **c.body),
    f"DELETE {REVIEW}": lambda c: pulls.delete_review(access=c.access, review=c.review),
    "PUT /pings/{uuid}/read": lambda c: pings.read_ping(principal=c.principal, ping=c.ping),
    "PUT /pings/read-all": lambda c: pings.read_all_pings(principal=c.principal),
    "PUT /site-settings": lambda c: site.update_site_settings(principal=c.principal, **c.body),
    "POST /rate-limits": lambda c: site.create_rate_limit(principal=c.principal, **c.body),
    "PUT /rate-limits/{uuid}": lambda c: site.update_rate_limit(
        principal=c.principal, rate_limit=c.rate_limit, **c.body
    ),
    "DELETE /rate-limits/{uuid}": lambda c: site.delete_rate_limit(
        principal=c.principal, rate_limit=c.rate_limit
    ),
}
WRITES = [cell for cell in CELLS if not cell.operation.startswith("GET ")]


def rows() -> Iterator[Any]:
    """The cells of each operation, of one owner at a time."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in WRITES:
        if cell.status != 404:  # without a row there is no action to call
            found.setdefault((cell.operation, cell.owner), []).append(cell)
    for (operation, owner), cells in found.items():
        yield pytest.param(cells, id=operation.replace("{owner}", owner), marks=OWNERS[owner])


def refusal(cell: Cell, call: Call) -> tuple[int, str] | None:
    """Status and code of the refusal; None if the action succeeds."""
    try:
        ACTIONS[cell.operation](call)
    except ApiError as error:
        return error.status, error.code
    return None


@pytest.mark.parametrize("cells", list(rows()))
def test_an_action_refuses_what_the_api_refuses(
    cells: list[Cell], sample: SampleData, db: None, tmp_path_factory: Any, case: Any
) -> None:
    for cell in cells:
        with case(str(cell)), undone():
            permission_case = PermissionCase(cell, sample, tmp_path_factory)
            method, path = permission_case.request()
            expected = None
            if cell.status >= 400:
                with undone():
                    answer = sample.api(PEOPLE[cell.who]).send(method, path, cell.body)
                expected = cell.status, (answer.json or {}).get("error")
            assert refusal(cell, Call(permission_case, path)) == expected


def test_every_operation_that_changes_something_has_its_action_here() -> None:
    assert set(ACTIONS) == {cell.operation for cell in WRITES}


class Elsewhere(Call):
    """The same call with access to another repository."""

    @property
    def access(self) -> RepoAccess:
        return access_of(self.user, self.case.sample.repos["team", Visibility.PUBLIC])


IN_REPO = {
    cell.operation: cell
    for cell in WRITES
    if (cell.who, cell.owner) == ("St", "team")
    and "{repo_slug}" in cell.operation
    and (cell.status < 400 or cell.case == "another's")
}
"""A cell by staff of each operation below a repository."""
WITH_ROW = [cell for cell in IN_REPO.values() if "{" in cell.operation.partition(REPO)[2]]


@pytest.mark.parametrize("cell", IN_REPO.values(), ids=str)
def test_a_repository_that_takes_no_changes_takes_none_of_staff(
    cell: Cell, sample: SampleData, db: None, tmp_path_factory: Any, events: Any
) -> None:
    case = PermissionCase(cell, sample, tmp_path_factory)
    _, path = case.request()
    with events():
        Repo.objects.filter(pk=case.repo.pk).update(is_archived=True)
        assert refusal(cell, Call(case, path)) == (409, "repo_archived")
        Team.objects.filter(pk=sample.acme.pk).update(is_active=False)
        assert refusal(cell, Call(case, path)) == (403, "team_inactive")


@pytest.mark.parametrize("cell", WITH_ROW, ids=str)
def test_access_to_another_repository_is_of_no_use(
    cell: Cell, sample: SampleData, db: None, tmp_path_factory: Any, events: Any
) -> None:
    case = PermissionCase(cell, sample, tmp_path_factory)
    _, path = case.request()
    with events(), pytest.raises(ValueError, match="is not in"):
        refusal(cell, Elsewhere(case, path))

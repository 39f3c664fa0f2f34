"""Actions refuse the same as the API: each cell of `permissions.csv` with a write, tried on the
action with the access of its person, without a view.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from inspect import signature
from typing import Any
from uuid import UUID

import pytest
from django.http import QueryDict
from django.utils import timezone

from apps.accounts import actions as accounts
from apps.accounts.models import ApiToken, BrowserSession, Invite, User
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
from apps.ssh import actions as ssh
from apps.ssh.models import SshKey
from apps.statuses import actions as statuses
from apps.teams import actions as teams
from apps.teams.models import Member, Team
from apps.threads import actions as threads
from apps.threads.models import Reply, Thread
from apps.uploads import actions as uploads
from apps.webhooks import actions as webhooks
from apps.webhooks.access import access_to_site
from apps.webhooks.models import Delivery, Webhook
from config.offboarding import actions as offboarding
from tests.permission_cases import CELLS, PEOPLE, Cell, PermissionCase
from tests.principals import access_of, principal_of, space_access_of, team_access_of
from tests.sample_data import SampleData
from tests.test_permissions import OWNERS, undone

pytestmark = pytest.mark.once


def by_uuid(model: Any) -> Any:
    """The row with the UUID in the path."""
    return property(lambda call: model.objects.get(uuid=call.keys["uuid"]))


class Call:
    """The arguments of an action, in place of a request: the caller's access, rows and values."""

    token, invite, session = by_uuid(ApiToken), by_uuid(Invite), by_uuid(BrowserSession)
    ssh_key = by_uuid(SshKey)
    ping, rate_limit = by_uuid(Ping), by_uuid(RateLimit)

    def __init__(self, case: PermissionCase, path: str) -> None:
        name = PEOPLE[case.cell.who]
        self.person = User.objects.get(pk=case.person.pk) if name else None
        self.body: dict[str, Any] = dict(case.cell.body or {})
        self.case = case
        template = case.cell.operation.partition(" ")[2].replace("{owner}", "[^/]+/[^/]+")
        path, _, query = path.partition("?")
        found = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", template), path)
        assert found, path
        self.keys, self.query = found.groupdict(), QueryDict(query)

    def make(self, action: Callable[..., object]) -> object:
        """Call the action with the parameters that have the name of one of these attributes, and
        the body.
        """
        names = [name for name in signature(action).parameters if hasattr(type(self), name)]
        given = {name: getattr(self, name) for name in names}
        return action(**given, **self.body)

    @property
    def principal(self) -> Principal:
        return principal_of(self.person)

    @cached_property
    def repo(self) -> Repo:
        return Repo.objects.get(pk=self.case.repo.pk)

    @property
    def access(self) -> Any:
        """Access to the repository, the space or the team of the path."""
        if "{repo_slug}" in self.case.cell.operation:
            return access_of(self.person, self.repo)
        if "{owner}" in self.case.cell.operation:
            return space_access_of(self.person, self.repo.owner)
        if "team_slug" not in self.keys and "/webhooks" in self.case.cell.operation:
            return access_to_site(self.principal)
        return team_access_of(self.person, Team.objects.get(slug=self.keys["team_slug"]))

    @property
    def into(self) -> Any:
        """The own space. An anonymous caller has none, and is refused before."""
        return space_access_of(self.person, self.person or self.repo.owner)

    @property
    def member(self) -> Member:
        member: Member = self.access.team.members.get(user__username=self.keys["username"])
        return member

    bot = member

    @property
    def user(self) -> User:
        """The person in the path or in the body; else the caller, or anybody for an anonymous
        one.
        """
        somebody = self.keys.get("username") or (self.person.username if self.person else "zoe")
        return User.objects.get(username=self.body.pop("username", somebody))

    owner = user

    @property
    def comments(self) -> list[int]:
        """The number of the comment in the path, or those in the body."""
        number = self.keys.get("reply_number")
        return self.body.pop("comments") if number is None else [int(number)]

    @property
    def confirm(self) -> str:
        return str(self.query["confirm"])

    @property
    def protection(self) -> Protection:
        return self.repo.protections.get(uuid=self.keys["protection_uuid"])

    @property
    def approver(self) -> Any:
        return self.protection.approvers.get(user__uuid=self.keys["user_uuid"])

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
    def webhook(self) -> Webhook:
        return Webhook.objects.get(uuid=self.keys["webhook_uuid"])

    @property
    def sent(self) -> Delivery:
        return Delivery.objects.get(uuid=self.keys["delivery_uuid"])

    @property
    def sha(self) -> str:
        return str(self.keys["sha"])

    @property
    def review(self) -> Review:
        return Review.objects.get(pull=self.pull, uuid=self.keys["review_uuid"])

    @property
    def comment_uuid(self) -> UUID:
        return UUID(self.keys["comment_uuid"])


def create_invite(*, principal: Principal, **fields: Any) -> object:
    tomorrow = timezone.now() + dt.timedelta(days=1)
    return accounts.create_invite(principal=principal, **{**fields, "expires_at": tomorrow})


def update_own_user(*, principal: Principal, **fields: Any) -> object:
    return accounts.update_user(principal=principal, user=principal.user, **fields)


def delete_own_user(*, principal: Principal, confirm: str) -> object:
    return accounts.delete_user(principal=principal, user=principal.user, confirm=confirm)


def delete_zoe(*, principal: Principal, confirm: str) -> object:
    zoe = User.objects.get(username="zoe")
    return accounts.delete_user(principal=principal, user=zoe, confirm=confirm)


def offboard(*, principal: Principal, user: User, **values: Any) -> object:
    return offboarding.offboard(principal=principal, user=user, **values)


def create_upload(*, access: RepoAccess, filename: str, content_base64: str) -> object:
    content = base64.b64decode(content_base64)
    return uploads.create_upload(access=access, filename=filename, content=content)


REPO = "/{owner}/repos/{repo_slug}"
MEMBER = "/teams/{team_slug}/members/{username}"
BOT = "/teams/{team_slug}/bots/{username}"
PROTECTION = f"{REPO}/protections/{{protection_uuid}}"
THREAD = f"{REPO}/threads/{{number}}"
REPLY = f"{THREAD}/replies/{{reply_number}}"
PULL = f"{REPO}/pulls/{{number}}"
REVIEW = f"{PULL}/reviews/{{review_uuid}}"
DRAFT = f"{PULL}/reviews/draft"
DRAFT_COMMENT = f"{DRAFT}/comments/{{comment_uuid}}"
WEBHOOKS = (f"{REPO}/webhooks", "/teams/{team_slug}/webhooks", "/webhooks")
WEBHOOK = "{webhook_uuid}"

ACTIONS: dict[str, Callable[..., object]] = {
    "POST /api-tokens": accounts.create_token,
    "DELETE /api-tokens/{uuid}": accounts.delete_token,
    "PUT /api-tokens/{uuid}/rotate": accounts.rotate_token,
    "PUT /api-tokens/{uuid}/revoke": accounts.revoke_token,
    "POST /signup-invites": create_invite,
    "PUT /signup-invites/{uuid}": accounts.update_invite,
    "DELETE /signup-invites/{uuid}": accounts.delete_invite,
    "PUT /users/self": update_own_user,
    "DELETE /users/self": delete_own_user,
    "DELETE /users/self/sessions": accounts.end_sessions,
    "DELETE /users/self/sessions/{uuid}": accounts.end_session,
    "POST /users/self/keys": ssh.create_key,
    "DELETE /users/self/keys/{uuid}": ssh.delete_key,
    "PUT /users/{username}": accounts.set_account,
    "PUT /users/{username}/offboard": offboard,
    "DELETE /users/{username}/sessions": accounts.end_sessions,
    "DELETE /users/{username}/sessions/{uuid}": accounts.end_session,
    "DELETE /users/{username}": delete_zoe,
    "POST /teams": teams.create_team,
    "PUT /teams/{team_slug}": teams.update_team,
    "DELETE /teams/{team_slug}": teams.delete_team,
    "POST /teams/{team_slug}/members": teams.add_member,
    f"PUT {MEMBER}": teams.update_member,
    f"DELETE {MEMBER}": teams.remove_member,
    "POST /teams/{team_slug}/bots": teams.create_bot,
    f"PUT {BOT}": teams.update_bot,
    f"DELETE {BOT}": teams.delete_bot,
    f"POST {BOT}/api-tokens": teams.create_bot_token,
    f"DELETE {BOT}/api-tokens/{{uuid}}": teams.delete_bot_token,
    f"PUT {BOT}/api-tokens/{{uuid}}/rotate": teams.rotate_bot_token,
    "POST /{owner}/repos": repos.create_repo,
    f"PUT {REPO}": repos.update_repo,
    f"DELETE {REPO}": repos.delete_repo,
    f"POST {REPO}/keys": ssh.create_deploy_key,
    f"DELETE {REPO}/keys/{{uuid}}": ssh.delete_deploy_key,
    f"POST {REPO}/protections": repos.create_protection,
    f"PUT {PROTECTION}": repos.update_protection,
    f"DELETE {PROTECTION}": repos.delete_protection,
    f"POST {PROTECTION}/approvers": repos.add_approver,
    f"DELETE {PROTECTION}/approvers/{{user_uuid}}": repos.remove_approver,
    f"POST {REPO}/forks": repos.create_fork,
    f"POST {REPO}/uploads": create_upload,
    f"POST {REPO}/commits/{{sha}}/statuses": statuses.create_status,
    f"POST {REPO}/threads": threads.create_thread,
    f"PATCH {THREAD}": threads.update_thread,
    f"DELETE {THREAD}": threads.delete_thread,
    f"POST {THREAD}/replies": threads.create_reply,
    f"PATCH {REPLY}": threads.update_reply,
    f"DELETE {REPLY}": threads.delete_reply,
    f"POST {REPO}/pulls": pulls.create_pull,
    f"PUT {PULL}": pulls.update_pull,
    f"PUT {PULL}/status": pulls.update_pull,
    f"POST {PULL}/merge": pulls.merge_pull,
    f"PUT {PULL}/reviewers": pulls.set_reviewers,
    f"PUT {PULL}/auto-merge": pulls.set_auto_merge,
    f"DELETE {PULL}/auto-merge": pulls.cancel_auto_merge,
    f"PUT {PULL}/viewed": pulls.set_viewed,
    f"POST {PULL}/apply-suggestions": pulls.apply_suggestions,
    f"POST {PULL}/comments/{{reply_number}}/apply": pulls.apply_suggestions,
    f"PUT {PULL}/update-branch": pulls.update_branch,
    f"PUT {PULL}/source-branch": pulls.restore_source_branch,
    f"DELETE {PULL}/source-branch": pulls.delete_source_branch,
    f"POST {PULL}/comments": pulls.create_comment,
    f"POST {PULL}/reviews": pulls.create_review,
    f"PUT {REVIEW}": pulls.update_review,
    f"DELETE {REVIEW}": pulls.delete_review,
    f"PUT {DRAFT}": pulls.update_draft,
    f"DELETE {DRAFT}": pulls.discard_draft,
    f"POST {DRAFT}/submit": pulls.submit_draft,
    f"POST {DRAFT}/comments": pulls.add_draft_comment,
    f"PUT {DRAFT_COMMENT}": pulls.update_draft_comment,
    f"DELETE {DRAFT_COMMENT}": pulls.delete_draft_comment,
    "PUT /pings/{uuid}/read": pings.read_ping,
    "PUT /pings/read-all": pings.read_all_pings,
    "PUT /site-settings": site.update_site_settings,
    "POST /rate-limits": site.create_rate_limit,
    "PUT /rate-limits/{uuid}": site.update_rate_limit,
    "DELETE /rate-limits/{uuid}": site.delete_rate_limit,
}
for path in WEBHOOKS:
    ACTIONS |= {
        f"POST {path}": webhooks.create_webhook,
        f"PUT {path}/{WEBHOOK}": webhooks.update_webhook,
        f"DELETE {path}/{WEBHOOK}": webhooks.delete_webhook,
        f"PUT {path}/{WEBHOOK}/rotate-secret": webhooks.rotate_secret,
        f"POST {path}/{WEBHOOK}/ping": webhooks.ping_webhook,
        f"POST {path}/{WEBHOOK}/deliveries/{{delivery_uuid}}/redeliver": webhooks.redeliver,
    }
WRITES = [cell for cell in CELLS if not cell.operation.startswith("GET ")]
ACTIONS |= {
    cell.operation: ACTIONS[put]
    for cell in WRITES
    if (put := cell.operation.replace("PATCH ", "PUT ")) in ACTIONS
}


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
        call.make(ACTIONS[cell.operation])
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
        return access_of(self.person, self.case.sample.repos["team", Visibility.PUBLIC])


IN_REPO = {
    cell.operation: cell
    for cell in WRITES
    if (cell.who, cell.owner) == ("St", "team")
    and "{repo_slug}" in cell.operation
    and (cell.status < 400 or cell.case == "another's")
    and cell.operation != f"DELETE {REPO}"  # also an archived one
}
"""A cell by staff of each operation below a repository."""
WITH_ROW = [
    cell
    for cell in IN_REPO.values()
    if "{" in cell.operation.partition(REPO)[2] and "/commits/{sha}" not in cell.operation
]
"""Those with a row in the path. A commit is no row: the repository is asked whether it has it."""


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

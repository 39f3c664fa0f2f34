"""Each cell of `permissions.csv` as a request that can be made.

An anonymous, S0 stranger to a private and S1 to an internal or public repository, V viewer,
M member, D admin, O owner, St staff, In inactive, B bot of the team with the role of a member. The
column `case` says whose the row is (own, of another), or it is a query string. `token` is the
permission that a token needs; `this` says that one which is limited to the repository may be used,
and `always` that any limited one may.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.actions import create_invite, create_token
from apps.accounts.models import BrowserSession, User
from apps.accounts.sessions import SessionStore
from apps.events.kinds import PingKind
from apps.events.models import Event, Ping
from apps.pulls.actions import set_auto_merge
from apps.pulls.draft_reviews import DraftComment, DraftReview
from apps.pulls.models import Pull, PullVersion, ReviewRequest
from apps.repos.models import Fork, Ref, Visibility
from apps.site.actions import create_rate_limit
from apps.teams.models import Team
from apps.threads.actions import delete_reply
from apps.webhooks.models import PING, Delivery, DeliveryStatus, Webhook
from tests.browse.code import code_of, push
from tests.factories import ForkFactory
from tests.principals import access_of, principal_of, while_allowed
from tests.sample_data import SampleData
from tests.ssh_keys import ssh_key_of

PEOPLE = {
    "An": None,
    "S0": "carol",
    "S1": "carol",
    "V": "vera",
    "M": "bob",
    "D": "dan",
    "O": "alice",
    "St": "sam",
    "In": "ina",
    "B": "robot",
}
STREAMS = re.compile(r"/(content|diff|export|patch)$|/(tail-events|raw/|archive)")
MOVING = ("merge", "/update-branch", "/source-branch", "/apply", "/apply-suggestions")
"""The ends of operations that move branches of a pull, or will."""
ONLY_IN_TEAMS = {"V", "M", "D", "B"}


@dataclass(frozen=True)
class Cell:
    """A person who tries an operation below one owner, and the expected status."""

    operation: str
    case: str
    body: Any
    who: str
    owner: str
    visibility: Visibility
    status: int
    token: str = ""

    def __str__(self) -> str:
        words = (self.who, self.operation.replace("{owner}", self.owner), self.case)
        return " ".join([*words, self.visibility if self.who in {"S1", "In"} else ""]).strip()

    @property
    def aim(self) -> tuple[Visibility, str]:
        """Cells of a row with the same aim share a path, which belongs to no single person. People
        who may merge need a pull of their own, because a merge cannot be undone.
        """
        merges = self.operation.endswith(MOVING) and self.status < 400
        return (
            self.visibility,
            self.who if "own" in self.case or "self" in self.case or merges else "",
        )


def read_cells() -> Iterator[Cell]:
    with Path(__file__).with_name("permissions.csv").open(newline="") as lines:
        for row in csv.DictReader(lines):
            body = json.loads(row["body"]) if row["body"] else None
            for who, owner, visibility in tries(row["operation"] + row["case"]):
                status = int(row[who])
                aim = (row["operation"], row["case"], body, who, owner, visibility)
                yield Cell(*aim, status, row["token"])


def tries(text: str) -> Iterator[tuple[str, str, Visibility]]:
    """Each column with the owners and visibilities for which it is tried."""
    meant = {
        "An": [Visibility.PUBLIC],
        "S1": [Visibility.INTERNAL, Visibility.PUBLIC],
        "In": [Visibility.PUBLIC],
    }
    for owner in ("team", "user") if "{owner}" in text else ("team",):
        for who in PEOPLE:
            if owner == "team" or who not in ONLY_IN_TEAMS:
                several = meant.get(who, [Visibility.PRIVATE])
                for visibility in several if "{repo_slug}" in text else several[:1]:
                    yield who, owner, visibility


CELLS = list(read_cells())


class PermissionCase:
    """Makes the request of a cell, and rows that the person must have created."""

    def __init__(self, cell: Cell, sample: SampleData, folders: pytest.TempPathFactory) -> None:
        self.cell, self.sample, self.make, self.folders = cell, sample, sample.make, folders
        self.name = PEOPLE[cell.who] or "zoe"
        self.person = sample.people[self.name]
        self.repo = sample.repos[cell.owner, cell.visibility]
        self.author = self.person if cell.case == "own" else sample.zoe
        self.staff = principal_of(sample.people["sam"])

    def request(self) -> tuple[str, str]:
        """The method and the path, with the query string if the case is one. Streams are requested
        by HEAD, which does the same checks.
        """
        method, _, text = self.cell.operation.partition(" ")
        text += self.cell.case if self.cell.case.startswith("?") else ""
        if text.endswith("/fork"):
            self.repo = self.fork_of(self.repo.owner, self.sample.zoe).repo or self.repo
        for name, fill in FILL.items():
            if f"{{{name}}}" in text:
                text = text.replace(f"{{{name}}}", str(fill(self)))
        filled = text.replace("{repo_slug}", self.repo.slug)
        filled = filled.replace("{owner}", self.repo.owner.path)
        return "HEAD" if STREAMS.search(filled) else method, filled

    def member(self) -> str:
        words = {"a viewer": "vic", "a member": "zoe", "an admin": "ada", "the owner": "alice"}
        words |= {"?confirm=zoe": "zoe", "a bot": "robot"}
        return self.name if self.cell.case == "oneself" else words[self.cell.case]

    def uuid(self) -> object:
        """The UUID of an invite, a ping, a rate limit, a session, an upload or a token, by the
        path.
        """
        if "/sessions/" in self.cell.operation:
            return self.session()
        if "/keys/" in self.cell.operation:
            return self.ssh_key()
        if "/signup-invites/" in self.cell.operation:
            return self.invite()
        if "/uploads/" in self.cell.operation:
            return self.upload()
        if "/pings/" in self.cell.operation:
            return self.ping()
        return self.rate_limit() if "/rate-limits" in self.cell.operation else self.token()

    def invite(self) -> object:
        soon = timezone.now() + dt.timedelta(days=1)
        return create_invite(principal=self.staff, expires_at=soon).uuid

    def rate_limit(self) -> object:
        numbers: Any = {"max_requests": 9, "window_seconds": 60}
        return create_rate_limit(principal=self.staff, scope="git", **numbers).uuid

    def token(self) -> object:
        """The id of another token of the author, who was active when it was created, or of the bot
        in the path.
        """
        of_bot = "/bots/" in self.cell.operation
        owner = self.sample.people["robot"] if of_bot else self.author
        people = User.objects.filter(pk=owner.pk)
        was_active = people.get().is_active
        people.update(is_active=True)
        token, _ = create_token(principal=None, owner=people.get(), name="another")
        people.update(is_active=was_active)
        return token.uuid

    def session(self) -> object:
        """The id of a session of the person in the path; of `self`, the caller."""
        name = self.member() if "{username}" in self.cell.operation else self.name
        session = SessionStore()
        session.create()
        return BrowserSession.objects.create(
            user=self.sample.people[name], session_id=str(session.session_key)
        ).uuid

    def ssh_key(self) -> object:
        """The id of a deploy key of the repository in the path; else of a key of the caller."""
        in_repo = "{repo_slug}" in self.cell.operation
        owner = {"repo": self.repo} if in_repo else {"user": self.sample.people[self.name]}
        return ssh_key_of(self.sample.alice, **owner).uuid

    def upload(self) -> object:
        with while_allowed(self.repo):
            return self.make.upload(self.repo, by=self.sample.zoe).uuid

    def ping(self) -> object:
        """The id of an event about a token, which only its owner may read."""
        self.token()
        event = Event.objects.filter(private_to=self.author.pk).latest("id")
        return Ping.objects.create(event=event, user=self.author, kind=PingKind.ADDED).uuid

    def event(self) -> int:
        about: dict[str, dict[str, int | None]] = {
            "of the team": {"team_id": self.sample.acme.pk, "repo_id": None},
            "of own token": {"private_to": self.person.pk},
            "of another's token": {"private_to": self.sample.people["newt"].pk},
        }
        found = Event.objects.filter(**about.get(self.cell.case, {"repo_id": self.repo.pk}))
        return found.latest("id").pk

    def fork_of(self, owner: Team | User, by: User) -> Fork:
        return ForkFactory.create(upstream=self.repo, owner=owner, created_by=by)

    def fork_of_user(self) -> str:
        self.fork_of(self.sample.zoe, self.sample.zoe)
        return "zoe"

    def fork_of_team(self) -> str:
        self.fork_of(self.sample.acme, self.sample.zoe)
        return self.sample.acme.slug

    def number(self) -> int:
        if "pull" in self.cell.operation + self.cell.case:
            return self.pull().number
        replying = "{reply_number}" in self.cell.operation
        self.thread = self.sample.threads[self.repo.pk]
        if self.cell.case == ("in own thread" if replying else "own"):
            with while_allowed(self.repo, self.person):
                self.thread = self.make.thread(self.repo, by=self.person)
        return self.thread.number

    def reply(self) -> int:
        if self.cell.operation.endswith("/apply"):
            return self.sample.suggestion(self.of, by=self.sample.zoe).number
        with while_allowed(self.repo, self.author):
            reply = self.make.reply(self.thread, by=self.author)
            if self.cell.case == "deleted already":
                delete_reply(access=access_of(self.author, self.repo), reply=reply)
        return reply.number

    def pull(self) -> Pull:
        drafting = "/reviews/draft" in self.cell.operation
        reviewing = "{review_uuid}" in self.cell.operation or drafting
        self.of = self.sample.pulls[self.repo.pk]
        operation = self.cell.operation
        if operation.startswith("PUT") and operation.endswith("/viewed"):
            code, author = code_of(self.repo), self.author
            with while_allowed(self.repo, author):
                main = code.commit_with({b"README": b"text"})
                push(self.repo, "refs/heads/main", main, by=author)
                push(
                    self.repo,
                    "refs/heads/read",
                    code.commit_with({b"arch": b"open"}, main),
                    by=author,
                )
                self.of = self.make.pull(self.repo, by=author, source="read")
        elif operation.endswith(MOVING) and self.cell.status < 400:
            folder = self.folders.mktemp("clone") / "work"
            self.of = self.sample.mergeable(
                self.cell.owner, folder, by=self.author, before=operation
            )
            self.repo = self.of.repo
            if operation.endswith("/apply-suggestions"):
                self.sample.suggestion(self.of, by=self.sample.zoe)
            if operation.startswith("DELETE") and operation.endswith("/auto-merge"):
                access = access_of(self.sample.people["sam"], self.repo)
                set_auto_merge(access=access, pull=self.of)
        elif self.cell.case == "own" and not reviewing:
            with while_allowed(self.repo, self.person):
                self.of = self.make.pull(self.repo, by=self.person)
        if self.cell.operation.endswith("/reviewers"):
            self.ask()
        if self.cell.operation.endswith("/comments"):
            PullVersion.objects.get_or_create(
                pull=self.of, version=1, defaults={"head_sha": self.commit()}
            )
        if drafting and self.cell.case:
            self.draft, _ = DraftReview.objects.get_or_create(pull=self.of, created_by=self.author)
        return self.of

    def ask(self) -> None:
        """Ask somebody who can read everything for a review, whom the request does not ask."""
        author = self.of.thread.created_by_id
        self.asked = next(
            name for name in ("alice", "sam") if self.sample.people[name].pk != author
        )
        ReviewRequest.objects.get_or_create(
            pull=self.of, user=self.sample.people[self.asked], requested_by_id=author
        )

    def draft_comment(self) -> object:
        return DraftComment.objects.create(draft=self.draft, kind="comment", body="Why?").uuid

    def commit(self) -> str:
        """A commit outside all branches."""
        return code_of(self.repo).commit_with({b"README": b"Slow.\n", b"src/a": b""})

    def versions(self) -> str:
        """The first version of the pull, twice."""
        head = self.commit()
        PullVersion.objects.get_or_create(pull=self.of, version=1, defaults={"head_sha": head})
        return "1...1"

    def path(self) -> str:
        """A folder or a file of that commit."""
        name = "src" if "/tree/" in self.cell.operation else "README"
        return f"{name}?ref={self.commit()}"

    def ref(self, full_name: str) -> str:
        sha = "1" * 40
        row, _ = Ref.objects.get_or_create(
            repo=self.repo, full_name=full_name, defaults={"sha": sha, "peeled_sha": sha}
        )
        return row.name

    def webhook(self) -> object:
        """The id of a webhook of the repository, team or site in the path. It cannot reach its
        receiver.
        """
        in_repo = "{repo_slug}" in self.cell.operation
        in_team = self.cell.operation.split()[1].startswith("/teams/") and not in_repo
        self.hook = Webhook.objects.create(
            repo=self.repo if in_repo else None,
            team=self.sample.acme if in_team else None,
            url="https://127.0.0.1/",
            cursor_event_id=0,
            created_by=self.sample.alice,
        )
        return self.hook.uuid

    def delivery(self) -> object:
        return Delivery.objects.create(
            webhook=self.hook,
            kind=PING,
            status=DeliveryStatus.SUCCEEDED,
            duration_ms=1,
            request_headers={"webhook-id": "ping_1"},
            request_body="{}",
        ).uuid

    def review(self) -> object:
        with while_allowed(self.repo, self.author):
            return self.make.review(self.of, by=self.author).uuid


FILL = {
    "full_name": lambda case: case.repo.full_name,
    "own_name": lambda case: case.person.username,
    "team_slug": lambda case: case.sample.acme.slug,
    "username": PermissionCase.member,
    "uuid": PermissionCase.uuid,
    "id": PermissionCase.event,
    "fork_uuid": lambda case: case.fork_of(case.author, case.author).uuid,
    "fork_username": PermissionCase.fork_of_user,
    "fork_team_slug": PermissionCase.fork_of_team,
    "branch": lambda case: case.ref("refs/heads/main"),
    "tag": lambda case: case.ref("refs/tags/v1.0"),
    "number": PermissionCase.number,
    "protection_uuid": lambda case: case.sample.protections[case.repo.pk].uuid,
    "user_uuid": lambda case: case.sample.alice.uuid,
    "reply_number": PermissionCase.reply,
    "webhook_uuid": PermissionCase.webhook,
    "delivery_uuid": PermissionCase.delivery,
    "review_uuid": PermissionCase.review,
    "comment_uuid": PermissionCase.draft_comment,
    "version": lambda case: 1,
    "versions": PermissionCase.versions,
    "sha": PermissionCase.commit,
    "path": PermissionCase.path,
    "basehead": lambda case: f"{case.commit()}...{case.commit()}",
}

"""Each operation runs as many SQL statements and git processes as `query_counts.json` says.

tests/snapshot.py tells how to write that file. Reads do not start git, except for the question of a
merge, and lists run as many statements for four rows as for one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.actions import create_token
from apps.accounts.models import Invite, User
from apps.browse.cache import pack
from apps.events.audit import AuditEntry
from apps.git import run
from apps.git.diff import FileChange
from apps.git.log import EPOCH, Commit, Signature
from apps.pulls.models import PullVersion, VersionContents
from apps.repos.actions import add_approver
from apps.repos.commits import find_next_commits
from apps.repos.models import Ref, Repo, Visibility
from apps.site import limits
from apps.site.actions import create_rate_limit
from apps.statuses.actions import create_status
from apps.threads.anchors import Anchor
from apps.threads.models import Thread
from apps.webhooks.models import Delivery, DeliveryStatus, Webhook
from tests import snapshot
from tests.browse.code import code_of
from tests.factories import ForkFactory, MemberFactory, TeamFactory
from tests.permission_cases import CELLS, PEOPLE, Cell, PermissionCase
from tests.principals import access_of, principal_of, while_allowed
from tests.routes import routed
from tests.sample_data import SampleData
from tests.ssh_keys import ssh_key_of

pytestmark = pytest.mark.once

COUNTS = Path(__file__).with_name("query_counts.json")
SHA = "1" * 40
BESIDE = re.compile(
    r"SAVEPOINT|RELEASE|ROLLBACK TO|NOTIFY|SELECT pg_(notify|advisory_xact_lock)"
    r'|UPDATE "accounts_\w+" SET "last_(used|seen)_at" = [^,]+ WHERE'
)
"""Statements that are not counted: they depend on the database or on the time since the last
request, or the test causes them.
"""


class Cost:
    """SQL statements and git processes of a piece of work."""

    sql = 0
    git = 0

    def __str__(self) -> str:
        return f"{self.sql} SQL, {self.git} git"


@contextmanager
def costing() -> Iterator[Cost]:
    cost, before = Cost(), run.spawned
    with CaptureQueriesContext(connection) as captured:
        yield cost
    cost.git = run.spawned - before
    cost.sql = sum(not BESIDE.match(one["sql"]) for one in captured.captured_queries)


def typical(cells: list[Cell]) -> Iterator[Cell]:
    """The first cell of each row of the table in which a member, the owner or staff succeeds."""
    best: dict[tuple[str, str, str], Cell] = {}
    for cell in cells:
        if cell.owner == "team" and cell.who in {"M", "O", "St"} and cell.status < 400:
            best.setdefault((cell.operation, cell.case, str(cell.body)), cell)
    yield from best.values()


TYPICAL = list(typical(CELLS))
READS = [cell for cell in TYPICAL if cell.operation.startswith("GET")]


def name_of(cell: Cell) -> str:
    words = [cell.who, cell.operation, cell.case, "" if cell.body is None else str(cell.body)]
    return " ".join(filter(None, words))


@pytest.mark.parametrize("cell", TYPICAL, ids=name_of)
def test_an_operation_costs_what_it_did(cell, sample, db, tmp_path_factory):
    method, path = PermissionCase(cell, sample, tmp_path_factory).request()
    api = sample.api(PEOPLE[cell.who])
    limits.limit_cache.get()  # as before any request but the first
    with costing() as cost:
        assert api.send(method, path, cell.body).status == cell.status

    counts = snapshot.read(COUNTS) or {}
    snapshot.check(COUNTS, dict(sorted({**counts, name_of(cell): str(cost)}.items())))


def test_the_baseline_has_no_row_too_many():
    assert set(snapshot.read(COUNTS)) == {name_of(cell) for cell in TYPICAL}


def test_no_read_starts_git(sample, db, tmp_path):
    pull = sample.mergeable("team", tmp_path / "clone", by=sample.zoe)
    review = sample.make.review(pull, by=sample.alice)
    text = f"{pull.head_sha} and {str(pull.head_sha)[:7]}"
    sample.make.reply(pull.thread, by=sample.alice, body=text)
    find_next_commits()
    home, api = pull.repo.api_path, sample.api("bob")
    below = ["", "/threads", "/pulls", *(f"/threads/{pull.number}{end}" for end in THREAD_ENDS)]
    below += [f"/pulls/{pull.number}{end}" for end in ("", "/reviews", f"/reviews/{review.uuid}")]
    with costing() as cost:
        for end in below:
            api.get(home + end).gives()
            api.get(f"{home}{end}?render=html").gives()
        api.get(f"/events?scope=repo:{pull.repo.path}").gives()
        api.get(home.rpartition("/")[0]).gives()
    assert cost.git == 0
    page = api.get(f"{home}/threads/{pull.number}/replies?render=html").gives()
    assert page["results"][0]["body_html"].count("<a ") == 2
    assert "0 git" in {snapshot.read(COUNTS)[name_of(cell)].split(", ")[1] for cell in READS}


THREAD_ENDS = ("", "/replies", "/participants")


def each(add: Callable[[Any, User], object]) -> Callable[[Any], None]:
    """A method of `Many` that calls this function for each user."""

    def add_all(many: Any) -> None:
        for person in many.people:
            add(many, person)

    return add_all


class Many:
    """Adds `count` rows to a list, each by another user."""

    members = each(lambda many, person: MemberFactory.create(team=many.sample.acme, user=person))
    pings = each(lambda many, by: many.make.thread(many.repo, by=by, body=f"@{many.bob.username}"))
    pulls = each(lambda many, by: many.make.pull(many.repo, by=by))
    reply_versions = each(lambda many, by: many.reply.revise(by=by, body=f"Says {by.username}."))
    reviews = each(lambda many, by: many.make.review(many.pull, by=by))
    thread_versions = each(lambda many, by: many.thread.revise(by=by, body=f"Says {by.username}."))
    threads = each(lambda many, by: many.make.thread(many.repo, by=by))

    def __init__(self, sample: SampleData, count: int) -> None:
        self.sample, self.make, self.count = sample, sample.make, count
        self.repo = sample.repos["team", Visibility.PRIVATE]
        self.thread = sample.threads[self.repo.pk]
        self.reply, self.pull = sample.replies[self.repo.pk], sample.pulls[self.repo.pk]
        self.bob = sample.people["bob"]
        self.people = User.objects.bulk_create(
            User(username=f"many{n}-{count}", username_key=f"many{n}-{count}") for n in range(count)
        )

    def tokens(self) -> None:
        for _ in self.people:
            create_token(principal=principal_of(self.bob), owner=self.bob, name="one of many")

    def entries(self) -> None:
        """Entries of the audit log, each by another user, about the team and its repository."""
        for person in self.people:
            values: Any = {"team_id": self.sample.acme.pk, "repo_id": self.repo.pk, "data": {}}
            values |= {"target": {"kind": "team"}, "created_at": timezone.now()}
            AuditEntry.objects.create(kind="team-updated", actor=person, **values)

    def bots(self) -> None:
        for person in self.people:
            person.is_bot = True
            person.save(update_fields=["is_bot"])
            MemberFactory.create(team=self.sample.acme, user=person, added_by=self.bob)

    def tokens_of_bot(self) -> None:
        robot, repo = self.sample.people["robot"], self.repo
        for _ in self.people:
            create_token(principal=None, owner=robot, name="many", repo_paths=[repo.path])

    def invites(self) -> None:
        """Accepted invites, each by another user."""
        soon = timezone.now() + dt.timedelta(days=1)
        Invite.objects.bulk_create(
            Invite(created_by=one, accepted_by=one, accepted_at=soon, expires_at=soon)
            for one in self.people
        )

    def teams(self) -> None:
        for person in self.people:
            MemberFactory.create(team=TeamFactory.create(owner=person), user=self.bob)

    def rate_limits(self) -> None:
        sam = self.sample.people["sam"]
        for person in self.people:
            scope = f"user:{person.username}"
            create_rate_limit(
                principal=principal_of(sam), scope=scope, max_requests=9, window_seconds=60
            )

    def repos(self) -> None:
        Repo.objects.bulk_create(
            Repo(owner_team=self.sample.acme, name="r", slug=f"many-{self.count}-{person.pk}")
            for person in self.people
        )

    def protections(self) -> None:
        for person in self.people:
            branch, alice = f"release-{person.pk}", self.sample.alice
            self.make.protection(self.repo, branch, by=alice, approver=self.bob)

    def statuses(self) -> None:
        for person in self.people:
            MemberFactory.create(team=self.sample.acme, user=person)
            access, context = access_of(person, self.repo), f"ci/{person.pk}"
            sha = commit_of(self.repo)
            create_status(access=access, sha=sha, context=context, state="success")

    def webhooks(self) -> None:
        of_repo, of_team = {"repo": self.repo}, {"team": self.sample.acme}
        for person in self.people:
            for owner in (of_repo, of_team, {}):
                webhook_by(person, **owner)

    def deploy_keys(self) -> None:
        for person in self.people:
            ssh_key_of(person, repo=self.repo)

    def deliveries(self) -> None:
        webhook = Webhook.objects.earliest("pk")
        values: Any = {"status": DeliveryStatus.SUCCEEDED, "duration_ms": 1, "request_body": "{}"}
        Delivery.objects.bulk_create(Delivery(webhook=webhook, **values) for _ in self.people)

    def approvers(self) -> None:
        for person in self.people:
            MemberFactory.create(team=self.sample.acme, user=person)
            protection = self.sample.protections[self.repo.pk]
            by = access_of(self.sample.alice, self.repo)
            add_approver(access=by, protection=protection, user=person)

    def forks(self) -> None:
        for person in self.people:
            fork = ForkFactory.create(upstream=self.repo, owner=person, created_by=person)
            Repo.objects.filter(fork=fork).update(visibility=Visibility.PUBLIC)

    def replies(self) -> None:
        last = None
        for person in self.people:
            last = self.make.reply(self.thread, by=person, to=last)

    def comments(self) -> None:
        for person in self.people:
            reply = self.make.reply(self.pull.thread, by=person)
            lines = {"path": b"a", "start_line": 1, "line": 2, "snippet": ["a", "b"]}
            anchor = Anchor(
                reply=reply, thread=reply.thread, number=reply.number, commit_sha=SHA, **lines
            )
            anchor.set_outcome(SHA, anchor.lines)
            anchor.save()

    def versions(self) -> None:
        """Versions of the pull, each pushed by another person; the newest has a file and a commit
        more.
        """
        pull, signature = self.pull, Signature("A", "a@example.org", EPOCH)
        for person in self.people:
            pull.last_version += 1
            of = dict.fromkeys(("commit_count", "changed_files"), pull.last_version)
            row = PullVersion.objects.create(
                pull=pull,
                version=pull.last_version,
                head_sha=SHA,
                base_sha=SHA,
                pushed_by=person,
                **of,
            )
            commit = Commit(SHA, SHA, (SHA,), signature, signature, "Say hello")
            file = FileChange(b"a", None, "added", 1, 0, False, SHA, None, "100644", None)
            VersionContents.objects.create(
                version=row,
                commits=pack([commit] * pull.last_version),
                files=pack([file] * pull.last_version),
            )
        pull.save(update_fields=["last_version"])

    def events(self) -> None:
        """Events of threads, pulls, reviews, replies, members and repositories, by many users.

        Each kind is by some of the users; if there is only one, all are by this one.
        """
        everybody = self.people
        sorts = [self.threads, self.pulls, self.reviews, self.replies, self.members]
        sorts.append(self.repos_with_threads)
        for first, add in enumerate(sorts):
            self.people = everybody[first :: len(sorts)] or everybody
            add()

    def across(self) -> None:
        """Threads and pulls of others, each in its own repository."""
        for person in self.people:
            repo = self.make.repo(self.sample.acme, by=self.bob)
            self.make.thread(repo, by=self.bob)
            self.make.pull(repo, by=self.bob)
            Thread.objects.filter(repo=repo).update(created_by=person)

    def branches(self) -> None:
        self.refs("refs/heads/")

    def tags(self) -> None:
        self.refs("refs/tags/")

    def refs(self, namespace: str) -> None:
        Ref.objects.bulk_create(
            Ref(
                repo=self.repo,
                full_name=f"{namespace}of/{person.username}",
                sha=SHA,
                peeled_sha=SHA,
                pushed_by=person,
            )
            for person in self.people
        )

    def repos_with_threads(self) -> None:
        for person in self.people:
            repo = self.make.repo(self.sample.acme, by=person)
            self.make.thread(repo, by=self.bob)


def webhook_by(person: User, **owner: Any) -> Webhook:
    return Webhook.objects.create(
        **owner, url="https://ci.example.org/", cursor_event_id=0, created_by=person
    )


REPLY = "/teams/{team_slug}/repos/{repo_slug}/threads/{number}/replies/{reply_number}"
LISTS: dict[str, Callable[[Many], Any]] = {
    "/api-tokens": Many.tokens,
    "/rate-limits": Many.rate_limits,
    "/signup-invites": Many.invites,
    "/users": lambda many: many.people,
    "/teams": Many.teams,
    "/teams/{team_slug}/members": Many.members,
    "/teams/{team_slug}/bots": Many.bots,
    "/teams/{team_slug}/bots/{username}/api-tokens": Many.tokens_of_bot,
    "/audit": Many.entries,
    "/teams/{team_slug}/audit": Many.entries,
    "/webhooks": Many.webhooks,
    "/webhooks/{webhook_uuid}/deliveries": Many.deliveries,
    "/teams/{team_slug}/webhooks": Many.webhooks,
    "/teams/{team_slug}/webhooks/{webhook_uuid}/deliveries": Many.deliveries,
    "/teams/{team_slug}/repos/{repo_slug}/webhooks": Many.webhooks,
    "/teams/{team_slug}/repos/{repo_slug}/webhooks/{webhook_uuid}/deliveries": Many.deliveries,
    "/teams/{team_slug}/repos": Many.repos,
    "/teams/{team_slug}/repos/{repo_slug}/keys": Many.deploy_keys,
    "/teams/{team_slug}/repos/{repo_slug}/protections": Many.protections,
    "/teams/{team_slug}/repos/{repo_slug}/protections/{protection_uuid}/approvers": Many.approvers,
    "/teams/{team_slug}/repos/{repo_slug}/commits/{sha}/statuses": Many.statuses,
    "/teams/{team_slug}/repos/{repo_slug}/forks": Many.forks,
    "/teams/{team_slug}/repos/{repo_slug}/threads": Many.threads,
    "/teams/{team_slug}/repos/{repo_slug}/threads/{number}": Many.replies,
    "/teams/{team_slug}/repos/{repo_slug}/threads/{number}/replies": Many.replies,
    "/teams/{team_slug}/repos/{repo_slug}/threads/{number}/participants": Many.replies,
    "/teams/{team_slug}/repos/{repo_slug}/threads/{number}/versions": Many.thread_versions,
    f"{REPLY}/versions": Many.reply_versions,
    "/teams/{team_slug}/repos/{repo_slug}/branches": Many.branches,
    "/teams/{team_slug}/repos/{repo_slug}/tags": Many.tags,
    "/teams/{team_slug}/repos/{repo_slug}/pulls": Many.pulls,
    "/teams/{team_slug}/repos/{repo_slug}/pulls/{number}/reviews": Many.reviews,
    "/teams/{team_slug}/repos/{repo_slug}/pulls/{number}/comments": Many.comments,
    "/teams/{team_slug}/repos/{repo_slug}/pulls/{number}/versions": Many.versions,
    "/teams/{team_slug}/repos/{repo_slug}/pulls/{number}/commits": Many.versions,
    "/teams/{team_slug}/repos/{repo_slug}/pulls/{number}/files": Many.versions,
    "/threads": Many.across,
    "/pulls": Many.across,
    "/events": Many.events,
    "/pings": Many.pings,
}


REPO = "/teams/{team_slug}/repos/{repo_slug}"
BY_GIT = {f"{REPO}{end}" for end in ("/commits", "/tree", "/tree/{path}")}
"""Lists from git; tests/browse/ tries these."""
FOR_STAFF = {"/rate-limits", "/signup-invites"}
FOR_STAFF |= {path for path in LISTS if "/webhooks" in path or path.endswith(("/audit", "/keys"))}


def commit_of(repo: Repo) -> str:
    """A commit that is stored, always the same."""
    return code_of(repo).commit_with({b"a": b"a"})


def test_every_list_is_tried_with_many_rows():
    paged = {one.path for one in routed() if one.action == "list" and "/users/" not in one.path}
    assert paged - BY_GIT == set(LISTS) - {"/teams/{team_slug}/repos/{repo_slug}/threads/{number}"}


@pytest.mark.parametrize("path", LISTS)
def test_four_rows_cost_what_one_does(path, sample, db):
    thread, pull = (
        some[sample.repos["team", Visibility.PRIVATE].pk] for some in (sample.threads, sample.pulls)
    )
    number = pull.number if "/pulls" in path else thread.number
    protection = sample.protections[pull.repo_id].uuid
    reply = sample.replies[pull.repo_id].number
    names = {"team_slug": "acme", "repo_slug": "private", "reply_number": reply}
    names |= {"protection_uuid": protection, "username": "robot"}
    names |= {"sha": commit_of(pull.repo)} if "{sha}" in path else {}
    if "{webhook_uuid}" in path:
        in_repo, in_team = "{repo_slug}" in path, "{team_slug}" in path
        owner = {"repo": pull.repo} if in_repo else {"team": sample.acme} if in_team else {}
        names |= {"webhook_uuid": webhook_by(sample.alice, **owner).uuid}
    filled = path.format(number=number, **names) + "?per_page=100"
    filled += "&scope=self&scope=team:acme&scope=repo:teams/acme/private"
    api = sample.api("sam" if path in FOR_STAFF or "/bots/" in path else "bob")
    limits.limit_cache.get()  # as before any request but the first
    costs, sizes = [], []
    for count in (1, 4):
        many = Many(sample, count)
        with while_allowed(many.repo):
            LISTS[path](many)
        with costing() as cost:
            page = api.get(filled).gives()
        costs.append(str(cost))
        sizes.append(len(page.get("results", page.get("replies", []))))
    assert sizes[1] >= sizes[0] + 4
    assert costs[0].endswith(" 0 git")
    assert costs[1] == costs[0]

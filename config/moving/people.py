"""The data of one person as JSON lines: their account, and their own texts and events that they may
read now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from django.db.models import F

from apps.accounts.models import NOT_GONE
from apps.accounts.principal import Principal
from apps.accounts.queries import list_sessions, list_tokens, load_repos
from apps.accounts.serializers import session_record, token_record, user_record
from apps.core import json
from apps.core.access import Level
from apps.events.models import Event
from apps.events.queries import list_pings, ping_row, ping_values
from apps.events.serializers import event_records, ping_records
from apps.pulls.draft_reviews import DraftReview
from apps.pulls.draft_serializers import draft_record
from apps.pulls.models import PULL_ROW, Pull, Review
from apps.pulls.serializers import pull_records, review_record
from apps.repos.models import Repo, RepoPath
from apps.repos.views import repo_records
from apps.teams.queries import list_teams
from apps.teams.serializers import team_record
from apps.threads.models import (
    ANCHORED_ROW,
    THREAD_ROW,
    Reply,
    ReplyVersion,
    Thread,
    ThreadKind,
    ThreadVersion,
)
from apps.threads.queries import OF_REPLY_VERSION, OF_THREAD_VERSION, version_records
from apps.threads.serializers import reply_record, thread_record
from apps.uploads.models import Upload
from apps.uploads.serializers import upload_record
from config.moving.exporting import BATCH, Records, in_batches


def write_person(principal: Principal, base: str, file: IO[bytes]) -> int:
    """Write a line `{"type": …, "record": …}` for each record; return the number of lines.

    Lines of replies, versions, reviews, drafts and uploads also have `repo_path`. `base`: scheme
    and host of addresses. `OSError`. Each type takes one query, and one or two more for 500 rows.
    """
    count = 0
    for kind, records in PersonExport(principal, base).types().items():
        for line in records():
            file.write(json.dumps({"type": kind, **line}) + b"\n")
            count += 1
    return count


class PersonExport:
    """The lines of each type."""

    def __init__(self, principal: Principal, base: str) -> None:
        self.principal, self.user, self.base = principal, principal.user, base

    def types(self) -> dict[str, Callable[[], Records]]:
        return {
            "account": self.account,
            "team": self.teams,
            "session": self.sessions,
            "token": self.tokens,
            "identity": self.identities,
            "repository": self.repositories,
            "thread": self.threads,
            "thread_version": self.thread_versions,
            "reply": self.replies,
            "reply_version": self.reply_versions,
            "pull": self.pulls,
            "review": self.reviews,
            "draft_review": self.draft_reviews,
            "upload": self.uploads,
            "ping": self.pings,
            "event": self.events,
        }

    def readable(self, path: str) -> Any:
        """The condition for rows of repositories that the person may read."""
        return Repo.objects.where_readable(self.principal, path)

    def account(self) -> Records:
        yield {"record": user_record(self.user, self.principal, self.base)}

    def teams(self) -> Records:
        teams: Any = list_teams(self.principal)
        for team in teams:
            yield {"record": team_record(team, team.caller_role)}

    def sessions(self) -> Records:
        for session in list_sessions(self.user).iterator(BATCH):
            yield {"record": session_record(session)}

    def tokens(self) -> Records:
        for batch in in_batches(list_tokens(self.user).iterator(BATCH)):
            for token in load_repos(batch, self.principal):
                yield {"record": token_record(token)}

    def identities(self) -> Records:
        names = ("issuer", "subject", "name", "created_at", "last_used_at")
        for values in self.user.identities.order_by("pk").values(*names):
            yield {"record": values}

    def repositories(self) -> Records:
        rows = self.user.repos.filter(NOT_GONE).order_by("slug").rows()
        for batch in in_batches(rows.iterator(BATCH)):
            owner, level = self.user.path, Level.OWNER
            for record in repo_records(batch, self.principal, owner, level, self.base):
                yield {"record": record}

    def threads(self) -> Records:
        rows = Thread.objects.existing().filter(self.readable("repo"), created_by=self.user)
        rows = rows.exclude(kind=ThreadKind.PULL).order_by("pk")
        for row, repo in with_paths(rows, THREAD_ROW.values(), "repo__"):
            yield {"record": thread_record(row, repo, self.base)}

    def replies(self) -> Records:
        rows = Reply.objects.live().filter(self.readable("thread__repo"), created_by=self.user)
        rows = rows.filter(thread__deleted_at=None).order_by("pk")
        columns = ("thread__number", *ANCHORED_ROW.values())
        for (number, *row), repo in with_paths(rows, columns, "thread__repo__"):
            yield {"repo_path": repo.path, "record": reply_record(row, number)}

    def thread_versions(self) -> Records:
        """All texts that the person's threads and pulls have had."""
        rows = ThreadVersion.objects.filter(self.readable("thread__repo"))
        rows = rows.filter(thread__created_by=self.user, thread__deleted_at=None)
        rows = rows.order_by("thread", "version")
        yield from versions(
            rows, OF_THREAD_VERSION, "thread__repo__", thread_number=F("thread__number")
        )

    def reply_versions(self) -> Records:
        """All texts that the person's replies have had."""
        rows = ReplyVersion.objects.filter(self.readable("reply__thread__repo"))
        rows = rows.filter(
            reply__created_by=self.user, reply__deleted_at=None, reply__thread__deleted_at=None
        )
        numbers = {"thread_number": F("reply__thread__number"), "reply_number": F("reply__number")}
        rows = rows.order_by("reply", "version")
        yield from versions(rows, OF_REPLY_VERSION, "reply__thread__repo__", **numbers)

    def pulls(self) -> Records:
        rows = Pull.objects.visible_to(self.principal)
        rows = rows.filter(thread__created_by=self.user, thread__deleted_at=None)
        pairs = with_paths(rows.order_by("pk"), PULL_ROW.values(), "repo__")
        for batch in in_batches(pairs):
            for record in pull_records(batch, self.principal, self.base):
                yield {"record": record}

    def reviews(self) -> Records:
        """The reviews without the fields that depend on the rest of the pull."""
        rows = Review.objects.filter(self.readable("pull__repo"), created_by=self.user)
        rows = rows.filter(pull__thread__deleted_at=None)
        owners = ("pull__repo__owner_team", "pull__repo__owner_user")
        rows = rows.select_related("created_by", "dismissed_by", *owners).defer("body_html")
        for review in rows.order_by("pk").iterator(BATCH):
            yield {"repo_path": review.pull.repo.path, "record": review_record(review, None)}

    def draft_reviews(self) -> Records:
        """The reviews that the person has not sent, with their comments."""
        rows = DraftReview.objects.filter(self.readable("pull__repo"), created_by=self.user)
        rows = rows.filter(pull__thread__deleted_at=None)
        owners = ("pull__repo__owner_team", "pull__repo__owner_user")
        rows = rows.select_related("pull", *owners).defer("body_html")
        for draft in rows.prefetch_related("comments").order_by("pk").iterator(BATCH):
            yield {"repo_path": draft.pull.repo.path, "record": draft_record(draft)}

    def uploads(self) -> Records:
        rows = Upload.objects.filter(self.readable("repo"), created_by=self.user, deleted_at=None)
        owners = ("repo__owner_team", "repo__owner_user")
        for upload in rows.select_related("created_by", *owners).order_by("pk").iterator(BATCH):
            yield {"repo_path": upload.repo.path, "record": upload_record(upload, self.base)}

    def pings(self) -> Records:
        rows = ping_values(list_pings(self.principal)).iterator(BATCH)
        for batch in in_batches(rows):
            for record in ping_records([ping_row(row) for row in batch], self.base):
                yield {"record": record}

    def events(self) -> Records:
        """The events that the person caused, oldest first."""
        rows = Event.objects.filter(actor=self.user).visible_to(self.principal).order_by("id")
        last = 0
        while batch := rows.filter(id__gt=last)[:BATCH].rows():
            last = batch[-1].id
            for record in event_records(batch, self.base):
                yield {"record": record}


def versions(rows: Any, columns: Sequence[str], repo: str, **numbers: F) -> Records:
    """The lines of versions of threads or replies, with the numbers of these. `repo`: as below."""
    paths = {f"path_{name}": F(name) for name in RepoPath.columns(repo)}
    for record in version_records(rows, columns, **numbers, **paths).iterator(BATCH):
        path = RepoPath(*(record.pop(name) for name in paths)).path
        yield {"repo_path": path, "record": record}


def with_paths(rows: Any, columns: Any, repo: str) -> Iterator[tuple[list[Any], RepoPath]]:
    """The values of these columns, and the path of the repository of each row. `repo`: the query
    path to the columns of the repository.
    """
    paths = RepoPath.columns(repo)
    for values in rows.values_list(*columns, *paths).iterator(BATCH):
        yield list(values[: -len(paths)]), RepoPath(*values[-len(paths) :])

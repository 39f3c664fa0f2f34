"""Writes the archive of a repository, with the records of the API as one person sees them.

People may work meanwhile: all rows, and the refs of the git bundle, are those of one snapshot.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from fcntl import LOCK_SH
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

from django.conf import settings
from django.db.models import F, Q
from django.utils import timezone

from apps.accounts.models import NOT_GONE, User
from apps.accounts.principal import Principal
from apps.core.transactions import snapshot
from apps.events.models import Event
from apps.events.serializers import event_records
from apps.git.repo import pull_ref
from apps.git.store import tidy_lock
from apps.pulls.approval import Eligibility
from apps.pulls.models import PULL_ROW, Pull, PullVersion, Review
from apps.pulls.serializers import pull_records, review_record
from apps.pulls.versions import version_records as pull_version_records
from apps.repos.access import RepoAccess, open_repo
from apps.repos.models import Approver, Repo
from apps.repos.queries import list_protections
from apps.repos.serializers import approver_record
from apps.repos.views import protection_records, repo_records
from apps.teams.models import Role
from apps.threads.models import (
    ANCHORED_ROW,
    THREAD_ROW,
    Reply,
    ReplyVersion,
    Thread,
    ThreadVersion,
)
from apps.threads.queries import OF_REPLY_VERSION, OF_THREAD_VERSION, SHOWN, version_records
from apps.threads.serializers import reply_record, thread_record
from apps.uploads import files
from apps.uploads.models import Upload
from apps.uploads.serializers import upload_record
from config.moving.archive import BUNDLE, FORMAT, MANIFEST, ArchiveWriter

BATCH = 500
"""Most rows that are in memory at once."""
Records = Iterator[dict[str, Any]]


def default_reader(repo: Repo) -> User:
    """The person by whose rights a repository is exported: its owner, or the first active owner of
    its team. `ValueError` if the team has none.
    """
    if repo.owner_user is not None:
        return repo.owner_user
    owners = User.objects.filter(
        NOT_GONE, is_active=True, memberships__team=repo.owner_team, memberships__role=Role.OWNER
    )
    owner = owners.order_by("memberships__created_at", "pk").first()
    if owner is None:
        raise ValueError(f"{repo.owner} has no active owner: name a reader with --as.")
    return owner


def export_repo(
    principal: Principal, owner: str, slug: str, base: str, archive: ArchiveWriter
) -> None:
    """Write everything of a repository that the principal sees. `base`: scheme and host of the
    addresses in records. Errors: `GitError`, `OSError`, those of `open_repo`.
    """
    folder = open_repo(principal, owner, slug).repo.git.path
    with ExitStack() as objects_stay:
        objects_stay.enter_context(tidy_lock(folder, LOCK_SH))
        with snapshot():
            access = open_repo(principal, owner, slug)
            _add_bundle(archive, access.repo)
            objects_stay.close()  # the worker may go on with its upkeep
            missing = _add_rows(archive, access, base)
    if lost := used_uploads(access.repo).filter(sha256__in=missing).first():
        raise FileNotFoundError(f"The file of the upload {lost.uuid} is missing.")


def _add_rows(archive: ArchiveWriter, access: RepoAccess, base: str) -> list[str]:
    """Add all files but the bundle. Returns the names of the files of uploads that are missing."""
    repo = access.repo
    records = repo_records([repo], access.principal, repo.owner.path, access.level, base)
    archive.add_record("repository.json", records[0])
    export = Export(access, base)
    for name, lines in export.files().items():
        archive.add_lines(name, lines())
    missing = list(_add_contents(archive, repo))
    archive.add_lines("uploads", export.uploads(missing))
    manifest = {
        "format": FORMAT,
        "guildhall": settings.SPECTACULAR_SETTINGS["VERSION"],
        "exported_at": timezone.now(),
        "exported_as": access.user.username,
        "source": base,
        "path": repo.path,
        "newest_event": Event.objects.newest_id(),
        "last_number": repo.last_number,
        "counts": archive.counts,
    }
    archive.add_record(MANIFEST, manifest)
    return missing


def _add_bundle(archive: ArchiveWriter, repo: Repo) -> None:
    """Add the bundle of all branches and tags, as they are stored, and of the commits that pulls
    keep. `GitError`, `OSError`.
    """
    refs = {**_kept_refs(repo), **dict(repo.refs.values_list("full_name", "sha"))}
    if refs:
        with archive.part(BUNDLE) as file:
            repo.git.write_bundle(refs, file.write)


def _kept_refs(repo: Repo) -> dict[str, str]:
    """The refs that keep the commits of the stored pulls. Those of their heads may have moved since
    in git, or be missing until the worker has created them.
    """
    columns = ("number", "last_version", "head_sha")
    pulls = {number: row for number, *row in repo.pulls.values_list(*columns)}
    refs = {}
    for name, sha in repo.git.kept_refs().items():
        _, namespace, number, last = name.split("/")
        versions, _ = pulls.get(int(number), (0, None))
        if int(number) in pulls and (namespace != "versions" or int(last) <= versions):
            refs[name] = sha
    heads = {pull_ref(number): head for number, (_, head) in pulls.items() if head}
    forgotten = repo.git.missing(set(heads.values()))
    return refs | {name: head for name, head in heads.items() if head not in forgotten}


class Export:
    """The lines of each file."""

    def __init__(self, access: RepoAccess, base: str) -> None:
        self.access, self.repo, self.base = access, access.repo, base

    def files(self) -> dict[str, Callable[[], Records]]:
        return {
            "threads": self.threads,
            "thread_versions": self.thread_versions,
            "replies": self.replies,
            "reply_versions": self.reply_versions,
            "pulls": self.pulls,
            "pull_versions": self.pull_versions,
            "reviews": self.reviews,
            "protections": self.protections,
            "approvers": self.approvers,
            "events": self.events,
        }

    def of_threads(self, path: str = "") -> Q:
        """The condition for rows of existing threads. `path`: the query path to the thread."""
        return Q((f"{path}repo", self.repo), (f"{path}deleted_at", None))

    def threads(self) -> Records:
        """The threads, also those of pulls."""
        rows = Thread.objects.filter(self.of_threads()).order_by("number")
        for row in rows.values_list(*THREAD_ROW.values()).iterator(BATCH):
            yield thread_record(row, self.repo, self.base)

    def thread_versions(self) -> Records:
        rows = ThreadVersion.objects.filter(self.of_threads("thread__"))
        rows = rows.order_by("thread__number", "version")
        number = F("thread__number")
        yield from version_records(rows, OF_THREAD_VERSION, thread_number=number).iterator(BATCH)

    def replies(self) -> Records:
        """The replies in the order of their trees. Those of deleted replies, too, have the number
        of their thread.
        """
        rows = Reply.objects.filter(SHOWN, self.of_threads("thread__"))
        rows = rows.order_by("thread__number", "path")
        columns = ("thread__number", *ANCHORED_ROW.values())
        for number, *row in rows.values_list(*columns).iterator(BATCH):
            yield {"thread_number": number, **reply_record(row, number)}

    def reply_versions(self) -> Records:
        """The versions of live replies. Only staff may read those of deleted ones."""
        rows = ReplyVersion.objects.filter(self.of_threads("reply__thread__"))
        rows = rows.filter(reply__deleted_at=None)
        numbers = {"thread_number": F("reply__thread__number"), "reply_number": F("reply__number")}
        rows = rows.order_by("reply__thread__number", "reply__number", "version")
        yield from version_records(rows, OF_REPLY_VERSION, **numbers).iterator(BATCH)

    def pulls(self) -> Records:
        rows = Pull.objects.filter(self.of_threads("thread__")).order_by("number")
        for batch in in_batches(rows.values_list(*PULL_ROW.values()).iterator(BATCH)):
            pairs = [(row, self.repo) for row in batch]
            yield from pull_records(pairs, self.access.principal, self.base)

    def pull_versions(self) -> Records:
        rows = PullVersion.objects.filter(self.of_threads("pull__thread__"))
        rows = rows.order_by("pull__number", "version")
        yield from pull_version_records(rows, pull_number=F("pull__number")).iterator(BATCH)

    def reviews(self) -> Records:
        """The reviews. Each pull with reviews takes up to two queries, and maybe gits, because it
        is computed whether they count and are stale.
        """
        rows = Review.objects.filter(self.of_threads("pull__thread__")).with_people(self.repo)
        rows = rows.select_related("created_by", "dismissed_by", "pull__thread")
        rows = rows.order_by("pull__number", "created_at", "id")
        for pull, reviews in groupby(rows.iterator(BATCH), attrgetter("pull")):
            pull.repo = self.repo
            eligibility = Eligibility.of(pull)
            for review in reviews:
                review.pull = pull
                yield review_record(review, eligibility)

    def protections(self) -> Records:
        yield from protection_records(self.repo, list(list_protections(self.repo)))

    def approvers(self) -> Records:
        """The approvers of all protections, each with the pattern of its protection."""
        rows = Approver.objects.filter(protection__repo=self.repo)
        rows = rows.select_related("protection", "user", "added_by")
        for approver in rows.order_by("protection__created_at", "protection", "created_at", "id"):
            yield {"branch": approver.protection.branch, **approver_record(approver)}

    def events(self) -> Records:
        rows = Event.objects.filter(repo_id=self.repo.pk).visible_to(self.access.principal)
        rows = rows.order_by("id")
        last = 0
        while batch := rows.filter(id__gt=last)[:BATCH].rows():
            last = batch[-1].id
            yield from event_records(batch, self.base)

    def uploads(self, missing: list[str]) -> Records:
        """The uploads whose contents are in the archive: all except these SHA-256."""
        rows = used_uploads(self.repo).exclude(sha256__in=missing).select_related("created_by")
        for upload in rows.iterator(BATCH):
            yield upload_record(upload, self.base)


def used_uploads(repo: Repo) -> Any:
    """The uploads that texts refer to. Others are removed after a day."""
    return Upload.objects.filter(repo=repo, is_used=True, deleted_at=None).order_by("sha256", "pk")


def _add_contents(archive: ArchiveWriter, repo: Repo) -> Iterator[str]:
    """Add the files of uploads as `uploads/<SHA-256>`. Yields the names of those that are missing:
    they may have been removed since the snapshot. `OSError`.
    """
    rows = used_uploads(repo).values_list("sha256", flat=True).distinct()
    for digest in rows.order_by("sha256").iterator(BATCH):
        try:
            source = files.open_file(digest)
        except FileNotFoundError:
            yield digest
            continue
        with source, archive.part(f"uploads/{digest}") as target:
            shutil.copyfileobj(source, target)


def in_batches(rows: Iterable[Any]) -> Iterator[list[Any]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH)):
        yield batch

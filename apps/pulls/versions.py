"""Versions of a pull: one for each head, with its commits and changed files.

git is asked for them before any lock. If it could not tell, or if the pull is older than versions,
the worker or the first reader asks later. Functions with a `throttle_key` hold a slot for heavy
reads under it while git works.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any, TypeAlias

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from apps.browse.cache import (
    Patches,
    cached,
    cached_patches,
    decode_commit,
    decode_file,
    pack,
    too_expensive,
    unpack,
)
from apps.browse.names import find_commits
from apps.browse.read_slots import heavy_slots
from apps.core.errors import Invalid, git_failed
from apps.core.locks import lock
from apps.core.lookup import get_or_missing
from apps.git.cache import GitFacts
from apps.git.diff import FileChange, changes, patches
from apps.git.exports import write_diff, write_patches
from apps.git.log import Commit, log
from apps.git.repo import EMPTY_TREE, DiffStat, GitRepo, pull_ref
from apps.git.run import GitError, GitTimeout, GitTooLarge
from apps.pulls.models import STATISTICS, Pull, PullVersion, VersionContents, set_statistics
from apps.repos.models import Repo
from apps.repos.pushes import distance_of
from apps.repos.rules import RefMove
from apps.threads.anchors import Anchor, Side

COMMITS_MOST = 1000
"""Most commits that are listed of a version; the newest are kept."""
REF_WAIT = dt.timedelta(minutes=1)
"""Time after which the worker creates the ref of a version whose process died before it did."""
RETRY_WAIT = dt.timedelta(minutes=10)
"""Wait after git could not tell the contents of a version; it doubles with each failure."""
MOST_DOUBLED = 12
"""How often that wait doubles at most."""


@dataclass(frozen=True)
class Contents:
    """The commits and files between two commits, packed and maybe truncated; all in numbers."""

    merge_base: str | None
    statistics: DiffStat
    commits: bytes
    files: bytes


def contents_between(git: GitRepo, base: str, head: str) -> Contents:
    """The commits and changes of `head` since its merge base with `base`; all of them without a
    common history. `GitError` if git takes too long or its output is too large.
    """
    merge_base = git.merge_base(base, head)
    difference = changes(git, merge_base, head)
    commits = log(git, head, count=COMMITS_MOST, exclude=base, reverse=True)
    count = len(commits)
    if count == COMMITS_MOST:
        count = git.distance(base, head).gained
    statistics = DiffStat(count, difference.additions, difference.deletions, difference.total)
    return Contents(merge_base, statistics, pack(commits), pack(difference.files))


def contents_if_told(git: GitRepo, base: str, head: str) -> Contents | None:
    """The contents; None if git cannot tell."""
    with suppress(GitError):
        return contents_between(git, base, head)
    return None


NewVersion: TypeAlias = tuple[PullVersion, Contents | None]
"""A new head of a pull, not yet stored, and its contents if git could tell."""


def new_versions(
    pull: Pull, base: str | None, heads: Sequence[tuple[str, int | None]], facts: GitFacts
) -> list[NewVersion]:
    """The versions of heads, with who pushed each, which follow the pull's head. Writes nothing."""
    versions: list[NewVersion] = []
    before = pull.head_sha
    for head, pushed_by_id in heads:
        contents = facts.ask(contents_if_told, pull.repo.git, base, head) if base else None
        version = PullVersion(pull=pull, head_sha=head, base_sha=base, pushed_by_id=pushed_by_id)
        version.is_forced = _is_forced(pull, before, head, facts)
        versions.append((version, contents))
        before = head
    return versions


def _is_forced(pull: Pull, before: str | None, head: str, facts: GitFacts) -> bool | None:
    if before is None:
        return False
    move = RefMove(pull.repo, pull.source_ref, before, head, None)
    distance = distance_of(move, facts)
    return None if distance is None else distance.lost > 0


def write_versions(pull: Pull, new: Sequence[NewVersion]) -> list[PullVersion]:
    """Store new versions of a pull. `pull.last_version` already counts them."""
    for number, (version, contents) in enumerate(new, pull.last_version - len(new) + 1):
        version.version, version.due_at = number, timezone.now() + REF_WAIT
        if contents is not None:
            set_contents(version, contents)
        elif version.base_sha is not None:
            put_off(version)
    rows = PullVersion.objects.bulk_create(version for version, _ in new)
    VersionContents.objects.bulk_create(
        VersionContents(version=version, commits=contents.commits, files=contents.files)
        for version, contents in new
        if contents is not None
    )
    return rows


def set_contents(version: PullVersion, contents: Contents) -> None:
    """Set the merge base and the statistics of a version, without saving it."""
    version.changes_due_at = timezone.now()
    version.merge_base_sha = contents.merge_base
    set_statistics(version, contents.statistics)


def put_off(version: PullVersion) -> None:
    """Set the time of the next attempt after a failure, without saving."""
    version.due_at = timezone.now() + RETRY_WAIT * 2 ** min(version.tries, MOST_DOUBLED)
    version.tries += 1


def note_base(pull: Pull) -> None:
    """Set the base of the newest version, if its target did not exist when it was pushed."""
    if pull.base_sha is None:
        return
    rows = PullVersion.objects.filter(pull=pull, version=pull.last_version, base_sha=None)
    rows.update(base_sha=pull.base_sha, due_at=timezone.now())


def mark_complete(new: Sequence[PullVersion]) -> None:
    """Take versions whose refs are created out of the worker's queue, if they have contents."""
    if new:
        needs_no_contents = Q(base_sha=None) | Q(commit_count__isnull=False)
        pks = [version.pk for version in new]
        PullVersion.objects.filter(needs_no_contents, pk__in=pks).update(due_at=None)


@contextmanager
def putting_off(version: PullVersion) -> Iterator[None]:
    """Ask git for the version's contents inside this block. An error delays the next attempt."""
    try:
        yield
    except Exception:
        put_off(version)
        version.save(update_fields=["due_at", "tries"])
        raise


def read_contents(version: PullVersion) -> None:
    """Ask git for the contents of a version, and store them. `GitError`."""
    if version.base_sha is None or version.is_known:
        return
    contents = contents_between(version.pull.repo.git, version.base_sha, version.head_sha)
    with transaction.atomic():
        lock(version)
        if not version.is_known:  # another process may have stored them meanwhile
            set_contents(version, contents)
            version.save()
            packed = {"commits": contents.commits, "files": contents.files}
            VersionContents.objects.create(version=version, **packed)
            # Comments on the old side follow its merge base.
            old = Anchor.objects.filter(thread=version.pull.thread_id, side=Side.OLD.value)
            old.update(due_at=timezone.now())


def list_versions(pull: Pull) -> QuerySet[Any, Any]:
    """The records of a pull's versions, oldest first."""
    return version_records(pull.versions.order_by("version"))


def version_records(versions: QuerySet[Any, Any], **further: F) -> QuerySet[Any, Any]:
    """The records of these versions, with further columns."""
    return versions.values(
        "version",
        "head_sha",
        "base_sha",
        "merge_base_sha",
        "created_at",
        "is_forced",
        *STATISTICS,
        pushed_by_uuid=F("pushed_by__uuid"),
        pushed_by_username=F("pushed_by__username"),
        **further,
    )


def get_version(pull: Pull, number: int | None, *, with_files: bool = False) -> PullVersion | None:
    """The version of this number, or the newest one; None if the pull has no head. 404.
    `with_files` reads its stored files in the same query.
    """
    if number is None and not pull.last_version:
        return None
    rows = PullVersion.objects.all()
    if with_files:
        rows = rows.select_related("contents").defer("contents__commits")
    version: PullVersion = get_or_missing(
        rows.filter(pull=pull), "version", "this pull", version=number or pull.last_version
    )
    version.pull = pull
    return version


@dataclass(frozen=True)
class Listing:
    """The changed files between two commits."""

    repo: Repo
    old: str | None
    new: str
    files: Sequence[FileChange]
    """Fewer than `total` if the list is truncated."""
    total: int


NOTHING = Listing(Repo(), None, "", (), 0)
"""The changes of a pull without a head."""


def commits_of(version: PullVersion, throttle_key: str) -> list[Commit]:
    """The newest `COMMITS_MOST` commits of a version, oldest first; 422 `too_expensive`."""
    return [decode_commit(fields) for fields in _stored(version, "commits", throttle_key)]


def files_of(version: PullVersion, throttle_key: str) -> Listing:
    """The files that a version changes; 422 `too_expensive`."""
    files = [decode_file(fields) for fields in _stored(version, "files", throttle_key)]
    old, new = version.merge_base_sha, version.head_sha
    return Listing(version.pull.repo, old, new, files, version.changed_files or 0)


def _stored(version: PullVersion, column: str, throttle_key: str) -> list[dict[str, Any]]:
    if not version.base_sha:
        return []
    if not version.is_known:
        _read_now(version, throttle_key)
    elif PullVersion.contents.is_cached(version):
        return list(unpack(getattr(version.contents, column)))
    rows = VersionContents.objects.filter(version=version).values_list(column, flat=True)
    return list(unpack(rows.get()))


def _read_now(version: PullVersion, throttle_key: str) -> None:
    """422 `too_expensive` if git cannot tell, until the next attempt is due; 503 if git fails."""
    if version.tries and version.due_at and version.due_at > timezone.now():
        raise too_expensive()
    try:
        with heavy_slots.slot(throttle_key), putting_off(version):
            read_contents(version)
    except (GitTimeout, GitTooLarge):
        raise too_expensive() from None
    except GitError as error:
        raise git_failed(error) from None


def files_between(old: PullVersion, new: PullVersion, throttle_key: str) -> Listing:
    """The differences of the heads of two versions; 404 if one is gone, 422 `too_expensive`."""
    repo, heads = new.pull.repo, (old.head_sha, new.head_sha)

    def ask() -> dict[str, Any]:
        with heavy_slots.slot(throttle_key):
            find_commits(repo.git, *heads)  # forget_commit may have removed one
            difference = changes(repo.git, *heads)
        return {"files": difference.files, "total": difference.total}

    try:
        answer = cached(repo, ("files", *heads), ask)
    except GitTooLarge:
        raise too_expensive() from None
    return Listing(repo, *heads, [*map(decode_file, answer["files"])], answer["total"])


def patches_of(
    listing: Listing, files: Sequence[FileChange], throttle_key: str
) -> list[bytes | None]:
    """The patch of each of these files; 422 `too_expensive`."""

    def ask() -> Patches:
        with heavy_slots.slot(throttle_key):
            return patches(listing.repo.git, listing.old, listing.new, files)

    try:
        return cached_patches(listing.repo, ("patches", listing.old, listing.new), files, ask)
    except GitTooLarge:
        raise too_expensive() from None


def diff_of(version: PullVersion, throttle_key: str) -> IO[bytes]:
    """The changes of a version as a diff for `git apply`, from its merge base. 422
    `diff_too_large`, also if `forget_commit` has removed the commits.
    """
    listing = files_of(version, throttle_key)
    if len(listing.files) < listing.total:
        raise _diff_too_large(version.pull)
    if not listing.total:
        return TemporaryFile()
    git, sides = listing.repo.git, (listing.old or EMPTY_TREE, listing.new)
    return _text(version, "diff", throttle_key, lambda file: write_diff(git, *sides, file))


def mails_of(version: PullVersion, throttle_key: str) -> IO[bytes]:
    """The commits of a version as patches for `git am`; 422 `diff_too_large`, also if its diff
    would have too many files.
    """
    listing = files_of(version, throttle_key)
    commits = commits_of(version, throttle_key)
    if len(listing.files) < listing.total or len(commits) < (version.commit_count or 0):
        raise _diff_too_large(version.pull)
    git, sides = version.pull.repo.git, (version.base_sha or "", version.head_sha)
    if not version.commit_count:
        return TemporaryFile()
    return _text(version, "mails", throttle_key, lambda file: write_patches(git, *sides, file))


def _text(
    version: PullVersion, kind: str, throttle_key: str, write: Callable[[IO[bytes]], None]
) -> IO[bytes]:
    """The output of `write` in a temporary file; 422 `diff_too_large`.

    The size is cached, so that a diff that is too large is refused at once the next time.
    """
    with ExitStack() as stack:
        file = stack.enter_context(TemporaryFile())

        def size() -> int | None:
            with heavy_slots.slot(throttle_key), suppress(GitTooLarge):
                write(file)
                return file.tell()
            return None

        question = (kind, version.base_sha, version.merge_base_sha, version.head_sha)
        try:
            length = cached(version.pull.repo, question, size)
            if length and not file.tell():  # the size was cached, the file is empty
                length = size()
        except (GitTimeout, Invalid):
            length = None
        if length is None:
            raise _diff_too_large(version.pull)
        stack.pop_all()
        return file


def _diff_too_large(pull: Pull) -> Invalid:
    """422 with the git command that fetches the pull."""
    text = f"This diff is too large to be shown. Fetch it: git fetch origin {pull_ref(pull.number)}"
    return Invalid("diff_too_large", text)

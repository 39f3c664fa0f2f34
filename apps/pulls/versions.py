"""Versions of a pull: what git says of each is read before any lock, and stored with it.

What git could not tell then, and what was there before there were versions, is due: the worker
asks again, or whoever reads it first.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from apps.browse.cache import Patches, cached, cached_patches, too_expensive
from apps.browse.codec import (
    decode_file,
    encode_file,
    pack_commits,
    pack_files,
    unpack_commits,
    unpack_files,
)
from apps.browse.objects import find_commits
from apps.browse.read_slots import heavy_slots
from apps.core.errors import Invalid, git_failed
from apps.core.locks import lock
from apps.core.lookup import get_or_missing
from apps.git.diff import FileChange, changes, patches
from apps.git.facts import GitFacts
from apps.git.log import Commit, log
from apps.git.repo import EMPTY_TREE, DiffStat, GitRepo, pull_ref
from apps.git.run import GitError, GitTimeout, GitTooLarge
from apps.git.texts import write_diff, write_patches
from apps.pulls.models import Pull, PullVersion, VersionContents
from apps.repos.models import Repo
from apps.repos.pushes import distance_of
from apps.repos.rules import RefMove

COMMITS_MOST = 1000
"""Commits that are listed of a version, the newest."""
SOON = dt.timedelta(minutes=1)
"""After that the worker makes the ref of a version whose process has died."""
WAIT = dt.timedelta(minutes=10)
"""For so long git is not asked again what it could not tell; each time for twice as long."""
MOST_DOUBLED = 12


@dataclass(frozen=True)
class Contents:
    """What is between two commits: their merge base, the true numbers, and the lists as they are
    stored.
    """

    merge_base: str | None
    figures: DiffStat
    commits: bytes
    files: bytes


def contents_between(git: GitRepo, base: str, head: str) -> Contents:
    """What `head` changes since it left `base`; without common history, all that it has.

    `GitError` where git cannot tell: it takes too long, or is too much.
    """
    start = git.merge_base(base, head)
    found = changes(git, start, head)
    commits = log(git, head, count=COMMITS_MOST, exclude=base, reverse=True)
    count = len(commits)
    if count == COMMITS_MOST:
        count = git.distance(base, head).gained
    figures = DiffStat(count, found.additions, found.deletions, found.total)
    return Contents(start, figures, pack_commits(commits), pack_files(found.files))


def contents_if_told(git: GitRepo, base: str, head: str) -> Contents | None:
    """None where git cannot tell."""
    with suppress(GitError):
        return contents_between(git, base, head)
    return None


@dataclass(frozen=True)
class NewVersion:
    """A head that a pull comes to have, and what is known of it."""

    head: str
    base: str | None
    pushed_by_id: int | None
    is_forced: bool | None
    contents: Contents | None


def new_versions(
    pull: Pull, base: str | None, heads: Sequence[tuple[str, int | None]], facts: GitFacts
) -> list[NewVersion]:
    """What git says of heads, each with who pushed it, that follow the pull's present one in this
    order. Changes nothing.
    """
    found, before = [], pull.head_sha
    for head, pushed_by_id in heads:
        contents = facts.ask(contents_if_told, pull.repo.git, base, head) if base else None
        is_forced = _is_forced(pull, before, head, facts)
        found.append(NewVersion(head, base, pushed_by_id, is_forced, contents))
        before = head
    return found


def _is_forced(pull: Pull, before: str | None, head: str, facts: GitFacts) -> bool | None:
    if before is None:
        return False
    move = RefMove(pull.repo, pull.source_ref, before, head, None)
    distance = distance_of(move, facts)
    return None if distance is None else distance.lost > 0


def write_versions(pull: Pull, new: Sequence[NewVersion]) -> list[PullVersion]:
    """Store the newest versions of a pull, which `last_version` counts already."""
    first = pull.last_version - len(new) + 1
    rows = PullVersion.objects.bulk_create(
        _row(pull, number, one) for number, one in enumerate(new, first)
    )
    write_contents((row, one.contents) for row, one in zip(rows, new, strict=True) if one.contents)
    return rows


def write_contents(told: Iterable[tuple[PullVersion, Contents]]) -> None:
    """Store what versions contain."""
    VersionContents.objects.bulk_create(
        VersionContents(version=row, commits=found.commits, files=found.files)
        for row, found in told
    )


def _row(pull: Pull, number: int, new: NewVersion) -> PullVersion:
    version = PullVersion(
        pull=pull,
        version=number,
        head_sha=new.head,
        base_sha=new.base,
        pushed_by_id=new.pushed_by_id,
        is_forced=new.is_forced,
        due_at=timezone.now() + SOON,
    )
    if new.contents is not None:
        set_contents(version, new.contents)
    elif new.base is not None:
        put_off(version)
    return version


def set_contents(version: PullVersion, found: Contents) -> None:
    """Set what git says of the version, without saving."""
    version.merge_base_sha, figures = found.merge_base, found.figures
    version.commit_count, version.changed_files = figures.commit_count, figures.changed_files
    version.additions, version.deletions = figures.additions, figures.deletions


def put_off(version: PullVersion) -> None:
    """Set when git is asked again what it could not tell, without saving."""
    version.due_at = timezone.now() + WAIT * 2 ** min(version.tries, MOST_DOUBLED)
    version.tries += 1


def note_base(pull: Pull) -> None:
    """Give the newest version the base that it lacks because there was no target."""
    if pull.base_sha is None:
        return
    rows = PullVersion.objects.filter(pull=pull, version=pull.last_version, base_sha=None)
    rows.update(base_sha=pull.base_sha, due_at=timezone.now())


def mark_complete(new: Sequence[PullVersion]) -> None:
    """Leave to the worker only what git has not told of new versions whose refs are made."""
    if new:
        told = Q(base_sha=None) | Q(commit_count__isnull=False)
        PullVersion.objects.filter(told, pk__in=[one.pk for one in new]).update(due_at=None)


@contextmanager
def putting_off(version: PullVersion) -> Iterator[None]:
    """Inside, git is asked what the version lacks; an error puts off the next time and goes on."""
    try:
        yield
    except Exception:  # whatever it is goes on to the caller
        put_off(version)
        version.save(update_fields=["due_at", "tries"])
        raise


def read_contents(version: PullVersion) -> None:
    """Ask git what a version contains, and store it. `GitError`."""
    if version.base_sha is None or version.is_known:
        return
    found = contents_between(version.pull.repo.git, version.base_sha, version.head_sha)
    with transaction.atomic():
        lock(version)
        if not version.is_known:  # somebody else may have asked as well
            set_contents(version, found)
            version.save()
            write_contents([(version, found)])


def list_versions(pull: Pull) -> QuerySet[Any, Any]:
    """The versions of a pull, oldest first, as their records have them."""
    people = {f"pushed_by_{name}": F(f"pushed_by__{name}") for name in ("uuid", "username")}
    versions: QuerySet[Any, Any] = pull.versions.order_by("version")
    return versions.values(
        *("version", "head_sha", "base_sha", "merge_base_sha", "created_at", "is_forced"),
        *("commit_count", "additions", "deletions", "changed_files"),
        **people,
    )


def get_version(pull: Pull, number: int | None, *, with_files: bool = False) -> PullVersion | None:
    """The version of this number, else the newest; None for a pull that has no head. 404.

    `with_files`: what is stored of its files is read in the same query.
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
    """Files that are listed of a comparison of two commits, and how many there are."""

    repo: Repo
    old: str | None
    new: str
    files: Sequence[FileChange]
    total: int


NOTHING = Listing(Repo(), None, "", (), 0)
"""What a pull without a head changes."""


def commits_of(version: PullVersion, who: str) -> list[Commit]:
    """The commits of a version, oldest first, the newest `COMMITS_MOST`; 422 `too_expensive`."""
    return unpack_commits(_stored(version, "commits", who)) if version.base_sha else []


def files_of(version: PullVersion, who: str) -> Listing:
    """The files that a version changes; 422 `too_expensive`."""
    files = unpack_files(_stored(version, "files", who)) if version.base_sha else []
    old, new = version.merge_base_sha, version.head_sha
    return Listing(version.pull.repo, old, new, files, version.changed_files or 0)


def _stored(version: PullVersion, column: str, who: str) -> bytes:
    if not version.is_known:
        _ask(version, who)
    elif PullVersion.contents.is_cached(version):
        return bytes(getattr(version.contents, column))
    rows = VersionContents.objects.filter(version=version).values_list(column, flat=True)
    return bytes(rows.get())


def _ask(version: PullVersion, who: str) -> None:
    """Have git tell what the version contains; 422, and then for a while at once; 503."""
    if version.tries and version.due_at and version.due_at > timezone.now():
        raise too_expensive()
    try:
        with heavy_slots.slot(who), putting_off(version):
            read_contents(version)
    except (GitTimeout, GitTooLarge):
        raise too_expensive() from None
    except GitError as error:
        raise git_failed(error) from None


def files_between(old: PullVersion, new: PullVersion, who: str) -> Listing:
    """What differs between the heads of two versions; 404 when git no longer has one of them, 422
    `too_expensive`.
    """
    repo, heads = new.pull.repo, (old.head_sha, new.head_sha)

    def ask() -> dict[str, Any]:
        with heavy_slots.slot(who):
            find_commits(repo.git, *heads)  # one may have been forgotten
            found = changes(repo.git, *heads)
        return {"files": [*map(encode_file, found.files)], "total": found.total}

    try:
        answer = cached(repo, ("files", *heads), ask)
    except GitTooLarge:
        raise too_expensive() from None
    return Listing(repo, *heads, [*map(decode_file, answer["files"])], answer["total"])


def patches_of(listing: Listing, files: Sequence[FileChange], who: str) -> list[bytes | None]:
    """The patch of each of these files of the listing; 422 `too_expensive`."""

    def ask() -> Patches:
        with heavy_slots.slot(who):
            return patches(listing.repo.git, listing.old, listing.new, files)

    try:
        return cached_patches(listing.repo, ("patches", listing.old, listing.new), files, ask)
    except GitTooLarge:
        raise too_expensive() from None


def diff_of(version: PullVersion, who: str) -> IO[bytes]:
    """What a version changes as text for `git apply`, from its merge base; 422 `diff_too_large`,
    also where the list of files is cut because the commits were forgotten.
    """
    listing = files_of(version, who)
    if len(listing.files) < listing.total:
        raise _diff_too_large(version.pull)
    if not listing.total:
        return TemporaryFile()
    git, sides = listing.repo.git, (listing.old or EMPTY_TREE, listing.new)
    return _text(version, "diff", who, lambda file: write_diff(git, *sides, file))


def mails_of(version: PullVersion, who: str) -> IO[bytes]:
    """The commits of a version as mails for `git am`; 422 `diff_too_large`, also for more files
    than a diff may have.
    """
    listing = files_of(version, who)
    commits = commits_of(version, who)
    if len(listing.files) < listing.total or len(commits) < (version.commit_count or 0):
        raise _diff_too_large(version.pull)
    git, sides = version.pull.repo.git, (version.base_sha or "", version.head_sha)
    if not version.commit_count:
        return TemporaryFile()
    return _text(version, "mails", who, lambda file: write_patches(git, *sides, file))


def _text(
    version: PullVersion, what: str, who: str, write: Callable[[IO[bytes]], None]
) -> IO[bytes]:
    """What `write` writes, in a file without a name: before its first byte is sent, it is known
    that there is not too much of it. That there is, is cached.
    """
    with ExitStack() as opened:
        file = opened.enter_context(TemporaryFile())

        def size() -> int | None:
            with heavy_slots.slot(who), suppress(GitTooLarge):
                write(file)
                return file.tell()
            return None

        question = (what, version.base_sha, version.merge_base_sha, version.head_sha)
        try:
            found = cached(version.pull.repo, question, size)
            if found and not file.tell():
                found = size()
        except (GitTimeout, Invalid):
            found = None
        if found is None:
            raise _diff_too_large(version.pull)
        opened.pop_all()
        return file


def _diff_too_large(pull: Pull) -> Invalid:
    """422: git has it."""
    text = f"This diff is too large to be shown. Fetch it: git fetch origin {pull_ref(pull.number)}"
    return Invalid("diff_too_large", text)

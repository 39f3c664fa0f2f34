"""What a version of a pull contains, as it is stored; what is not, git is asked for.

`who` asks, a person or an address: for them a slot is held while git works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any

from django.db.models import F, QuerySet
from django.utils import timezone

from apps.browse.cache import (
    Patches,
    cached,
    cached_patches,
    decode_file,
    encode_file,
    too_expensive,
    unpack_commits,
    unpack_files,
)
from apps.browse.names import find_commits
from apps.browse.read_slots import heavy_slots
from apps.core.errors import Invalid, git_failed
from apps.core.lookup import get_or_missing
from apps.git.diff import FileChange, changes, patches
from apps.git.exports import write_diff, write_patches
from apps.git.log import Commit
from apps.git.repo import EMPTY_TREE, pull_ref
from apps.git.run import GitError, GitTimeout, GitTooLarge
from apps.pulls.models import Pull, PullVersion, VersionContents
from apps.pulls.versions import putting_off, read_contents
from apps.repos.models import Repo


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

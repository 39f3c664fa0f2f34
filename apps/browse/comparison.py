"""Comparisons of two commits, also of one in a fork."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryFile
from typing import IO, Any

from apps.browse.cache import (
    Patches,
    Question,
    cached,
    cached_patches,
    decode_changes,
    decode_commit,
)
from apps.browse.names import check_commits, invalid_ref, revision
from apps.browse.read_slots import heavy_slots
from apps.core.access import Level
from apps.core.errors import Invalid, unavailable
from apps.core.json import quoted
from apps.git.diff import FILES_MAX, Changes, FileChange, patches
from apps.git.diff import changes as read_changes
from apps.git.exports import TEXT_MAX, write_diff, write_patches
from apps.git.history import between
from apps.git.log import Commit
from apps.git.repo import GitRepo
from apps.git.run import GitTooLarge
from apps.repos.access import RepoAccess, access_to
from apps.repos.models import Repo
from apps.repos.queries import named_source

DEADLINE = 10
"""Seconds that git may take to compare."""
COMMITS_MAX = 250
"""Most commits that are listed."""
WRITERS: dict[str, Callable[[GitRepo, str, str, IO[bytes]], None]] = {
    "diff": write_diff,
    "patch": write_patches,
}


@dataclass(frozen=True)
class Ends:
    """The two commits to compare. `source` is the repository of the head: `repo` or a fork of it.
    `prefix` is its name in the request, such as `users/bob:`. Slots are counted by `throttle_key`.
    """

    repo: Repo
    source: Repo
    prefix: str
    base: str
    head: str
    throttle_key: str

    @property
    def pinned(self) -> str:
        """The two by full object names, for URLs."""
        return f"{self.base}...{self.prefix}{self.head}"

    @property
    def git(self) -> GitRepo:
        """A repository with the objects of both. git reads those of a fork without copying them."""
        git = self.repo.git.within(DEADLINE)
        return git if self.source == self.repo else replace(git, others=self.source.git.path)

    def question(self, *details: object) -> Question:
        """The question under which an answer is cached. It contains the fork: people who only know
        the name of a commit must not get an answer that was cached for a reader of the fork.
        """
        return ("compare", self.source.pk, self.base, self.head, *details)


@dataclass(frozen=True)
class Comparison:
    """The commits that `head` has and `base` has not, and the changes from `start` to `head`.

    `commits` has only the newest, newest first. `start` is the best common ancestor, or the base of
    a direct comparison.
    """

    base: str
    head: str
    merge_base: str | None
    start: str
    ahead: int
    behind: int
    commits: Sequence[Commit]
    changes: Changes


def find_ends(access: RepoAccess, text: str, throttle_key: str) -> Ends:
    """The ends of `base...head`; 404, 422 `invalid_ref`.

    The head may be in a fork: `users/bob:topic`, `bob:topic` or `teams/core:topic`. 422
    `source_not_found` if the fork does not exist or the caller may not read it.
    """
    repo = access.repo
    base, dots, head = text.partition("...")
    if not dots:
        raise invalid_ref(text)
    source, name = named_source(repo, head)
    source_access = access if source in {None, repo} else access_to(access.principal, source)
    if source is None or source_access.granted < Level.READ:
        owner = head.removesuffix(name).removesuffix(":")
        text = f"{quoted(owner, 300)} has no fork of this repository that you can read."
        raise Invalid("source_not_found", text)
    source_access.require(Level.READ)
    prefix = "" if source == repo else head.removesuffix(name)
    begin, end = revision(repo, base).sha, revision(source, name).sha
    return Ends(repo, source, prefix, begin, end, throttle_key)


def compare(ends: Ends, *, direct: bool) -> Comparison:
    """Compare two commits; the result is cached. The changes are those since the best common
    ancestor or, with `direct`, since the base.

    404 for a commit that does not exist, 422 `no_merge_base`, `diff_too_large`, `too_expensive`.
    """
    answer = cached(ends.repo, ends.question(direct), lambda: _compare(ends, direct=direct))
    if answer["start"] is None:
        text = "The two have no common ancestor. Compare them directly with `direct=true`."
        raise Invalid("no_merge_base", text)
    commits = [decode_commit(fields) for fields in answer["commits"]]
    changes = decode_changes(answer["changes"])
    return Comparison(**{**answer, "commits": commits, "changes": changes})


def _compare(ends: Ends, *, direct: bool) -> dict[str, Any]:
    """Compare with git, for the cache. Without a common ancestor, `start` is None."""
    with heavy_slot(ends):
        git = ends.git
        result = between(git, ends.base, ends.head, most=COMMITS_MAX)
        base, head = check_commits((ends.base, ends.head), result.names)
        if not result.distance.lost:
            merge_base: str | None = base
        else:
            merge_base = git.merge_base(base, head) if result.distance.gained else head
        start = base if direct else merge_base
        if start is None:
            return {"start": None}
        return {
            "base": base,
            "head": head,
            "merge_base": merge_base,
            "start": start,
            "ahead": result.distance.gained,
            "behind": result.distance.lost,
            "commits": result.commits,
            "changes": read_changes(git, start, head),
        }


def patches_of(
    ends: Ends, comparison: Comparison, files: Sequence[FileChange]
) -> dict[bytes, bytes | None]:
    """Path -> hunks of these files, cached; see `apps.git.diff.patches`. 422 `too_expensive`."""

    def read() -> Patches:
        with heavy_slot(ends):
            return patches(ends.git, comparison.start, comparison.head, files)

    question = ends.question("patches", comparison.start, comparison.head)
    hunks = cached_patches(ends.repo, question, files, read)
    return {file.path: patch for file, patch in zip(files, hunks, strict=True)}


def write_text(ends: Ends, form: str, *, direct: bool) -> IO[bytes]:
    """A temporary file with the comparison as one `diff`, or its commits as e-mails (`patch`).
    Its position is at the start.

    422 `diff_too_large` for more than 3,000 files or 20 MiB, `too_expensive`.
    """
    comparison = compare(ends, direct=direct)
    if comparison.changes.total > FILES_MAX:
        raise diff_too_large()
    with ExitStack() as closing:
        try:
            file = closing.enter_context(TemporaryFile(dir=ends.repo.git.path))
        except FileNotFoundError:  # the repository has been deleted meanwhile
            raise unavailable() from None
        write = partial(_write, ends, comparison, form, file)
        fits = cached(ends.repo, ends.question(form, direct), write)
        if not fits or not (file.tell() or write()):
            raise diff_too_large()
        closing.pop_all()
    file.seek(0)
    return file


def _write(ends: Ends, comparison: Comparison, form: str, file: IO[bytes]) -> bool:
    """Write the text; return False if it is too large."""
    start = comparison.start if form == "diff" else comparison.base
    with heavy_slots.slot(ends.throttle_key):
        try:
            WRITERS[form](ends.git, start, comparison.head, file)
        except GitTooLarge:
            return False
    return True


@contextmanager
def heavy_slot(ends: Ends) -> Iterator[None]:
    """Hold a slot; 422 `diff_too_large` if git cannot compare that much."""
    with heavy_slots.slot(ends.throttle_key):
        try:
            yield
        except GitTooLarge:
            raise diff_too_large() from None


def diff_too_large() -> Invalid:
    text = f"The diff has more than {FILES_MAX} files or {TEXT_MAX} bytes, or takes too long."
    return Invalid("diff_too_large", f"{text} Fetch both with `git fetch` and compare them.")

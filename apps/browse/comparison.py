"""What one commit has that another one has not, also where the other is in a fork."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryFile
from typing import IO, Any

from apps.browse.cache import (
    Patches,
    cached,
    cached_patches,
    decode_changes,
    decode_commit,
    encode_changes,
)
from apps.browse.names import all_found, invalid_ref, revision
from apps.browse.read_slots import heavy_slots
from apps.core.access import Level
from apps.core.errors import Invalid, unavailable
from apps.core.json import quoted
from apps.git.diff import FILES_MAX, Changes, FileChange, patches
from apps.git.diff import changes as read_changes
from apps.git.exports import TEXT_MAX, write_diff, write_patches
from apps.git.history import between
from apps.git.log import Commit
from apps.git.repo import Distance, GitRepo
from apps.git.run import GitTooLarge
from apps.repos.access import RepoAccess, access_to
from apps.repos.models import Repo
from apps.repos.queries import named_source

DEADLINE = 10
"""Seconds in which git has to compare."""
COMMITS_MAX = 250
"""Commits that are listed."""
WRITERS: dict[str, Callable[[GitRepo, str, str, IO[bytes]], None]] = {
    "diff": write_diff,
    "patch": write_patches,
}


@dataclass(frozen=True)
class Ends:
    """The two commits to compare. `source` is the repository of the head, `repo` or a fork of it;
    `prefix` is what named it, such as `users/bob:`. `who` asks, a person or an address.
    """

    repo: Repo
    source: Repo
    prefix: str
    base: str
    head: str
    who: str

    @property
    def pinned(self) -> str:
        """The same two by full names, as the address of a comparison has them."""
        return f"{self.base}...{self.prefix}{self.head}"

    @property
    def git(self) -> GitRepo:
        """The store in which both ends are; of a fork nothing is copied."""
        git = self.repo.git.within(DEADLINE)
        return git if self.source == self.repo else replace(git, others=self.source.git.path)

    def question(self, *asked: Any) -> tuple[Any, ...]:
        """The question under which answers are cached. It names the fork: a caller who only knows
        the name of a commit must not get an answer that was given to a reader of the fork.
        """
        return ("compare", self.source.pk, self.base, self.head, *asked)


@dataclass(frozen=True)
class Comparison:
    """What `head` has that `base` has not. `commits`: the newest, newest first. `start` is where
    the changes begin: the best common ancestor or, if asked so, the base.
    """

    base: str
    head: str
    merge_base: str | None
    start: str
    ahead: int
    behind: int
    commits: Sequence[Commit]
    changes: Changes


def find_ends(access: RepoAccess, text: str, who: str) -> Ends:
    """What `base...head` names: 404, 422 `invalid_ref`.

    The head may be in a fork, as `users/bob:topic`, `bob:topic` or `teams/core:topic`: 422
    `source_not_found`, one text for a fork that is absent and one that may not be read.
    """
    repo = access.repo
    base, dots, head = text.partition("...")
    if not dots:
        raise invalid_ref(text)
    source, name = named_source(repo, head)
    if source is None or not may_read(access, source):
        named = head.removesuffix(name).removesuffix(":")
        text = f"{quoted(named, 300)} has no fork of this repository that you can read."
        raise Invalid("source_not_found", text)
    prefix = "" if source == repo else head.removesuffix(name)
    begin, end = revision(repo, base).sha, revision(source, name).sha
    return Ends(repo, source, prefix, begin, end, who)


def may_read(access: RepoAccess, source: Repo) -> bool:
    """Whether who may read this repository may read that one too."""
    return source == access.repo or access_to(access.principal, source).level >= Level.READ


def compare(ends: Ends, *, direct: bool) -> Comparison:
    """Compare the two, from their best common ancestor on or, with `direct`, as they are.

    404 for a commit that is not there, 422 `no_merge_base`, `diff_too_large`, `too_expensive`.
    """
    answer = cached(ends.repo, ends.question(direct), lambda: ask(ends, direct=direct))
    if answer["start"] is None:
        text = "The two have no commit in common. Compare them as they are, with `direct=true`."
        raise Invalid("no_merge_base", text)
    commits = [decode_commit(fields) for fields in answer["commits"]]
    changes = decode_changes(answer["changes"])
    return Comparison(**{**answer, "commits": commits, "changes": changes})


def ask(ends: Ends, *, direct: bool) -> dict[str, Any]:
    """The same from git, as it is cached. Where there is nothing to compare, `start` is None."""
    with working(ends):
        git = ends.git
        found = between(git, ends.base, ends.head, most=COMMITS_MAX)
        base, head = all_found((ends.base, ends.head), found.names)
        merge_base = best_ancestor(git, base, head, found.distance)
        start = base if direct else merge_base
        if start is None:
            return {"start": None}
        return {
            "base": base,
            "head": head,
            "merge_base": merge_base,
            "start": start,
            "ahead": found.distance.gained,
            "behind": found.distance.lost,
            "commits": found.commits,
            "changes": encode_changes(read_changes(git, start, head)),
        }


def best_ancestor(git: GitRepo, base: str, head: str, distance: Distance) -> str | None:
    """The best common ancestor: one of the two where it contains the other."""
    if not distance.lost:
        return base
    return git.merge_base(base, head) if distance.gained else head


def patches_of(
    ends: Ends, comparison: Comparison, files: Sequence[FileChange]
) -> dict[bytes, bytes | None]:
    """Path -> hunks of some of the files; see `apps.git.diff.patches`. 422 `too_expensive`."""

    def ask() -> Patches:
        with working(ends):
            return patches(ends.git, comparison.start, comparison.head, files)

    question = ends.question("patches", comparison.start, comparison.head)
    answer = cached_patches(ends.repo, question, files, ask)
    return {file.path: patch for file, patch in zip(files, answer, strict=True)}


def write_text(ends: Ends, form: str, *, direct: bool) -> IO[bytes]:
    """A file without a name that has all of the comparison as `diff`, one diff, or as `patch`, the
    commits as mails; it is at its beginning.

    422 `diff_too_large` for more than 3,000 files or 20 MiB, `too_expensive`.
    """
    found = compare(ends, direct=direct)
    if found.changes.total > FILES_MAX:
        raise diff_too_large()
    with ExitStack() as closing:
        try:
            file = closing.enter_context(TemporaryFile(dir=ends.repo.git.path))
        except FileNotFoundError:  # the repository has gone meanwhile
            raise unavailable() from None
        write = partial(is_written, ends, found, form, file)
        fits = cached(ends.repo, ends.question(form, direct), write)
        if not fits or not (file.tell() or write()):
            raise diff_too_large()
        closing.pop_all()
    file.seek(0)
    return file


def is_written(ends: Ends, found: Comparison, form: str, file: IO[bytes]) -> bool:
    """Write a text; false when it is too large."""
    start = found.start if form == "diff" else found.base
    with heavy_slots.slot(ends.who):
        try:
            WRITERS[form](ends.git, start, found.head, file)
        except GitTooLarge:
            return False
    return True


@contextmanager
def working(ends: Ends) -> Iterator[None]:
    """Hold a place; 422 when there is too much to compare."""
    with heavy_slots.slot(ends.who):
        try:
            yield
        except GitTooLarge:
            raise diff_too_large() from None


def diff_too_large() -> Invalid:
    """422 for what should be compared by the git of who asks."""
    text = f"The diff has more than {FILES_MAX} files or {TEXT_MAX} bytes, or takes too long."
    return Invalid("diff_too_large", f"{text} Fetch both with `git fetch`, and compare them.")

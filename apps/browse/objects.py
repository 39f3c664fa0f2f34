"""What git has behind the names of a request: commits, and what they have at a path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from apps.browse.cache import too_expensive
from apps.browse.names import Revision, shown_path
from apps.browse.read_slots import light_slots
from apps.core.errors import NotFound
from apps.core.json import quoted
from apps.git.repo import GitRepo
from apps.git.run import GitTimeout, GitTooLarge
from apps.git.tree import Entry, commits_of, entry_at
from apps.repos.models import Repo


@contextmanager
def quick() -> Iterator[None]:
    """Hold a place for git's quick answers; 422 when it has none in time after all."""
    with light_slots.slot():
        try:
            yield
        except (GitTimeout, GitTooLarge):
            raise too_expensive() from None


def find_commit(repo: Repo, wanted: Revision) -> str:
    """The commit that a request names; 404.

    git is asked only for full names of commits, which need not exist and may be those of tags, and
    for heads of pulls: they stay in their rows when the commit is forgotten.
    """
    if wanted.is_here:
        return wanted.sha
    return find_commits(repo.git, wanted.sha)[0]


def find_commits(git: GitRepo, *shas: str) -> list[str]:
    """The commits of these full names, or those that the tags of these names lead to; 404."""
    return all_found(shas, commits_of(git, *shas))


def all_found(shas: Sequence[str], commits: Sequence[str | None]) -> list[str]:
    """The commits of these names; 404 for the first that has none."""
    found = []
    for sha, commit in zip(shas, commits, strict=True):
        if commit is None:
            raise no_commit(sha)
        found.append(commit)
    return found


def no_commit(sha: str) -> NotFound:
    """404 for a name of no commit."""
    return NotFound("not_found", f"There is no ref {quoted(sha)} here: no such commit.")


def find_entry(repo: Repo, commit: str, path: bytes) -> Entry:
    """What a commit has at a path, which is not empty; 404."""
    entry = entry_at(repo.git, commit, path)
    if entry is None:
        raise no_entry(path, commit)
    return entry


def no_entry(path: bytes, commit: str) -> NotFound:
    """404 for a path at which a commit has nothing."""
    text = f"There is no path {quoted(shown_path(path))} in commit {commit}."
    return NotFound("not_found", text)

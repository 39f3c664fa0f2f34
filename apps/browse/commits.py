"""Lists of commits, and what one of them says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.browse.cache import cached, decode_changes, decode_commit, encode_changes
from apps.browse.names import Revision, find_commit, no_commit, quick
from apps.browse.read_slots import heavy_slots
from apps.core.errors import Invalid
from apps.git.diff import Changes, changes
from apps.git.log import Commit, log
from apps.git.run import GitTooLarge
from apps.git.tree import is_signed
from apps.repos.models import Repo

SKIP_QUICKLY = 10_000
"""Commits that git goes past in a quick answer."""
SKIP_MAX = 10**9
"""More than any repository has, and less than what git cannot count."""


@dataclass
class History:
    """The commits that `wanted` has, newest first: those that all of the filters let through.

    `who` asks, a person or an address, for whom a slot is held when git takes long. A slice of it
    is one page, which is cached; after that `commit` is the one that the list begins with.
    """

    repo: Repo
    wanted: Revision
    who: str
    path: bytes = b""
    author: str = ""
    since: str = ""
    until: str = ""
    commit: str = ""

    def __getitem__(self, part: slice) -> list[Commit]:
        """404 for a commit that is not there, 422 `too_expensive`."""
        skip, count = part.start, part.stop - part.start
        # Of several lines git would look for each; no name or address has more than one.
        if skip > SKIP_MAX or "\n" in self.author:
            with quick():
                self.commit = find_commit(self.repo, self.wanted)
            return []
        asked = self.wanted.sha, self.path, self.author, self.since, self.until, skip, count
        answer = cached(self.repo, ("commits", *asked), lambda: self.ask(skip, count))
        self.commit = answer["commit"]
        return [decode_commit(fields) for fields in answer["commits"]]

    def is_slow(self, skip: int) -> bool:
        """Whether git may have to go through all of history for the next commit."""
        return bool(self.path or self.author or self.until or skip > SKIP_QUICKLY)

    def ask(self, skip: int, count: int) -> dict[str, Any]:
        """The same from git, as it is cached."""
        with quick():
            commit = find_commit(self.repo, self.wanted)
            found = None if self.is_slow(skip) else self.log(commit, skip, count)
        if found is None:
            with heavy_slots.slot(self.who):
                found = self.log(commit, skip, count)
        return {"commit": commit, "commits": found}

    def log(self, commit: str, skip: int, count: int) -> list[Commit]:
        try:
            return log(
                self.repo.git,
                commit,
                count=count,
                skip=skip,
                path=self.path,
                author=self.author,
                since=self.since,
                until=self.until,
            )
        except GitTooLarge:
            raise too_long() from None


def too_long() -> Invalid:
    """422 for commits whose messages have some megabytes."""
    text = "The messages of these commits are too long together: ask for fewer with `per_page`."
    return Invalid("too_expensive", text)


@dataclass(frozen=True)
class SingleCommit:
    """A commit, whether it has a signature, and what it changes since its first parent."""

    commit: Commit
    is_signed: bool
    changes: Changes


def read_commit(repo: Repo, sha: str, who: str) -> SingleCommit:
    """The commit of this full name; `who` as for `History`. git is asked once.

    404, 422 `diff_too_large`, `too_expensive`.
    """
    try:
        answer = cached(repo, ("commit", sha), lambda: ask_for_commit(repo, sha, who))
    except GitTooLarge:
        text = "The commit changes too much: fetch it with git."
        raise Invalid("diff_too_large", text) from None
    commit, found = decode_commit(answer["commit"]), decode_changes(answer["changes"])
    return SingleCommit(commit, answer["is_signed"], found)


def ask_for_commit(repo: Repo, sha: str, who: str) -> dict[str, Any]:
    """The same from git, as it is cached."""
    with quick():
        signed = is_signed(repo.git, sha)
        if signed is None:
            raise no_commit(sha)
        try:
            [commit] = log(repo.git, sha, count=1)
        except GitTooLarge:
            raise too_long() from None
    with heavy_slots.slot(who):
        found = changes(repo.git, next(iter(commit.parents), None), sha)
    return {
        "commit": commit,
        "is_signed": signed,
        "changes": encode_changes(found),
    }

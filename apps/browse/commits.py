"""Lists of commits, and single commits with their changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.browse.cache import cached, decode_changes, decode_commit
from apps.browse.names import Revision, find_commit, no_commit, quick
from apps.browse.read_slots import heavy_slots
from apps.core.errors import Invalid
from apps.git.diff import Changes, changes
from apps.git.log import Commit, log
from apps.git.run import GitTooLarge
from apps.git.tree import is_signed
from apps.repos.models import Repo

SKIP_QUICKLY = 10_000
"""Most commits that git skips in a quick answer."""
SKIP_MAX = 10**9
"""A number of commits that no repository has, but that git can still count."""


@dataclass
class History:
    """The commits of a revision that match all filters, newest first. A slice is one page, cached.

    After slicing, `commit` is the commit that the list begins with. `throttle_key` is that of the
    slots for slow pages; see `caller_of`.
    """

    repo: Repo
    rev: Revision
    throttle_key: str
    path: bytes = b""
    author: str = ""
    since: str = ""
    until: str = ""
    commit: str = ""

    def __getitem__(self, part: slice) -> list[Commit]:
        """404 for a commit that does not exist, 422 `too_expensive`."""
        skip, count = part.start, part.stop - part.start
        # git would search for each line alone. Names and addresses have no line ends.
        if skip > SKIP_MAX or "\n" in self.author:
            with quick():
                self.commit = find_commit(self.repo, self.rev)
            return []
        filters = self.path, self.author, self.since, self.until
        question = ("commits", self.rev.sha, *filters, skip, count)
        answer = cached(self.repo, question, lambda: self.read(skip, count))
        self.commit = answer["commit"]
        return [decode_commit(fields) for fields in answer["commits"]]

    def is_slow(self, skip: int) -> bool:
        """Whether git may have to search all of history for the next commit."""
        return bool(self.path or self.author or self.until or skip > SKIP_QUICKLY)

    def read(self, skip: int, count: int) -> dict[str, Any]:
        with quick():
            commit = find_commit(self.repo, self.rev)
            commits = None if self.is_slow(skip) else self.log(commit, skip, count)
        if commits is None:
            with heavy_slots.slot(self.throttle_key):
                commits = self.log(commit, skip, count)
        return {"commit": commit, "commits": commits}

    def log(self, commit: str, skip: int, count: int) -> list[Commit]:
        filters = {name: getattr(self, name) for name in ("path", "author", "since", "until")}
        return read_log(self.repo, commit, count=count, skip=skip, **filters)


def read_log(repo: Repo, commit: str, **options: Any) -> list[Commit]:
    """Commits by `git log`; 422 if their messages have many megabytes together."""
    try:
        return log(repo.git, commit, **options)
    except GitTooLarge:
        text = "The messages of these commits are too long. Ask for fewer commits with `per_page`."
        raise Invalid("too_expensive", text) from None


@dataclass(frozen=True)
class SingleCommit:
    """A commit, whether it is signed, and its changes since its first parent."""

    commit: Commit
    is_signed: bool
    changes: Changes


def read_commit(repo: Repo, sha: str, throttle_key: str) -> SingleCommit:
    """The commit with this full name, cached. Slots are counted by `throttle_key`.

    404, 422 `diff_too_large`, `too_expensive`.
    """
    try:
        answer = cached(repo, ("commit", sha), lambda: _read_commit(repo, sha, throttle_key))
    except GitTooLarge:
        text = "The commit changes too much. Fetch it with git."
        raise Invalid("diff_too_large", text) from None
    commit, changed = decode_commit(answer["commit"]), decode_changes(answer["changes"])
    return SingleCommit(commit, answer["is_signed"], changed)


def _read_commit(repo: Repo, sha: str, throttle_key: str) -> dict[str, Any]:
    with quick():
        signed = is_signed(repo.git, sha)
        if signed is None:
            raise no_commit(sha)
        [commit] = read_log(repo, sha, count=1)
    with heavy_slots.slot(throttle_key):
        changed = changes(repo.git, next(iter(commit.parents), None), sha)
    return {"commit": commit, "is_signed": signed, "changes": changed}

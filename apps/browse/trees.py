"""Folders and files of a commit, and what a file's bytes say of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from apps.browse.names import Revision, shown_path
from apps.browse.objects import find_commit, find_entry, no_commit, no_entry, quick
from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.git.tree import Entry, Listing, file_at, list_folder, list_tree, read_blob, start_of_blob
from apps.repos.models import Repo

INLINE_MAX = 1024 * 1024
"""Bytes of a file that an answer holds."""
LOOKED_AT = 8000
"""Bytes in which a NUL makes a file binary, as for git."""
POINTER_MAX = 1024
"""Bytes of a pointer of Git LFS at most."""
TARGET_MAX = 65_536
"""Bytes that are shown of where a symlink leads."""
POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-\d-[^\n]+\n)*"
    rb"oid sha256:([0-9a-f]{64})\nsize (\d{1,18})\n"
)


@dataclass
class Folder:
    """What a folder of a commit holds; a slice of it is one page.

    After that `commit` is the one that was named, and `is_truncated` says whether the list ends
    before the folder does.
    """

    repo: Repo
    wanted: Revision
    path: bytes
    recursive: bool
    sizes: bool
    commit: str = ""
    is_truncated: bool = False

    def __getitem__(self, part: slice) -> tuple[Entry, ...]:
        """404, 422 `not_a_directory`."""
        with quick():
            self.commit = find_commit(self.repo, self.wanted)
            found = self.listing(part.start, part.stop)
        self.is_truncated = found.truncated
        return found.entries

    def listing(self, start: int, stop: int) -> Listing:
        git, path = self.repo.git, self.path
        if path and not self.recursive:
            below = list_folder(git, self.commit, path, start=start, stop=stop, sizes=self.sizes)
            if below.entries or below.truncated:
                return below
        return list_tree(
            git,
            self.find_tree(),
            start=start,
            stop=stop,
            recursive=self.recursive,
            sizes=self.sizes,
            below=path,
        )

    def find_tree(self) -> str:
        """The tree of the folder."""
        if not self.path:
            return self.commit
        entry = find_entry(self.repo, self.commit, self.path)
        if entry.kind != "directory":
            text = f"{quoted(shown_path(self.path))} is no directory but a {entry.kind}."
            raise Invalid("not_a_directory", text)
        return entry.sha


@dataclass(frozen=True)
class Content:
    """What a commit has at a path that is no directory. `content` is None where an answer does not
    hold it.
    """

    commit: str
    entry: Entry
    content: bytes | None
    is_binary: bool | None

    @property
    def lfs(self) -> dict[str, Any] | None:
        """What a pointer of Git LFS says: `oid` in hexadecimal digits, and `size` in bytes."""
        if self.content is None or len(self.content) > POINTER_MAX:
            return None
        found = POINTER.fullmatch(self.content)
        return {"oid": found[1].decode(), "size": int(found[2])} if found else None


def read_file(
    repo: Repo, wanted: Revision, path: bytes, *, most: int, start: int = 0
) -> tuple[str, Entry, bytes]:
    """The commit that a request names, what it has at the path, and the content of that: all of
    what has at most `most` bytes, of others the first `start`; 404, 422 `is_directory`.

    For callers in a place.
    """
    if not path:
        find_commit(repo, wanted)
        raise is_directory(path)
    found = file_at(repo.git, wanted.sha, path, most=most, start=start)
    if found.commit is None:
        raise no_commit(wanted.sha)
    if found.entry is None:
        raise no_entry(path, found.commit)
    if found.entry.kind == "directory":
        raise is_directory(path)
    return found.commit, found.entry, found.content


def read_content(repo: Repo, wanted: Revision, path: bytes) -> Content:
    """What the commit that a request names has at the path; errors as of `read_file`."""
    with quick():
        commit, entry, start = read_file(repo, wanted, path, most=INLINE_MAX, start=LOOKED_AT)
    if entry.kind == "submodule":
        return Content(commit, entry, None, None)
    return Content(commit, entry, start if fits(entry) else None, b"\0" in start[:LOOKED_AT])


def fits(entry: Entry) -> bool:
    """Whether an answer holds the content."""
    most = TARGET_MAX if entry.kind == "symlink" else INLINE_MAX
    return entry.size is not None and entry.size <= most


def content_of(repo: Repo, commit: str, entry: Entry) -> Content:
    """The content of this entry of a commit. For callers in a place."""
    if entry.kind == "submodule":
        return Content(commit, entry, None, None)
    if fits(entry):
        content = read_blob(repo.git, entry.sha)
        return Content(commit, entry, content, b"\0" in content[:LOOKED_AT])
    start = start_of_blob(repo.git, entry.sha, LOOKED_AT)
    return Content(commit, entry, None, b"\0" in start)


def is_directory(path: bytes) -> Invalid:
    """422: directories are read elsewhere."""
    text = f"{quoted(shown_path(path))} is a directory: read it at …/tree."
    return Invalid("is_directory", text)

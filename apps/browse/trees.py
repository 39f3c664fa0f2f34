"""Folders and files of a commit, and what a file's bytes say of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from apps.browse.names import Revision, shown_path
from apps.browse.objects import find_commit, find_entry, quick
from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.git.tree import Entry, list_tree, read_blob, start_of_blob
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

    After that `is_truncated` says whether the list ends before the folder does.
    """

    repo: Repo
    tree: str
    path: bytes
    recursive: bool
    sizes: bool
    is_truncated: bool = False

    def __getitem__(self, part: slice) -> tuple[Entry, ...]:
        with quick():
            found = list_tree(
                self.repo.git,
                self.tree,
                start=part.start,
                stop=part.stop,
                recursive=self.recursive,
                sizes=self.sizes,
                below=self.path,
            )
        self.is_truncated = found.truncated
        return found.entries


def find_folder(
    repo: Repo, wanted: Revision, path: bytes, *, recursive: bool, sizes: bool
) -> tuple[str, Folder]:
    """The commit that a request names, and the folder that it has at the path; 404, 422
    `not_a_directory`.
    """
    with quick():
        commit = find_commit(repo, wanted)
        tree = commit
        if path:
            entry = find_entry(repo, commit, path)
            if entry.kind != "directory":
                text = f"{quoted(shown_path(path))} is no directory but a {entry.kind}."
                raise Invalid("not_a_directory", text)
            tree = entry.sha
    return commit, Folder(repo, tree, path, recursive, sizes)


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


def find_file(repo: Repo, wanted: Revision, path: bytes) -> tuple[str, Entry]:
    """The commit that a request names, and what it has at the path; 404, 422 `is_directory`. For
    callers in a place.
    """
    commit = find_commit(repo, wanted)
    if not path:
        raise is_directory(path)
    entry = find_entry(repo, commit, path)
    if entry.kind == "directory":
        raise is_directory(path)
    return commit, entry


def read_content(repo: Repo, wanted: Revision, path: bytes) -> Content:
    """What the commit that a request names has at the path; errors as of `find_file`."""
    with quick():
        commit, entry = find_file(repo, wanted, path)
        return content_of(repo, commit, entry)


def content_of(repo: Repo, commit: str, entry: Entry) -> Content:
    """The content of this entry of a commit. For callers in a place."""
    if entry.kind == "submodule":
        return Content(commit, entry, None, None)
    most = TARGET_MAX if entry.kind == "symlink" else INLINE_MAX
    if entry.size is not None and entry.size <= most:
        content = read_blob(repo.git, entry.sha)
        return Content(commit, entry, content, b"\0" in content[:LOOKED_AT])
    start = start_of_blob(repo.git, entry.sha, LOOKED_AT)
    return Content(commit, entry, None, b"\0" in start)


def is_directory(path: bytes) -> Invalid:
    """422: directories are read elsewhere."""
    text = f"{quoted(shown_path(path))} is a directory: read it at …/tree."
    return Invalid("is_directory", text)

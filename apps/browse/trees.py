"""Folders and files of a commit, their last changes, and the commit of each line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.browse.cache import ENCODING, ForNow, cached, decode_range
from apps.browse.names import (
    Revision,
    find_commit,
    find_entry,
    find_tree,
    no_commit,
    no_entry,
    quick,
    shown_path,
)
from apps.browse.read_slots import heavy_slots
from apps.core import markdown
from apps.core.errors import ApiError, Invalid
from apps.core.json import quoted
from apps.git.blame import BlamedRange, blame
from apps.git.log import LastChange, last_changes
from apps.git.run import GitError, GitTimeout, GitTooLarge
from apps.git.tree import (
    Entry,
    Listing,
    file_at,
    list_folder,
    list_tree,
    read_blob,
    read_blobs,
    start_of_blob,
)
from apps.repos.models import Repo

INLINE_MAX = 1024 * 1024
"""Most bytes of a file whose content is part of a record."""
LOOKED_AT = 8000
"""A file is binary if its first bytes, so many of them, contain a NUL. git has the same rule."""
POINTER_MAX = 1024
"""Most bytes of a Git LFS pointer."""
TARGET_MAX = 65_536
"""Most bytes of a symlink's target in a record."""
POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-\d-[^\n]+\n)*"
    rb"oid sha256:([0-9a-f]{64})\nsize (\d{1,18})\n"
)
LAST_CHANGES_SECONDS = 0.3
"""Seconds that git may search for last changes. The others stay empty."""
ENTRIES_A_PAGE = 500
"""Most entries of one page."""
README_MAX = 128 * 1024
"""Most bytes of a README that is shown."""
READMES = ("readme.md", "readme.markdown", "readme.rst", "readme.txt", "readme")
"""Names of READMEs in lower case. The first one that exists, in any case, is shown."""
MARKDOWN = (".md", ".markdown")
DIRECTORY = "040000"
BLAMED_BYTES_MAX = 1024 * 1024
"""Most bytes of a file for blame."""
BLAMED_LINES_MAX = 1000
"""Most lines of one answer."""
BLAMED_LINES = 500


@dataclass
class Folder:
    """The entries of a folder of a commit. A slice is one page.

    After slicing, `commit` is the commit of the revision, and `is_truncated` tells whether the
    folder has more entries than are listed.
    """

    repo: Repo
    rev: Revision
    path: bytes
    recursive: bool
    sizes: bool
    commit: str = ""
    is_truncated: bool = False

    def __getitem__(self, part: slice) -> tuple[Entry, ...]:
        """404, 422 `not_a_directory`."""
        with quick():
            self.commit = find_commit(self.repo, self.rev)
            listing = self.listing(part.start, part.stop)
        self.is_truncated = listing.truncated
        return listing.entries

    def listing(self, start: int, stop: int) -> Listing:
        git, path = self.repo.git, self.path
        if path and not self.recursive:
            below = list_folder(git, self.commit, path, start=start, stop=stop, sizes=self.sizes)
            if below.entries or below.truncated:
                return below
        return list_tree(
            git,
            find_tree(self.repo, self.commit, path),
            start=start,
            stop=stop,
            recursive=self.recursive,
            sizes=self.sizes,
            below=path,
        )


@dataclass(frozen=True)
class Content:
    """A file, symlink or submodule of a commit. `content` is None if it is too large."""

    commit: str
    entry: Entry
    content: bytes | None
    is_binary: bool | None

    @property
    def lfs(self) -> dict[str, Any] | None:
        """The `oid`, in hexadecimal digits, and the `size` in bytes of a Git LFS pointer."""
        if self.content is None or len(self.content) > POINTER_MAX:
            return None
        match = POINTER.fullmatch(self.content)
        return {"oid": match[1].decode(), "size": int(match[2])} if match else None


def read_file(
    repo: Repo, rev: Revision, path: bytes, *, most: int, start: int = 0
) -> tuple[str, Entry, bytes]:
    """The commit of a revision, its entry at the path, and the content; 404, 422 `is_directory`.

    The content is whole if it has at most `most` bytes; else it is the first `start` bytes. The
    caller holds a slot.
    """
    if not path:
        find_commit(repo, rev)
        raise is_directory(path)
    file = file_at(repo.git, rev.sha, path, most=most, start=start)
    if file.commit is None:
        raise no_commit(rev.sha)
    if file.entry is None:
        raise no_entry(path, file.commit)
    if file.entry.kind == "directory":
        raise is_directory(path)
    return file.commit, file.entry, file.content


def read_content(repo: Repo, rev: Revision, path: bytes) -> Content:
    """The file, symlink or submodule at a path. Raises the errors of `read_file`."""
    with quick():
        commit, entry, start = read_file(repo, rev, path, most=INLINE_MAX, start=LOOKED_AT)
    if entry.kind == "submodule":
        return Content(commit, entry, None, None)
    return Content(commit, entry, start if fits(entry) else None, b"\0" in start[:LOOKED_AT])


def fits(entry: Entry) -> bool:
    """Whether the content is small enough to be part of a record."""
    most = TARGET_MAX if entry.kind == "symlink" else INLINE_MAX
    return entry.size is not None and entry.size <= most


def content_of(repo: Repo, commit: str, entry: Entry) -> Content:
    """The content of this entry of a commit. The caller holds a slot."""
    if entry.kind == "submodule":
        return Content(commit, entry, None, None)
    if fits(entry):
        content = read_blob(repo.git, entry.sha)
        return Content(commit, entry, content, b"\0" in content[:LOOKED_AT])
    start = start_of_blob(repo.git, entry.sha, LOOKED_AT)
    return Content(commit, entry, None, b"\0" in start)


def is_directory(path: bytes) -> Invalid:
    text = f"{quoted(shown_path(path))} is a directory: read it at …/tree."
    return Invalid("is_directory", text)


@dataclass(frozen=True)
class Readme:
    """A README, as HTML with relative links or as plain text. One of the two is empty."""

    name: bytes
    html: str
    text: str


@dataclass(frozen=True)
class FolderPage:
    """Entries of a folder, directories first. The first page has the README."""

    entries: Sequence[Entry]
    has_more: bool
    readme: Readme | None


def commit_at(repo: Repo, rev: Revision) -> str:
    """The commit of a revision; 404. Runs git only if the request named a commit."""
    if rev.name:
        return rev.sha
    with quick():
        return find_commit(repo, rev)


def read_entry(repo: Repo, commit: str, path: bytes) -> Entry:
    """The entry of a commit at a path; 404. With an empty path it is the root folder."""
    if not path:
        return Entry(b"", DIRECTORY, commit)
    with quick():
        return find_entry(repo, commit, path)


def read_folder(repo: Repo, folder: Entry, page: int) -> FolderPage:
    """A page of the entries of a folder, cached. Pages are counted from 1."""
    question = ("folder", folder.sha, page, markdown.VERSION)
    answer = cached(repo, question, lambda: _read_folder(repo, folder.sha, page))
    below = folder.path + b"/" if folder.path else b""
    entries = [
        Entry(**{**fields, "path": below + fields["path"].encode(ENCODING)})
        for fields in answer["entries"]
    ]
    readme = answer["readme"]
    if readme is not None:
        readme = Readme(**{**readme, "name": readme["name"].encode(ENCODING)})
    return FolderPage(entries, answer["has_more"], readme)


def _read_folder(repo: Repo, tree: str, page: int) -> dict[str, Any]:
    """Read the page from git, for the cache. Entries have names in place of paths."""
    start = (page - 1) * ENTRIES_A_PAGE
    with quick():
        listed = list_tree(repo.git, tree, start=start, stop=start + ENTRIES_A_PAGE + 1).entries
        entries = sorted(listed[:ENTRIES_A_PAGE], key=lambda entry: entry.kind != "directory")
        readme = read_readme(repo, entries) if page == 1 else None
    return {
        "entries": entries,
        "has_more": len(listed) > ENTRIES_A_PAGE,
        "readme": readme,
    }


def read_readme(repo: Repo, entries: Sequence[Entry]) -> Readme | None:
    """The README among these; None if it is too long or not a text. The caller holds a slot."""
    files = [entry for entry in entries if entry.kind == "file"]
    by_name = {name_of(file).decode(ENCODING).lower(): file for file in files}
    entry = next((by_name[name] for name in READMES if name in by_name), None)
    if entry is None:
        return None
    blobs = read_blobs(repo.git, [entry.sha], most=README_MAX, together=README_MAX)
    content = blobs.get(entry.sha)
    if content is None or b"\0" in content[:LOOKED_AT]:
        return None
    name, text = name_of(entry), content.decode("utf-8", "replace")
    if name.lower().decode(ENCODING).endswith(MARKDOWN):
        return Readme(name, markdown.render(text, relative=True), "")
    return Readme(name, "", text)


def name_of(entry: Entry) -> bytes:
    return entry.path.rpartition(b"/")[2]


@dataclass(frozen=True)
class LastChanges:
    """The last commit that changed a folder, and the last one for each entry by its name.

    Commits that git did not find in time are left out.
    """

    newest: LastChange | None
    by_name: dict[bytes, LastChange]


UNKNOWN = LastChanges(None, {})


def find_last_changes(
    repo: Repo, commit: str, path: bytes, entries: Sequence[Entry], page: int, throttle_key: str
) -> LastChanges:
    """The last changes of the entries of a page, cached. Empty if no slot is free or git fails,
    because pages do not wait for them.
    """
    names = [name_of(entry) for entry in entries]

    def read() -> Any:
        with heavy_slots.slot(throttle_key, waits=False):
            walk = last_changes(repo.git, commit, path, names, LAST_CHANGES_SECONDS)
        commits = (walk.newest, *walk.by_name.values())
        by_sha = {commit.sha: commit for commit in commits if commit}
        answer = {
            "commits": [*by_sha.values()],
            "newest": walk.newest and walk.newest.sha,
            "by_name": {name.decode(ENCODING): commit.sha for name, commit in walk.by_name.items()},
        }
        return answer if walk.is_whole else ForNow(answer)

    try:
        answer = cached(repo, ("last changes", commit, path, page), read)
    except (ApiError, GitError):
        return UNKNOWN
    commits = {fields["sha"]: LastChange(**fields) for fields in answer["commits"]}
    by_name = {name.encode(ENCODING): commits[sha] for name, sha in answer["by_name"].items()}
    return LastChanges(commits.get(answer["newest"]), by_name)


@dataclass(frozen=True)
class Blame:
    """The commits of lines `first` to `last` of `total`. For an empty file `last` is 0."""

    commit: str
    first: int
    last: int
    total: int
    ranges: Sequence[BlamedRange]


def blame_lines(
    repo: Repo, rev: Revision, path: bytes, first: int, last: int | None, throttle_key: str
) -> Blame:
    """Blame these lines or, without `last`, 500 lines from `first`; cached.

    404; 422 `is_directory`, `not_a_file`, `file_too_large`, `line_not_found`, `too_expensive`,
    `validation_failed`.
    """
    if last is not None and not first <= last < first + BLAMED_LINES_MAX:
        text = f"to: Must be an integer from `from` to {BLAMED_LINES_MAX - 1} more."
        raise Invalid("validation_failed", text)
    question = ("blame", rev.sha, path, first, last)
    answer = cached(repo, question, lambda: _blame(repo, rev, path, first, last, throttle_key))
    return Blame(**{**answer, "ranges": [decode_range(fields) for fields in answer["ranges"]]})


def _blame(
    repo: Repo, rev: Revision, path: bytes, first: int, last: int | None, throttle_key: str
) -> dict[str, Any]:
    with quick():
        commit, entry, content = read_file(repo, rev, path, most=BLAMED_BYTES_MAX)
        if entry.kind == "submodule":
            raise Invalid("not_a_file", "A submodule is a commit of another repository.")
        if entry.size is None or entry.size > BLAMED_BYTES_MAX:
            text = f"{quoted(shown_path(path))} has more than {BLAMED_BYTES_MAX} bytes."
            raise Invalid("file_too_large", text)
    total = content.count(b"\n") + (content[-1:] not in {b"", b"\n"})
    if first > max(1, total):
        raise Invalid("line_not_found", f"There is no line {first}: the file has {total}.")
    last = min(total, last or first + BLAMED_LINES - 1)
    ranges: list[BlamedRange] = []
    if total:
        with heavy_slots.slot(throttle_key):
            try:
                ranges = [*blame(repo.git, commit, path, first, last)]
            except GitTooLarge as error:
                raise GitTimeout(str(error)) from None  # which `cached` stores as too expensive
    return {"commit": commit, "first": first, "last": last, "total": total, "ranges": ranges}

"""Folders and files of a commit, their last changes, and the commit of each line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from apps.browse.cache import ENCODING, ForNow, cached, decode_range, encode_range
from apps.browse.names import (
    Revision,
    find_commit,
    find_entry,
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


PATIENCE = 0.3
"""Seconds that git has to look for the last changes; what it has not found then stays blank."""
ENTRIES = 500
"""Entries of one page."""
README_MAX = 128 * 1024
"""Bytes of a README that is shown."""
READMES = ("readme.md", "readme.markdown", "readme.rst", "readme.txt", "readme")
"""The names that are looked for, in any case; the first that there is, is shown."""
MARKDOWN = (".md", ".markdown")
DIRECTORY = "040000"


@dataclass(frozen=True)
class Readme:
    """A README: rendered as `markdown.render` does with relative addresses left as they are, or as
    text.
    """

    name: bytes
    html: str
    text: str


@dataclass(frozen=True)
class FolderPage:
    """Some of the entries of a folder, directories first; `readme` stands on the first page."""

    entries: Sequence[Entry]
    has_more: bool
    readme: Readme | None


def commit_at(repo: Repo, wanted: Revision) -> str:
    """The commit of a revision; git is asked only where a commit itself was named. 404."""
    if wanted.name:
        return wanted.sha
    with quick():
        return find_commit(repo, wanted)


def thing_at(repo: Repo, commit: str, path: bytes) -> Entry:
    """What a commit has at a path, which may be empty: the commit itself is a folder then. 404."""
    if not path:
        return Entry(b"", DIRECTORY, commit)
    with quick():
        return find_entry(repo, commit, path)


def read_folder(repo: Repo, folder: Entry, page: int) -> FolderPage:
    """A page of what is in a folder, from 1."""
    question = ("folder", folder.sha, page, markdown.VERSION)
    answer = cached(repo, question, lambda: ask_folder(repo, folder.sha, page))
    below = folder.path + b"/" if folder.path else b""
    entries = [
        Entry(**{**one, "path": below + one["path"].encode(ENCODING)}) for one in answer["entries"]
    ]
    readme = answer["readme"]
    if readme is not None:
        readme = Readme(**{**readme, "name": readme["name"].encode(ENCODING)})
    return FolderPage(entries, answer["has_more"], readme)


def ask_folder(repo: Repo, tree: str, page: int) -> dict[str, Any]:
    """The same from git, as it is cached: with names instead of paths."""
    start = (page - 1) * ENTRIES
    with quick():
        found = list_tree(repo.git, tree, start=start, stop=start + ENTRIES + 1).entries
        entries = sorted(found[:ENTRIES], key=lambda one: one.kind != "directory")
        readme = read_readme(repo, entries) if page == 1 else None
    return {
        "entries": [{**asdict(one), "path": one.path.decode(ENCODING)} for one in entries],
        "has_more": len(found) > ENTRIES,
        "readme": readme and {**asdict(readme), "name": readme.name.decode(ENCODING)},
    }


def read_readme(repo: Repo, entries: Sequence[Entry]) -> Readme | None:
    """The README among these, unless it is too long to be shown or no text. For callers in a
    place.
    """
    named = {name_of(one).decode(ENCODING).lower(): one for one in entries if one.kind == "file"}
    entry = next((named[name] for name in READMES if name in named), None)
    if entry is None:
        return None
    found = read_blobs(repo.git, [entry.sha], most=README_MAX, together=README_MAX)
    content = found.get(entry.sha)
    if content is None or b"\0" in content[:LOOKED_AT]:
        return None
    name, text = name_of(entry), content.decode("utf-8", "replace")
    if name.lower().decode(ENCODING).endswith(MARKDOWN):
        return Readme(name, markdown.render(text, relative=True), "")
    return Readme(name, "", text)


def name_of(entry: Entry) -> bytes:
    """The last part of its path."""
    return entry.path.rpartition(b"/")[2]


@dataclass(frozen=True)
class LastChanges:
    """The newest commit that changed a folder, and the last one of each name in it, as far as git
    has found them in time.
    """

    newest: LastChange | None
    by_name: dict[bytes, LastChange]


UNKNOWN = LastChanges(None, {})


def find_last_changes(
    repo: Repo, commit: str, path: bytes, entries: Sequence[Entry], page: int, who: str
) -> LastChanges:
    """The last changes of the entries of a page. Nothing where git is busy or fails: nobody waits
    for these.
    """
    names = [name_of(one) for one in entries]

    def ask() -> Any:
        with heavy_slots.slot(who, waits=False):
            walk = last_changes(repo.git, commit, path, names, PATIENCE)
        commits = (walk.newest, *walk.by_name.values())
        by_sha = {commit.sha: commit for commit in commits if commit}
        answer = {
            "commits": [asdict(commit) for commit in by_sha.values()],
            "newest": walk.newest and walk.newest.sha,
            "by_name": {name.decode(ENCODING): one.sha for name, one in walk.by_name.items()},
        }
        return answer if walk.is_whole else ForNow(answer)

    try:
        answer = cached(repo, ("last changes", commit, path, page), ask)
    except (ApiError, GitError):
        return UNKNOWN
    commits = {one["sha"]: LastChange(**one) for one in answer["commits"]}
    by_name = {name.encode(ENCODING): commits[sha] for name, sha in answer["by_name"].items()}
    return LastChanges(commits.get(answer["newest"]), by_name)


FILE_MAX = 1024 * 1024
"""Bytes of a file whose lines are told."""
LINES_MAX = 1000
"""Lines of one answer."""
LINES_DEFAULT = 500


@dataclass(frozen=True)
class Blame:
    """Where the lines `first` to `last` of `total` are from; of an empty file `last` is 0."""

    commit: str
    first: int
    last: int
    total: int
    ranges: Sequence[BlamedRange]


def blame_lines(
    repo: Repo, wanted: Revision, path: bytes, first: int, last: int | None, who: str
) -> Blame:
    """Blame these lines, or 500 from `first` on, as far as there are any. `who` asks, a person or
    an address.

    404; 422 `is_directory`, `not_a_file`, `file_too_large`, `line_not_found`, `too_expensive`,
    `validation_failed`.
    """
    check_lines(first, last)
    asked = wanted.sha, path, first, last
    answer = cached(repo, ("blame", *asked), lambda: ask(repo, wanted, path, first, last, who))
    return Blame(**{**answer, "ranges": [decode_range(fields) for fields in answer["ranges"]]})


def ask(
    repo: Repo, wanted: Revision, path: bytes, first: int, last: int | None, who: str
) -> dict[str, Any]:
    """The same from git, as it is cached."""
    with quick():
        commit, entry, content = read_file(repo, wanted, path, most=FILE_MAX)
        if entry.kind == "submodule":
            raise Invalid("not_a_file", "A submodule is a commit of another repository.")
        if entry.size is None or entry.size > FILE_MAX:
            text = f"{quoted(shown_path(path))} has more than {FILE_MAX} bytes."
            raise Invalid("file_too_large", text)
    total = content.count(b"\n") + (content[-1:] not in {b"", b"\n"})
    if first > max(1, total):
        raise Invalid("line_not_found", f"There is no line {first}: the file has {total}.")
    last = min(total, last or first + LINES_DEFAULT - 1)
    ranges = []
    if total:
        with heavy_slots.slot(who):
            try:
                ranges = [encode_range(one) for one in blame(repo.git, commit, path, first, last)]
            except GitTooLarge as error:
                raise GitTimeout(str(error)) from None  # so that this is cached as too expensive
    return {"commit": commit, "first": first, "last": last, "total": total, "ranges": ranges}


def check_lines(first: int, last: int | None) -> None:
    """422 for lines that run backwards, or are too many for one answer."""
    if last is not None and not first <= last < first + LINES_MAX:
        text = f"to: Must be an integer from `from` to {LINES_MAX - 1} more."
        raise Invalid("validation_failed", text)

"""Folders as pages show them: what is in them, which commit changed it last, and their README."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from apps.browse.cache import ForNow, cached
from apps.browse.codec import ENCODING
from apps.browse.names import Revision
from apps.browse.objects import find_commit, find_entry, quick
from apps.browse.read_slots import heavy_slots
from apps.core import markdown
from apps.core.errors import ApiError
from apps.git.log import LastChange, last_changes
from apps.git.run import GitError
from apps.git.tree import Entry, list_tree, read_blobs
from apps.repos.models import Repo

PATIENCE = 0.3
"""Seconds that git has to look for the last changes; what it has not found then stays blank."""
ENTRIES = 500
"""Entries of one page."""
README_MAX = 128 * 1024
"""Bytes of a README that is shown."""
READMES = ("readme.md", "readme.markdown", "readme.rst", "readme.txt", "readme")
"""The names that are looked for, in any case; the first that there is, is shown."""
MARKDOWN = (".md", ".markdown")
LOOKED_AT = 8000
"""Bytes in which a NUL makes a file binary, as for git."""
DIRECTORY = "040000"
"""Maps each byte of a name to a character, and back."""


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

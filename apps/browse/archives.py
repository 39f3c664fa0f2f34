"""Archives of commits: which there may be."""

from __future__ import annotations

from dataclasses import dataclass

from apps.browse.cache import cached
from apps.browse.names import Revision, shown_path
from apps.browse.objects import find_commit, find_entry, quick
from apps.browse.read_slots import heavy_slots
from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.git.exports import BYTES_MAX, ENTRIES_MAX, check_size
from apps.git.run import GitTooLarge
from apps.repos.models import Repo

SHORT = 12
"""Digits of a commit in the name of its archive."""


@dataclass(frozen=True)
class Archive:
    """All files of a commit below `path`, which is empty or a folder."""

    repo: Repo
    commit: str
    path: bytes

    @property
    def name(self) -> str:
        """What the file is called, without an ending, and the folder in which all of it is."""
        return f"{self.repo.slug}-{self.commit[:SHORT]}"


def find_archive(repo: Repo, wanted: Revision, path: bytes, who: str) -> Archive:
    """The archive of the commit that a request names; `who` asks, a person or an address.

    404, 422 `not_a_directory`, `archive_too_large`, `too_expensive`.
    """
    with quick():
        commit = tree = find_commit(repo, wanted)
        if path:
            entry = find_entry(repo, commit, path)
            if entry.kind != "directory":
                text = f"{quoted(shown_path(path))} is no directory but a {entry.kind}."
                raise Invalid("not_a_directory", text)
            tree = entry.sha

    def fits() -> bool:
        with heavy_slots.slot(who):
            try:
                check_size(repo.git, tree)
            except GitTooLarge:
                return False
        return True

    if not cached(repo, ("archive", tree), fits):
        text = f"It has more than {ENTRIES_MAX} files and directories, or {BYTES_MAX} bytes."
        raise Invalid("archive_too_large", f"{text} Clone the repository with git.")
    return Archive(repo, commit, path)

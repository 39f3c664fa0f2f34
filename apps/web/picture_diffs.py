"""Changed pictures, old and new side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.browse.cache import cached
from apps.browse.names import quick, shown_path
from apps.git.diff import FileChange
from apps.git.repo import GitRepo
from apps.git.tree import blob_sizes
from apps.repos.models import Repo
from apps.web.code import path_address

ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif")
"""Names of pictures that the raw address shows as such. SVG is a text, and may contain scripts."""


def is_picture(file: FileChange) -> bool:
    return file.is_binary and shown_path(file.path).lower().endswith(ENDINGS)


def picture_sizes(repo: Repo, git: GitRepo, files: Sequence[FileChange]) -> dict[str, int]:
    """The sizes of the blobs of these pictures in bytes, cached; 422, 503."""
    sides = [(file.previous_sha, file.sha) for file in files if is_picture(file)]
    shas = [sha for pair in sides for sha in pair if sha]
    if not shas:
        return {}

    def ask() -> dict[str, int]:
        with quick():
            return blob_sizes(git, shas)

    sizes: dict[str, int] = cached(repo, ("sizes", *shas), ask)
    return sizes


def picture_sides(
    file: FileChange, sizes: Mapping[str, int], old: tuple[Repo, str], new: tuple[Repo, str]
) -> list[dict[str, Any]]:
    """The context of `_pictures.html`: each side that the picture has. `old` and `new`: the commits
    and their repositories.
    """
    sides = [("Before", file.previous_path or file.path, file.previous_sha, old)]
    sides.append(("After", file.path, file.sha, new))
    return [
        {
            "label": label,
            "address": path_address(repo, "raw", path, commit),
            "size": sizes.get(sha),
        }
        for label, path, sha, (repo, commit) in sides
        if sha
    ]

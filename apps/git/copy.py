"""Copies of repositories, for forks: made in a folder beside the final one, then renamed to it."""

from apps.git.repo import GitRepo
from apps.git.store import remove


def unfinished(final: GitRepo, mark: str) -> GitRepo:
    """Where a copy is made before it is renamed; `mark` tells attempts apart."""
    return GitRepo(final.path.with_name(f"{final.path.name}.tmp-{mark}"))


def copy(source: GitRepo, target: GitRepo) -> None:
    """Make `target` with the branches, the tags and the HEAD of `source`, and what they reach.

    It shares no object store with its source: over protocol v2 a reader of the copy could
    otherwise fetch what the source no longer shows. Minutes for a large one.
    """
    target.create(source.head_branch())
    target.copy_branches_and_tags(source)


def put_in_place(copied: GitRepo, final: GitRepo) -> None:
    """Rename a finished copy to its final path. `OSError` where something is there already."""
    copied.path.rename(final.path)


def remove_unfinished(final: GitRepo) -> None:
    """Remove what attempts at this copy have left behind."""
    for path in final.path.parent.glob(f"{final.path.name}.tmp-*"):
        remove(path)

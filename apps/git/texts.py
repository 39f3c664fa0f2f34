"""Diffs and patches as text, for `git apply` and `git am`."""

from collections.abc import Generator
from contextlib import closing
from typing import IO, Final

from apps.git.repo import GitRepo, is_sha
from apps.git.run import GitTooLarge

TEXT_MAX: Final = 20 * 1024 * 1024
"""Most bytes of a diff as text."""
_OPTIONS: Final = ("-M50", "-l1000", "--full-index", "--binary", "--no-ext-diff", "--no-textconv")


def write_diff(repo: GitRepo, old: str, new: str, file: IO[bytes]) -> None:
    """Write the diff from `old` to `new` for `git apply`, binary files included.

    `GitTooLarge` if it has more than `TEXT_MAX` bytes or exceeds git's limits; `GitTimeout`.
    """
    _check(old, new)
    _write(repo.read("diff-tree", "-r", "-p", *_OPTIONS, old, new, "--"), file)


def write_patches(repo: GitRepo, base: str, head: str, file: IO[bytes]) -> None:
    """Write each commit that `head` has and `base` has not as an e-mail for `git am`.

    Merges are left out. Raises the errors of `write_diff`.
    """
    _check(base, head)
    plain = ("--stdout", "--no-signature", "--encode-email-headers", "--no-base", "--no-notes")
    _write(repo.read("format-patch", *plain, *_OPTIONS, f"{base}..{head}", "--"), file)


def _write(pieces: Generator[bytes, None, None], file: IO[bytes]) -> None:
    size = 0
    with closing(pieces):
        for piece in pieces:
            size += len(piece)
            if size > TEXT_MAX:
                raise GitTooLarge(f"the diff has more than {TEXT_MAX} bytes")
            file.write(piece)


def _check(*shas: str) -> None:
    if not all(map(is_sha, shas)):
        raise ValueError(f"not full object names: {shas}")

"""Diffs as text, for `git apply` and `git am`."""

from collections.abc import Sequence
from contextlib import closing
from typing import IO, Final

from apps.git.repo import EMPTY_TREE, GitRepo, is_sha
from apps.git.run import GitTooLarge, Pieces

TEXT_MAX: Final = 20 * 1024 * 1024
"""Bytes of a diff as text."""
_PLAIN: Final = ("-r", "--no-ext-diff", "--no-textconv")
_PATCH: Final = ("-M50", "-l1000", "--full-index", "--binary")
_EMAIL: Final = ("--stdin", "--root", "--pretty=email", "--encode-email-headers")


def write_diff(repo: GitRepo, old: str | None, new: str, file: IO[bytes]) -> int:
    """Write what `git apply` makes `new` of `old` with; None is the empty tree. Returns its bytes.

    `GitTooLarge` for more than `TEXT_MAX`, or a file that is too much for git; `GitTimeout`.
    """
    sides = old or EMPTY_TREE, new
    _check(sides)
    return _write(repo.read("diff-tree", "-p", *_PLAIN, *_PATCH, *sides, "--"), file)


def write_patches(repo: GitRepo, commits: Sequence[str], file: IO[bytes]) -> int:
    """Write these commits as mails, for `git am`; merges, and commits that change no file, have
    none. Returns the bytes of all. Errors as of `write_diff`.
    """
    _check(commits)
    stdin = "".join(f"{sha}\n" for sha in commits).encode()
    options = (*_EMAIL, "--patch-with-stat", *_PLAIN, *_PATCH)
    return _write(repo.read("diff-tree", *options, stdin=stdin), file)


def _check(shas: Sequence[str]) -> None:
    if not all(map(is_sha, shas)):
        raise ValueError(f"no full object names: {shas!r}")


def _write(pieces: Pieces, file: IO[bytes]) -> int:
    size = 0
    with closing(pieces):
        for piece in pieces:
            size += len(piece)
            if size > TEXT_MAX:
                raise GitTooLarge(f"the diff has more than {TEXT_MAX} bytes")
            file.write(piece)
    return size

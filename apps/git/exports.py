"""Archives, diffs and patches of commits, as files for other programs."""

import os
from collections.abc import Generator
from contextlib import closing
from typing import IO, Final

from apps.git.repo import GitRepo, check_shas, full_sha
from apps.git.run import GitProcess, GitTooLarge, spawn_archive

ENTRIES_MAX: Final = 100_000
"""Most files and folders that an archive may have."""
BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
"""Most bytes that its files may have together."""
WRITTEN_MAX: Final = BYTES_MAX + ENTRIES_MAX * 4096
"""Most bytes that git may write for it, the headers of its files included. `check_size` is not
enough: with `export-subst` a small file can expand to its commit's message any number of times.
"""
TEXT_MAX: Final = 20 * 1024 * 1024
"""Most bytes of a diff as text."""
_OPTIONS: Final = ("-M50", "-l1000", "--full-index", "--binary", "--no-ext-diff", "--no-textconv")


def check_size(repo: GitRepo, tree: str) -> None:
    """Raise `GitTooLarge` if the tree has more entries or bytes than an archive may have.

    `GitTimeout` if counting them takes too long.
    """
    entries = size = 0
    rest = b""
    # A few kilobytes of trees can name 10^10 files. Only listing them tells how many there are.
    with closing(repo.read("ls-tree", "-r", "-t", "-z", "--long", full_sha(tree))) as pieces:
        for piece in pieces:
            *lines, rest = (rest + piece).split(b"\0")
            entries += len(lines)
            sizes = (line.partition(b"\t")[0].split()[3] for line in lines)
            size += sum(int(number) for number in sizes if number.isdigit())
            if entries > ENTRIES_MAX or size > BYTES_MAX:
                raise GitTooLarge(f"more than {ENTRIES_MAX} entries or {BYTES_MAX} bytes")


def stream_archive(repo: GitRepo, commit: str, form: str, prefix: str, path: bytes) -> GitProcess:
    """Start the git that writes an archive of a commit as `tar` or `zip`.

    Each path in the archive begins with `prefix`. With a `path`, the archive holds only that file
    or folder. Call `check_size` first.
    """
    below = ["--", os.fsdecode(path)] if path else []
    options = (f"--format={form}", f"--prefix={prefix}")
    return spawn_archive(repo.path, *options, full_sha(commit), *below)


def write_diff(repo: GitRepo, old: str, new: str, file: IO[bytes]) -> None:
    """Write the diff from `old` to `new` for `git apply`, binary files included.

    `GitTooLarge` if it has more than `TEXT_MAX` bytes or exceeds git's limits; `GitTimeout`.
    """
    check_shas(old, new)
    _write(repo.read("diff-tree", "-r", "-p", *_OPTIONS, old, new, "--"), file)


def write_patches(repo: GitRepo, base: str, head: str, file: IO[bytes]) -> None:
    """Write each commit that `head` has and `base` has not as an e-mail for `git am`.

    Merges are left out. Raises the errors of `write_diff`.
    """
    check_shas(base, head)
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

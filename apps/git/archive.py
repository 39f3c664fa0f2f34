"""Archives of commits, as `git archive` writes them."""

import os
from contextlib import closing
from typing import Final

from apps.git.repo import GitRepo, is_sha
from apps.git.run import GitProcess, GitTooLarge, spawn_archive

ENTRIES_MAX: Final = 100_000
"""Files and folders of an archive."""
BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
"""Bytes of its files."""
WRITTEN_MAX: Final = BYTES_MAX + ENTRIES_MAX * 4096
"""Bytes that git may write for it, with the headers of its files. A file may ask for the message of
its commit as often as it likes (`export-subst`), so what is written has no limit by itself.
"""


def check_size(repo: GitRepo, tree: str) -> None:
    """`GitTooLarge` when a tree has more files or bytes than an archive may; `GitTimeout`."""
    entries = size = 0
    rest = b""
    # A tree that takes 10^10 files to unfold is small: nothing but to list it shows what it is.
    with closing(repo.read("ls-tree", "-r", "-t", "-z", "--long", _sha(tree))) as pieces:
        for piece in pieces:
            *lines, rest = (rest + piece).split(b"\0")
            entries += len(lines)
            sizes = (line.partition(b"\t")[0].split()[3] for line in lines)
            size += sum(int(number) for number in sizes if number.isdigit())
            if entries > ENTRIES_MAX or size > BYTES_MAX:
                raise GitTooLarge(f"more than {ENTRIES_MAX} entries or {BYTES_MAX} bytes")


def stream_archive(repo: GitRepo, commit: str, form: str, prefix: str, path: bytes) -> GitProcess:
    """Start the git that writes an archive of a commit as `tar` or `zip`.

    `prefix` stands before each path. `path`: only what is below it; all without one. The caller
    has asked `check_size`.
    """
    below = ["--", os.fsdecode(path)] if path else []
    options = (f"--format={form}", f"--prefix={prefix}")
    return spawn_archive(repo.path, *options, _sha(commit), *below)


def _sha(text: str) -> str:
    if not is_sha(text):
        raise ValueError(f"no full object name: {text!r}")
    return text

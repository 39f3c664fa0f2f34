"""Archives of commits, as `git archive` writes them."""

import os
from contextlib import closing
from typing import Final

from apps.git.repo import GitRepo, is_sha
from apps.git.run import GitProcess, GitTooLarge, spawn_archive

ENTRIES_MAX: Final = 100_000
"""Most files and folders that an archive may have."""
BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
"""Most bytes that its files may have together."""
WRITTEN_MAX: Final = BYTES_MAX + ENTRIES_MAX * 4096
"""Most bytes that git may write for it, the headers of its files included. `check_size` is not
enough: with `export-subst` a small file can expand to its commit's message any number of times.
"""


def check_size(repo: GitRepo, tree: str) -> None:
    """Raise `GitTooLarge` if the tree has more entries or bytes than an archive may have.

    `GitTimeout` if counting them takes too long.
    """
    entries = size = 0
    rest = b""
    # A few kilobytes of trees can name 10^10 files. Only listing them tells how many there are.
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

    Each path in the archive begins with `prefix`. With a `path`, the archive holds only that file
    or folder. Call `check_size` first.
    """
    below = ["--", os.fsdecode(path)] if path else []
    options = (f"--format={form}", f"--prefix={prefix}")
    return spawn_archive(repo.path, *options, _sha(commit), *below)


def _sha(text: str) -> str:
    if not is_sha(text):
        raise ValueError(f"not a full object name: {text!r}")
    return text

"""The folders in which receive-pack stores the objects of a push until its refs may move.

A receive-pack that is killed leaves its folder behind. Each receive-pack and its children hold a
shared lock. When the exclusive lock is free, no push is in progress and all folders are leftovers.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

QUARANTINES: Final = "objects/tmp_objdir-incoming-*"
LOCK: Final = "pushing"
_PAUSE: Final = 0.02
"""Seconds between two attempts: `flock` has no timeout."""


@contextmanager
def push_lock(repo: Path, kind: int = fcntl.LOCK_SH) -> Iterator[int]:
    """Hold the repository's lock of pushes; yields its file descriptor.

    A process that inherits the descriptor holds the lock until it ends. `OSError` if the file
    system has no locks; with `LOCK_NB`, `BlockingIOError` while others hold the lock.
    """
    descriptor = os.open(repo / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, kind)
        yield descriptor
    finally:
        os.close(descriptor)


def remove_quarantines(repo: Path, within: float = 0) -> int:
    """Remove the folders of ended pushes; return their number, 0 if a push is in progress.

    `within`: seconds to wait for pushes to end, for example for a process that was just killed.
    """
    ends = time.monotonic() + within
    while any(repo.glob(QUARANTINES)):
        try:
            with push_lock(repo, fcntl.LOCK_EX | fcntl.LOCK_NB):
                folders = list(repo.glob(QUARANTINES))
                for folder in folders:
                    shutil.rmtree(folder, ignore_errors=True)
                return len(folders)
        except BlockingIOError:
            if time.monotonic() >= ends:
                return 0
            time.sleep(_PAUSE)
        except OSError:  # no locks: `remove_leftovers` will remove old folders
            return 0
    return 0

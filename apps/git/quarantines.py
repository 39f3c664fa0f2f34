"""The folders in which receive-pack stores the objects of a push until its refs may move.

git leaves its folder behind when a signal ends it. Each receive-pack and what it starts hold a
shared lock; when it can be had exclusively, no push is under way and all folders are leftovers.
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
"""Seconds between two tries: `flock` waits either for ever or not at all."""


@contextmanager
def push_lock(repo: Path, kind: int = fcntl.LOCK_SH) -> Iterator[int]:
    """Hold the repository's lock of pushes; yields its file descriptor.

    A process that inherits the descriptor holds the lock until it ends. `OSError` where the file
    system has no locks, or `BlockingIOError` with `LOCK_NB` while others hold it.
    """
    descriptor = os.open(repo / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, kind)
        yield descriptor
    finally:
        os.close(descriptor)


def remove_quarantines(repo: Path, within: float = 0) -> int:
    """Remove the folders of ended pushes; returns how many. None goes while a push is under way.

    `within`: seconds to wait for the end of the pushes, as of a process that has just been killed.
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
        except OSError:  # a file system without locks: `remove_leftovers` goes by the age
            return 0
    return 0

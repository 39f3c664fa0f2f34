"""The memory allocator of the process."""

from __future__ import annotations

from ctypes import CDLL
from typing import Any, Final

M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
"""Numbers of options in glibc's malloc.h."""
LARGE: Final = 128 * 1024
"""Bytes from which a block has memory of its own, which returns to the system when it is freed."""
ARENAS: Final = 2


def return_freed_memory() -> None:
    """Let glibc's malloc keep less of the memory that this process frees; see mallopt(3).

    By default it makes an arena for nearly every thread, up to eight for each core. Each grows to
    the needs of its largest requests and stays so large. It also raises the threshold for large
    blocks, up to 32 MiB, whenever one is freed, and takes later ones from an arena. Here threads
    share two arenas, and the threshold stays where it begins.

    Call it before threads start: existing arenas stay. Other C libraries have no such options.
    """
    mallopt: Any = getattr(CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, ARENAS)
        mallopt(M_MMAP_THRESHOLD, LARGE)

"""Temporary files and locks that killed git processes leave in a repository."""

import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

PATTERNS: Final = (
    *("**/*.lock", "packed-refs.new"),
    *("objects/tmp_objdir-*", "objects/??/tmp_obj_*", "objects/info/**/tmp_*"),
    *("objects/pack/tmp_*", "objects/pack/.tmp-*", "gc.pid"),
)
LEFTOVER_SECONDS: Final = 2 * 3600  # longer than any deadline


def remove_leftovers(repo: Path, age: float) -> int:
    """Remove files of killed git processes that are at least `age` seconds old; return their
    number.

    A lock file blocks its branch for ever, an unfinished `packed-refs.new` blocks the deletion of
    packed refs, and an unfinished pack may be large.
    """
    removed = 0
    for pattern in PATTERNS:
        for path in list(repo.glob(pattern)):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime >= age:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                    removed += 1
    return removed

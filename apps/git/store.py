"""All repositories on disk: `<root>/ab/cd/<uuid>.git`, and what killed processes left there."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID


def folders(root: Path) -> Iterator[Path]:
    """Every repository, finished or not."""
    yield from root.glob("??/??/*.git*")


def uuid_of(folder: Path) -> UUID | None:
    """The uuid of the folder's repository; None for a copy that was never finished."""
    try:
        return UUID(folder.name.removesuffix(".git"))
    except ValueError:
        return None


def older_than(folder: Path, age: float) -> bool:
    """Whether nothing was created or removed in the folder for `age` seconds."""
    try:
        return time.time() - folder.stat().st_mtime >= age
    except FileNotFoundError:
        return False


def bytes_in(folder: Path) -> int:
    """The sizes of all files in the folder; what goes meanwhile is not counted."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(parent, name)).st_size
    return total


def remove(folder: Path) -> None:
    """Remove a repository's folder, if it is there."""
    shutil.rmtree(folder, ignore_errors=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what attempts at making the repository of this folder have left beside it."""
    for path in folder.parent.glob(f"{folder.name}.tmp-*"):
        remove(path)

"""The folders of all repositories, `<root>/ab/cd/<uuid>.git`, and unfinished ones beside them."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID


def folders(root: Path) -> Iterator[Path]:
    """The folders of all repositories, finished or not."""
    yield from root.glob("??/??/*.git*")


def uuid_of(folder: Path) -> UUID | None:
    """The uuid of the folder's repository; None for an unfinished one."""
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
    """The size of all files in the folder. Files that are removed meanwhile do not count."""
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
    """Remove the unfinished folders that failed attempts to make this repository left."""
    for path in folder.parent.glob(f"{folder.name}.tmp-*"):
        remove(path)

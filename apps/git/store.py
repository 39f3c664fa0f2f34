"""The folders of all repositories, `<root>/ab/cd/<uuid>.git`, and unfinished ones beside them.

Killed git processes leave files in them. receive-pack stores the objects of a push in a folder, a
quarantine, until its refs may move. Each receive-pack and its children hold a shared lock. When the
exclusive lock is free, no push is in progress and all quarantines are leftovers.
"""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

PATTERNS: Final = (
    "**/*.lock",
    "packed-refs.new",
    "objects/tmp_objdir-*",
    "objects/??/tmp_obj_*",
    "objects/info/**/tmp_*",
    "objects/pack/tmp_*",
    "objects/pack/.tmp-*",
    "gc.pid",
)
LEFTOVER_SECONDS: Final = 2 * 3600  # longer than any deadline
QUARANTINES: Final = "objects/tmp_objdir-incoming-*"
LOCK: Final = "pushing"
TIDY_LOCK: Final = "tidying"
FOLDERS: Final = ("objects/info", "objects/pack", "refs/heads", "refs/tags")
"""Folders of every repository. git recognizes no repository without the folders above them."""
GONE: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
"""Errors about a ref that was deleted; another ref may have its name as a folder, or a folder's."""
_PAUSE: Final = 0.02
"""Seconds between two attempts: `flock` has no timeout."""


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


_NO_COPY: Final = re.compile(r".*\.lock|packed-refs\.new|gc\.pid|pushing|tidying")
_NO_COPY_OF_OBJECTS: Final = re.compile(r"info|\.?tmp[_-].*|.*\.(?:lock|keep)")
_IMMUTABLE: Final = re.compile(
    r".*/objects/(?:[0-9a-f]{2}/[0-9a-f]{38}|pack/pack-[0-9a-f]{40}\.(?:pack|idx|rev))"
)


def files_to_copy(repo: Path) -> Iterator[Path]:
    """The files of a backup of this repository, in the order in which they have to be copied. A
    file may have gone by then. Hold `tidy_lock` meanwhile. `OSError`.

    Refs come before objects, so that no ref of the copy lacks its objects after a push. Loose refs
    come before `packed-refs`, as git reads them: packing moves refs in this direction. The
    commit-graph comes before the commits that it lists.
    """
    yield from _files_in(repo / "refs", _NO_COPY)
    top = sorted(path for path in repo.iterdir() if path.is_file())
    yield from (path for path in top if not _NO_COPY.fullmatch(path.name))
    yield from _files_in(repo / "objects" / "info", _NO_COPY_OF_OBJECTS)
    yield from _files_in(repo / "objects", _NO_COPY_OF_OBJECTS)


def is_immutable(path: Path) -> bool:
    """Whether the path is that of a git object or pack, whose name determines its content."""
    return _IMMUTABLE.fullmatch(path.as_posix()) is not None


def _files_in(folder: Path, excluded: re.Pattern[str]) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder, onerror=_raise_unless_gone):
        folders[:] = [name for name in folders if not excluded.fullmatch(name)]
        yield from (Path(parent, name) for name in names if not excluded.fullmatch(name))


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, GONE):
        raise error


def remove(folder: Path) -> None:
    """Remove a repository's folder, if it is there. It loses its name first: a backup has all of it
    or nothing.
    """
    unnamed = folder.with_name(f"{folder.name}.tmp-{uuid4().hex}")
    with suppress(OSError):
        shutil.rmtree(folder.rename(unnamed), ignore_errors=True)


def remove_unfinished(folder: Path) -> None:
    """Remove the unfinished folders that failed attempts to make this repository left."""
    for path in folder.parent.glob(f"{folder.name}.tmp-*"):
        remove(path)


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


@contextmanager
def push_lock(repo: Path, kind: int = fcntl.LOCK_SH) -> Iterator[int]:
    """Hold the repository's lock of pushes; yields its file descriptor.

    A process that inherits the descriptor holds the lock until it ends. `OSError` if the file
    system has no locks; with `LOCK_NB`, `BlockingIOError` while others hold the lock.
    """
    with _locked(repo / LOCK, kind) as descriptor:
        yield descriptor


@contextmanager
def tidy_lock(repo: Path, kind: int) -> Iterator[tuple[int, ...]]:
    """Hold the lock for removing and repacking objects, exclusively, or shared to keep them.

    Yields the file descriptors that git has to inherit, because git may outlive the caller; none
    if the file system has no locks. With `LOCK_NB`, `BlockingIOError` while others hold the lock.
    """
    with ExitStack() as stack:
        held: tuple[int, ...] = ()
        try:
            held = (stack.enter_context(_locked(repo / TIDY_LOCK, kind)),)
        except (BlockingIOError, FileNotFoundError):
            raise
        except OSError:
            pass
        yield held


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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

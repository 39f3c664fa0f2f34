"""The files of uploads, in `STORAGES["uploads"]` as `ab/cd/<SHA-256>`: complete or absent.

A power failure can at worst leave a file without a row, which `jobs.py` removes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, storages

from apps.core.files import PIECE

LOCK = "uploads.lock"
"""The file in DATA_DIR whose lock prevents the removal of files."""
DIGEST = re.compile(r"[0-9a-f]{64}")


class UploadFolder(FileSystemStorage):
    """Files in a folder. A new file replaces one of the same name, which has the same content."""

    def __init__(self, location: Path) -> None:
        super().__init__(location=location, allow_overwrite=True)
        self.quick = self

    def _save(self, name: str, content: File[bytes]) -> str:
        """Write a temporary file, move it to its path, and sync all of it. `OSError`."""
        target = Path(self.path(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{target.name}.tmp-{uuid4().hex}")
        try:
            with temporary.open("xb") as file:
                file.writelines(content.chunks())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        for folder in target.parents[:4]:  # the folders above may be new too, up to `location`
            opened = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(opened)  # its names survive a power failure
            finally:
                os.close(opened)
        return name

    def names(self) -> Iterator[str]:
        """The names of all files."""
        for path in Path(self.location).glob("??/??/*"):
            yield str(path.relative_to(self.location))

    def remove_leftovers(self, age: float) -> int:
        """Remove temporary files that are at least `age` seconds old; return their number."""
        removed = 0
        for path in Path(self.location).glob("??/??/*.tmp-*"):
            with suppress(FileNotFoundError):  # removed by its own request
                if time.time() - path.stat().st_mtime >= age:
                    path.unlink()
                    removed += 1
        return removed


def store() -> Any:
    """The storage of uploads. Its methods raise `OSError`."""
    return storages["uploads"]


def name_of(digest: str) -> str:
    """The name of the file with this SHA-256 in the storage."""
    return f"{digest[:2]}/{digest[2:4]}/{digest}"


def save(digest: str, content: bytes) -> None:
    """Store a file. It survives a power failure once this returns."""
    store().save(name_of(digest), ContentFile(content))


def open_file(digest: str) -> File[bytes]:
    """The file with this SHA-256, to be read in pieces. `FileNotFoundError`."""
    file: File[bytes] = store().open(name_of(digest))
    return file


def size(digest: str) -> int:
    """The bytes of the file with this SHA-256. `FileNotFoundError`."""
    return int(store().size(name_of(digest)))


def check_stored(digest: str) -> None:
    """`FileNotFoundError` if the file with this SHA-256 is missing. For use under a lock: if a
    bucket does not answer, it fails within seconds.
    """
    store().quick.size(name_of(digest))


def remove(digest: str) -> None:
    """Remove the file with this SHA-256, if it exists. It fails as soon as `check_stored`."""
    store().quick.delete(name_of(digest))


def problem(digest: str) -> str | None:
    """The reason why the file with this SHA-256 is missing or damaged; None if it is fine."""
    actual = hashlib.sha256()
    try:
        with open_file(digest) as file:
            while piece := file.read(PIECE):
                actual.update(piece)
    except OSError as error:
        return error.strerror or str(error)
    return None if actual.hexdigest() == digest else "its content has another SHA-256"


def stored() -> Iterator[str]:
    """The SHA-256 of each stored file."""
    for name in store().names():
        digest = name.rpartition("/")[2]
        if DIGEST.fullmatch(digest) and name == name_of(digest):
            yield digest


@contextmanager
def removal_lock(kind: int) -> Iterator[None]:
    """Hold the lock for removing files without a row, exclusively, or shared to keep them until
    they have rows. With `LOCK_NB`, `BlockingIOError` while others hold it.
    """
    with Path(settings.DATA_DIR, LOCK).open("ab") as file:
        fcntl.flock(file, kind)
        yield


def lock_name(digest: str) -> str:
    """The name of the lock for saving a row of this file, and for removing the file."""
    return f"upload {digest}"

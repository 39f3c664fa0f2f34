"""The files of uploads: `<UPLOADS_DIR>/ab/cd/<SHA-256>`. A file is complete or absent.

A power failure can at worst leave a file without a row, which `jobs.py` removes.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from django.conf import settings

DIGEST = re.compile(r"[0-9a-f]{64}")


def path_of(digest: str) -> Path:
    """The path of the file with this SHA-256."""
    return Path(settings.UPLOADS_DIR) / digest[:2] / digest[2:4] / digest


@contextmanager
def written(digest: str, content: bytes) -> Iterator[Path]:
    """Write a temporary file next to the final path, and remove it after the block. `OSError`."""
    target = path_of(digest)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{digest}.tmp-{uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def publish(temporary: Path, digest: str) -> None:
    """Move the file to its final path and sync it. An existing file there has the same content."""
    target = path_of(digest)
    temporary.replace(target)
    for folder in target.parents[:4]:  # the folders above may be new too, up to UPLOADS_DIR
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)  # its names survive a power failure
        finally:
            os.close(opened)


def remove(digest: str) -> None:
    """Remove the file with this SHA-256, if it exists."""
    path_of(digest).unlink(missing_ok=True)


def problem(digest: str) -> str | None:
    """The reason why the file with this SHA-256 is missing or damaged; None if it is fine."""
    try:
        with path_of(digest).open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return error.strerror or str(error)
    return None if actual == digest else "its content has another SHA-256"


def stored() -> Iterator[str]:
    """The SHA-256 of each stored file."""
    for path in Path(settings.UPLOADS_DIR).glob("??/??/*"):
        if DIGEST.fullmatch(path.name):
            yield path.name


def remove_leftovers(age: float) -> int:
    """Remove temporary files that are at least `age` seconds old; return their number."""
    removed = 0
    for path in Path(settings.UPLOADS_DIR).glob("??/??/*.tmp-*"):
        with suppress(FileNotFoundError):  # removed by its own request
            if time.time() - path.stat().st_mtime >= age:
                path.unlink()
                removed += 1
    return removed


def lock_name(digest: str) -> str:
    """The name of the lock for saving a row of this file, and for removing the file."""
    return f"upload {digest}"

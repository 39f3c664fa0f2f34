"""The bytes of uploads on disk: `<UPLOADS_DIR>/ab/cd/<SHA-256>`, whole or not there.

Where power fails between two lines, at worst a file is left that no row names; see `jobs.py`.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from django.conf import settings

DIGEST = re.compile(r"[0-9a-f]{64}")


def path_of(digest: str) -> Path:
    """Where the bytes of this SHA-256 are."""
    return Path(settings.UPLOADS_DIR) / digest[:2] / digest[2:4] / digest


@contextmanager
def written(digest: str, content: bytes) -> Iterator[Path]:
    """Write the bytes to a temporary file beside their place, for `publish`; it goes in the end.

    `OSError` when the disk does not take them.
    """
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
    """Put the file in its place, for good once this returns; one that is there is the same."""
    target = path_of(digest)
    temporary.replace(target)
    for folder in target.parents[:4]:  # those above may be new as well, up to the first
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder outlast a failure of power."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def remove(digest: str) -> None:
    """Remove the bytes of this SHA-256, if they are there."""
    path_of(digest).unlink(missing_ok=True)


def problem(digest: str) -> str | None:
    """Why the file of this SHA-256 is not what it should be; None when it is."""
    try:
        with path_of(digest).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return error.strerror or str(error)
    return None if found == digest else "its content is another"


def stored() -> Iterator[str]:
    """The SHA-256 of each file."""
    for path in Path(settings.UPLOADS_DIR).glob("??/??/*"):
        if DIGEST.fullmatch(path.name):
            yield path.name


def remove_leftovers(age: float) -> int:
    """Remove temporary files that nobody has written to for `age` seconds; how many there were."""
    gone = 0
    for path in Path(settings.UPLOADS_DIR).glob("??/??/*.tmp-*"):
        try:
            if time.time() - path.stat().st_mtime >= age:
                path.unlink()
                gone += 1
        except FileNotFoundError:  # its request has ended meanwhile
            continue
    return gone


def lock_name(digest: str) -> str:
    """What to `hold` while a row comes to name these bytes, or while they are removed."""
    return f"upload {digest}"

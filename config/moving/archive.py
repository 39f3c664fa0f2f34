"""Writes archives: ZIP files with records as JSON lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from apps.core import json

FORMAT = 1
"""The number of the format. A reader refuses any other."""
MANIFEST = "manifest.json"
BUNDLE = "repository.bundle"


class ArchiveWriter:
    """Writes the parts of an archive one after another, in constant memory."""

    def __init__(self, file: ZipFile) -> None:
        self.zip = file
        self.counts: dict[str, int] = {}
        """The number of lines of each file with lines."""

    @contextmanager
    def part(self, name: str, compression: int = ZIP_STORED) -> Iterator[IO[bytes]]:
        """Write one file of the archive."""
        info = ZipInfo(name)
        info.compress_type = compression
        with self.zip.open(info, "w", force_zip64=True) as file:
            yield file

    def add_record(self, name: str, record: dict[str, Any]) -> None:
        with self.part(name, ZIP_DEFLATED) as file:
            file.write(json.dumps(record) + b"\n")

    def add_lines(self, name: str, records: Iterable[dict[str, Any]]) -> None:
        """Write `<name>.jsonl`: a record in each line."""
        count = 0
        with self.part(f"{name}.jsonl", ZIP_DEFLATED) as file:
            for record in records:
                file.write(json.dumps(record) + b"\n")
                count += 1
        self.counts[name] = count


@contextmanager
def writing(path: Path) -> Iterator[ArchiveWriter]:
    """Write an archive; see `new_file`."""
    with new_file(path) as file, ZipFile(file, "w") as archive:
        yield ArchiveWriter(archive)


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that only the user of this process can read. It gets its name when it is
    complete. `FileExistsError` if there is a file of this name.
    """
    if path.exists():
        raise FileExistsError(f"{path} exists already.")
    unfinished = path.with_name(f"{path.name}.tmp")
    try:
        unfinished.unlink(missing_ok=True)
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)

"""Reads archives, which may come from anybody: all sizes are bounded, and no name in an archive
becomes a path.
"""

from __future__ import annotations

import re
import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from rest_framework import serializers

from apps.core import json
from apps.core.errors import ApiError
from apps.core.serializers import validated
from apps.uploads.rules import SIZE_MAX
from config.moving.archive import BUNDLE, FORMAT, MANIFEST
from config.moving.records import LINES, ManifestRecord, RepoRecord

LINE_MAX = 4 * 1024 * 1024
"""Most bytes of a line. A text has at most 65,536 characters."""
LINES_MAX = 4 * 1024**3
"""Most bytes of one file with lines."""
EVENTS = "events.jsonl"
"""The only file that is not imported."""
UPLOAD = re.compile(r"uploads/[0-9a-f]{64}")


@contextmanager
def reading(path: Path) -> Iterator[ArchiveReader]:
    """Open an archive. `ValueError` if it is damaged, or not an archive of this format."""
    try:
        # Opened here, because a failure would leave iterators that keep the file open.
        with path.open("rb") as raw, ZipFile(raw) as file:
            yield ArchiveReader(file, path.stat().st_size)
    # `zipfile` raises all of these for bytes that it cannot read; the third for later versions.
    except (BadZipFile, EOFError, NotImplementedError, struct.error, zlib.error) as error:
        raise ValueError(f"{path} is damaged, or no archive: {error}") from None


class ArchiveReader:
    def __init__(self, file: ZipFile, size: int) -> None:
        self.zip = file
        self.files: dict[str, ZipInfo] = {}
        for info in file.infolist():
            check_file(info)
            if info.filename in self.files:
                raise ValueError(f"The archive has two files {json.quoted(info.filename)}.")
            self.files[info.filename] = info
        uploads = (info.file_size for name, info in self.files.items() if is_upload(name))
        if sum(uploads) > size:  # an export stores them as they are
            raise ValueError("The uploads are larger than the archive.")
        # Another format may have other records: it is named before they are looked at.
        self.manifest = self.record(MANIFEST, ManifestRecord)
        if self.manifest["format"] != FORMAT:
            raise ValueError(f"The archive has another format: {self.manifest['format']}.")
        self.repository = self.record("repository.json", RepoRecord)

    def record(self, name: str, kind: type[serializers.Serializer[Any]]) -> dict[str, Any]:
        """The record in a file of its own. `ValueError`."""
        [record] = self._records(name, kind, most=1)
        return record

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """The records of a file with lines, one after another. `ValueError` names a bad line."""
        yield from self._records(f"{name}.jsonl", LINES[name])

    def _records(
        self, name: str, kind: type[serializers.Serializer[Any]], most: int | None = None
    ) -> Iterator[dict[str, Any]]:
        if name not in self.files:
            raise ValueError(f"The archive has no {name}.")
        serializer, number = kind(), 0
        with self.zip.open(name) as file:
            while line := file.readline(LINE_MAX + 1):
                number += 1
                try:
                    if len(line) > LINE_MAX or (most and number > most):
                        raise ValueError("it is too long")
                    yield validated(serializer, json.loads_body(line))
                except (ApiError, ValueError) as error:
                    raise ValueError(f"{name}, line {number}: {error}") from None
        if most and number != most:
            raise ValueError(f"{name} is empty.")

    @property
    def bundle_size(self) -> int | None:
        """The size of the git bundle in bytes; None if there is none."""
        return self.files[BUNDLE].file_size if BUNDLE in self.files else None

    def copy_bundle(self, target: Path) -> None:
        """Write the git bundle to a new file. `OSError`."""
        with self.zip.open(BUNDLE) as source, target.open("xb") as file:
            shutil.copyfileobj(source, file)

    def upload(self, digest: str) -> bytes:
        """The content of the upload with this SHA-256. `ValueError` if it is missing."""
        if f"uploads/{digest}" not in self.files:
            raise ValueError(f"The archive lacks the upload {digest}.")
        return self.zip.read(f"uploads/{digest}")


def is_upload(name: str) -> bool:
    return UPLOAD.fullmatch(name) is not None


def check_file(info: ZipInfo) -> None:
    """`ValueError` for a file that an archive does not have, or that is too large, encrypted, or
    compressed by a method that may need much memory. A reader never gets more bytes of a file than
    its size says.
    """
    name = info.filename
    names = {MANIFEST, BUNDLE, EVENTS, "repository.json", *(f"{n}.jsonl" for n in LINES)}
    if name not in names and not is_upload(name):
        raise ValueError(f"{json.quoted(name)} does not belong into an archive.")
    if info.compress_type not in {ZIP_STORED, ZIP_DEFLATED} or info.flag_bits & 1:
        raise ValueError(f"{name} is compressed in another way, or encrypted.")
    most = SIZE_MAX if is_upload(name) else LINES_MAX
    is_read = name not in {BUNDLE, EVENTS}  # a bundle is compared with the quota
    if is_read and info.file_size > most:
        raise ValueError(f"{name} has more than {most:,} bytes.")

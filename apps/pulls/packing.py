"""Lists of commits and of files as they are stored: JSON, packed by zlib."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from apps.core import json
from apps.git.diff import FileChange
from apps.git.log import Commit, Signature

BYTES = "latin-1"
"""Maps each byte of a path to a character, and back."""


def pack_commits(commits: Sequence[Commit]) -> bytes:
    """Commits as they are stored."""
    return zlib.compress(json.dumps(commits))


def unpack_commits(stored: bytes) -> list[Commit]:
    """The commits that `pack_commits` was given."""
    return [_commit(one) for one in json.loads(zlib.decompress(stored))]


def _commit(stored: dict[str, Any]) -> Commit:
    people = {role: Signature(**stored[role]) for role in ("author", "committer")}
    return Commit(**{**stored, **people, "parents": tuple(stored["parents"])})


def pack_files(files: Sequence[FileChange]) -> bytes:
    """Files as they are stored."""
    return zlib.compress(json.dumps([stored_file(one) for one in files]))


def stored_file(file: FileChange) -> dict[str, Any]:
    """A file as JSON can hold it."""
    previous = file.previous_path
    paths = {
        "path": file.path.decode(BYTES),
        "previous_path": None if previous is None else previous.decode(BYTES),
    }
    return {**asdict(file), **paths}


def unpack_files(stored: bytes) -> list[FileChange]:
    """The files that `pack_files` was given."""
    return [file_of(one) for one in json.loads(zlib.decompress(stored))]


def file_of(stored: dict[str, Any]) -> FileChange:
    """The file that `stored_file` was given."""
    previous = stored["previous_path"]
    paths = {
        "path": stored["path"].encode(BYTES),
        "previous_path": None if previous is None else previous.encode(BYTES),
    }
    return FileChange(**{**stored, **paths})

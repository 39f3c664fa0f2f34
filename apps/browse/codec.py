"""Git's answers as JSON packed by zlib, which is how they are cached and stored, and back.

Paths and patches are bytes: each byte becomes one character.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from apps.core import json
from apps.git.blame import BlamedCommit, BlamedRange
from apps.git.diff import Changes, FileChange
from apps.git.log import Commit, Signature

ENCODING = "latin-1"


def pack(answer: Any) -> bytes:
    """An answer as it is stored: JSON, in which a dataclass without bytes is an object."""
    return zlib.compress(json.dumps(answer))


def unpack(stored: bytes) -> Any:
    """The JSON that `pack` was given."""
    return json.loads(zlib.decompress(stored))


def encode_bytes(content: bytes | None) -> str | None:
    return None if content is None else content.decode(ENCODING)


def decode_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode(ENCODING)


def decode_commit(fields: dict[str, Any]) -> Commit:
    return Commit(**{**fields, **_signatures(fields), "parents": tuple(fields["parents"])})


def _signatures(fields: dict[str, Any]) -> dict[str, Signature]:
    return {role: Signature(**fields[role]) for role in ("author", "committer")}


def encode_file(file: FileChange) -> dict[str, Any]:
    fields = _fields(file)
    return {**fields, **{name: encode_bytes(fields[name]) for name in ("path", "previous_path")}}


def decode_file(fields: dict[str, Any]) -> FileChange:
    paths = {name: decode_bytes(fields[name]) for name in ("path", "previous_path")}
    return FileChange(**{**fields, **paths})


def encode_changes(changes: Changes) -> dict[str, Any]:
    return {**_fields(changes), "files": [encode_file(file) for file in changes.files]}


def decode_changes(fields: dict[str, Any]) -> Changes:
    return Changes(**{**fields, "files": tuple(map(decode_file, fields["files"]))})


def _fields(value: Any) -> dict[str, Any]:
    # `asdict` copies each value: for some hundred files that takes longer than git.
    return {name: getattr(value, name) for name in value.__slots__}


def encode_range(blamed: BlamedRange) -> dict[str, Any]:
    return {**asdict(blamed), "original_path": encode_bytes(blamed.original_path)}


def decode_range(fields: dict[str, Any]) -> BlamedRange:
    commit = BlamedCommit(**{**fields["commit"], **_signatures(fields["commit"])})
    path = decode_bytes(fields["original_path"])
    return BlamedRange(**{**fields, "commit": commit, "original_path": path})


def pack_commits(commits: Sequence[Commit]) -> bytes:
    return pack(commits)


def unpack_commits(stored: bytes) -> list[Commit]:
    return [decode_commit(fields) for fields in unpack(stored)]


def pack_files(files: Sequence[FileChange]) -> bytes:
    return pack([encode_file(file) for file in files])


def unpack_files(stored: bytes) -> list[FileChange]:
    return [decode_file(fields) for fields in unpack(stored)]

"""Reads single refs from git's files: one file for each ref, or a line of `packed-refs`.

A push reads one or two refs under the lock of its repository, where a git process would take longer
than everything else. git moves a ref by renaming a file: a reader gets the old or the new value.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

_LOOSE: Final = re.compile(r"([0-9a-f]{40})\n?\Z")
_PACKED: Final = re.compile(r"^([0-9a-f]{40}) (.+)$", re.MULTILINE)


def read_refs(git_dir: Path, names: Collection[str]) -> dict[str, str]:
    """Full name -> object of the refs among `names` that exist. The caller has checked the names.

    A ref's own file takes precedence over `packed-refs` and is read first, because git writes
    `packed-refs` before it removes the file. `ValueError` for other files, such as symbolic refs.
    """
    loose = {name: _read_loose(git_dir / name) for name in names}
    if None not in loose.values():
        return {name: sha for name, sha in loose.items() if sha}
    packed = _read_packed(git_dir / "packed-refs")
    shas = {name: sha or packed.get(name) for name, sha in loose.items()}
    return {name: sha for name, sha in shas.items() if sha}


def _read_loose(path: Path) -> str | None:
    try:
        text = path.read_text("ascii")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    match = _LOOSE.match(text)
    if match is None:
        raise ValueError(f"not a ref: {path}")
    return match[1]


def _read_packed(path: Path) -> dict[str, str]:
    try:
        text = path.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return {}
    return {name: sha for sha, name in _PACKED.findall(text)}

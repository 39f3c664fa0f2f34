"""Single refs, as git keeps them: a file each, or lines of `packed-refs`.

A push asks for one or two under the lock of its repository, and a git process takes longer than all
else that it does there. git moves a ref by renaming a file, so that a reader finds old or new.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

_LOOSE: Final = re.compile(r"([0-9a-f]{40})\n?\Z")
_PACKED: Final = re.compile(r"^([0-9a-f]{40}) (.+)$", re.MULTILINE)


def read_refs(git_dir: Path, names: Collection[str]) -> dict[str, str]:
    """Full name -> object of those of `names` that exist; the caller has checked them.

    A file counts before a line. It is looked for first: git writes the line before it removes the
    file. `ValueError` for what is neither, as a symbolic ref.
    """
    loose = {name: _read_loose(git_dir / name) for name in names}
    if None not in loose.values():
        return {name: sha for name, sha in loose.items() if sha}
    packed = _read_packed(git_dir / "packed-refs")
    found = {name: sha or packed.get(name) for name, sha in loose.items()}
    return {name: sha for name, sha in found.items() if sha}


def _read_loose(path: Path) -> str | None:
    try:
        text = path.read_text("ascii")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    found = _LOOSE.match(text)
    if found is None:
        raise ValueError(f"no ref: {path}")
    return found[1]


def _read_packed(path: Path) -> dict[str, str]:
    try:
        text = path.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return {}
    return {name: sha for sha, name in _PACKED.findall(text)}

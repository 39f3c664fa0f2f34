"""Names of refs, and single refs as git's files have them: one file for each ref, or a line of
`packed-refs`.

A push reads one or two refs under the lock of its repository, where a git process would take longer
than everything else. git moves a ref by renaming a file: a reader gets the old or the new value.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

_LOOSE: Final = re.compile(r"([0-9a-f]{40})\n?\Z")
_PACKED: Final = re.compile(r"^([0-9a-f]{40}) (.+)$", re.MULTILINE)
_PULL_REF: Final = re.compile(
    r"refs/(pull/[1-9][0-9]{0,17}/head|versions/[1-9][0-9]{0,17}/[1-9][0-9]{0,17}"
    r"|approved/[1-9][0-9]{0,17}/[0-9a-f]{40})\Z"
)
_BAD_NAME: Final = re.compile(
    r"""
      [\x00-\x20\x7f~^:?*\[\\]        # git's own rules, see git-check-ref-format(1)
    | \.\. | @\{ | // | (\A|/)\. | \.lock(/|\Z) | \A/ | /\Z | \.\Z
    | \A- | \AHEAD\Z | \A@\Z          # git would read an option or another revision
    | \A[0-9a-fA-F]{40}\Z
    | [\ud800-\udfff]                 # bytes that are not UTF-8
    """,
    re.VERBOSE,
)
_NAME_BYTES: Final = 255
_COMPONENT_BYTES: Final = 250  # a file name with room for ".lock"
MOST_BYTES: Final = 244
"""With `refs/heads/` in front 255, the most bytes of a file name."""
_PREFIXES: Final = ("refs/", "heads/", "tags/", "remotes/")
_OBJECT_NAME: Final = re.compile(r"(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})\Z")


def valid_branch_name(text: str) -> bool:
    """Whether git, its commands and the file system all accept this name for a branch."""
    return (
        text != ""
        and not _BAD_NAME.search(text)
        and len(text.encode()) <= _NAME_BYTES
        and all(len(part.encode()) <= _COMPONENT_BYTES for part in text.split("/"))
    )


def valid_ref_name(text: str) -> bool:
    """Whether this is the full name of a branch, a tag, or a commit that a pull keeps."""
    for namespace in ("refs/heads/", "refs/tags/"):
        if text.startswith(namespace):
            return valid_branch_name(text.removeprefix(namespace))
    return _PULL_REF.match(text) is not None


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


def new_name_problem(name: str) -> str | None:
    """The reason why a new branch or tag may not have this short name; None if it may.

    `valid_branch_name` also allows the names that existing branches may have.
    """
    if len(name.encode("utf-8", "surrogateescape")) > MOST_BYTES:
        return f"names may have at most {MOST_BYTES} bytes"
    if _OBJECT_NAME.match(name):
        return "names of 40 or 64 hexadecimal digits are reserved for commits"
    if name.startswith("-"):
        return "names may not begin with '-'"
    if begins_like_full_name(name):
        return "names may not begin with 'refs/', 'heads/', 'tags/' or 'remotes/'"
    if name == "HEAD":
        return "HEAD is reserved for the default branch"
    return None if valid_branch_name(name) else "this name is not allowed"


def begins_like_full_name(name: str) -> bool:
    """Whether git may resolve this short name to another ref."""
    return name.startswith(_PREFIXES)

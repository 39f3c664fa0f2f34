"""Rules for the names of new branches and tags. Existing names need not follow them."""

import re
from typing import Final

from apps.git.repo import valid_branch_name

MOST_BYTES: Final = 244
"""With `refs/heads/` in front 255, the most bytes of a file name."""
_PREFIXES: Final = ("refs/", "heads/", "tags/", "remotes/")
_OBJECT_NAME: Final = re.compile(r"(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})\Z")


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

"""Which names new branches and tags may have. What was made before one of these rules stays."""

import re
from typing import Final

from apps.git.repo import valid_branch_name

MOST_BYTES: Final = 244
"""With `refs/heads/` before it 255: what a file may be called."""
_PLACES: Final = ("refs/", "heads/", "tags/", "remotes/")
_OBJECT_NAME: Final = re.compile(r"(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})\Z")


def new_name_problem(name: str) -> str | None:
    """Why no branch or tag may be made with this short name; None when one may.

    `valid_branch_name` is true for all names that branches may have had before.
    """
    if len(name.encode("utf-8", "surrogateescape")) > MOST_BYTES:
        return f"names have {MOST_BYTES} bytes at most"
    if _OBJECT_NAME.match(name):
        return "names of 40 or 64 hexadecimal digits are those of commits"
    if name.startswith("-"):
        return "names do not begin with '-'"
    if begins_like_a_place(name):
        return "names do not begin with 'refs/', 'heads/', 'tags/' or 'remotes/'"
    if name == "HEAD":
        return "HEAD is another name for the default branch"
    return None if valid_branch_name(name) else "this name is not allowed"


def begins_like_a_place(name: str) -> bool:
    """Whether git, given this short name, may look for another ref than this one."""
    return name.startswith(_PLACES)

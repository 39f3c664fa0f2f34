"""The order of a tree of replies as sortable text. Pure: no database, no Django.

A path is one fixed-width step for each level, so that comparing texts compares trees: a parent
comes before its children, siblings by number.
"""

from __future__ import annotations

DEPTH_MAX = 50
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WIDTH = 5
"""36 ** 5: sixty million replies in one thread."""
PATH_MAX = WIDTH * (DEPTH_MAX + 1)


def child_path(parent_path: str, number: int) -> str:
    """The path of a reply below another; `parent_path` is empty for a top-level reply.

    A step is in upper-case base 36, which sorts alike in every collation.
    """
    step = ""
    for _ in range(WIDTH):
        number, digit = divmod(number, 36)
        step = DIGITS[digit] + step
    return parent_path + step


def ancestor_paths(path: str) -> list[str]:
    """The paths of all replies above this one, from the root down."""
    return [path[:end] for end in range(WIDTH, len(path), WIDTH)]


def parent_number(path: str) -> int | None:
    """The number of the reply right above this one; None for a top-level reply."""
    above = path[-2 * WIDTH : -WIDTH]
    return int(above, 36) if above else None

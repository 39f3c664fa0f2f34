"""Suggested changes in comments on lines: parsing them, and applying them to a file.

A suggestion is a fenced block of Markdown with the word `suggestion`. Its lines replace those that
the comment is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt

from apps.git.lines import Lines

WORD = "suggestion"
PARSER = MarkdownIt("zero").enable(["code", "fence"])
"""Knows no quotes: a suggestion that a reply quotes is not one of its own."""
LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")


@dataclass(frozen=True)
class Edit:
    """The new content of lines of a file, as lines without their ends; none to delete the lines."""

    place: Lines
    lines: tuple[str, ...]


def suggestions_in(body: str) -> list[tuple[str, ...]]:
    """The lines of each suggestion in a text."""
    fences = [token for token in PARSER.parse(body) if token.type == "fence"]
    contents = [token.content for token in fences if token.info.split()[:1] == [WORD]]
    return [
        tuple(content.removesuffix("\n").split("\n")) if content else () for content in contents
    ]


def suggestion_in(body: str) -> tuple[str, ...] | None:
    """The lines of the suggestion in a text; None unless it has exactly one."""
    suggestions = suggestions_in(body)
    return suggestions[0] if len(suggestions) == 1 else None


def overlap(edits: Iterable[Edit]) -> bool:
    """Whether two of these edits change the same line of a file."""
    places = sorted((edit.place.path, edit.place.start, edit.place.end) for edit in edits)
    return any(a[0] == b[0] and a[2] >= b[1] for a, b in pairwise(places))


def edited(content: bytes, edits: Sequence[Edit]) -> bytes:
    """The file after these edits, which do not overlap. New lines end like the first line that they
    replace. A file that ends without a line end still does.
    """
    lines: list[bytes] = LINE.findall(content)
    for edit in sorted(edits, key=lambda edit: edit.place.start, reverse=True):
        first, end = edit.place.start - 1, edit.place.end
        line_end = _line_end(lines[max(0, first - 1) : first + 1])
        new = [line.encode() + line_end for line in edit.lines]
        if new and not lines[end - 1].endswith(b"\n"):
            new[-1] = new[-1].removesuffix(line_end)
        lines[first:end] = new
    return b"".join(lines)


def _line_end(lines: Sequence[bytes]) -> bytes:
    """The line end of the last of these lines that has one."""
    ends = [line[-2:] for line in lines if line.endswith(b"\n")]
    return b"\r\n" if ends and ends[-1] == b"\r\n" else b"\n"

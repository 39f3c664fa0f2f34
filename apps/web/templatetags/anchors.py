"""Template filters for comments on lines: their place in words, its address, and its snippet."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from django import template

from apps.browse.names import path_in_tree
from apps.git.lines import Outdated
from apps.threads.anchors import Side

register = template.Library()
REASONS = {
    Outdated.CHANGED: "the lines have changed since",
    Outdated.FILE_DELETED: "the file is gone",
    Outdated.BINARY: "the file is binary now",
    Outdated.TOO_LARGE: "the file is too large now",
    Outdated.LINE_GONE: "the lines are gone",
}


class SnippetRow(NamedTuple):
    """A line of a snippet. `is_commented`: it is one of the lines, not one before them."""

    number: int
    text: str
    is_commented: bool


def anchor_of(path: bytes) -> str:
    """The id of a file on a page of changes, which also names it in addresses."""
    return f"f{hashlib.sha256(path).hexdigest()[:12]}"


def newest_place(anchor: dict[str, Any]) -> dict[str, Any]:
    """The lines at the current head, else those that were commented."""
    place: dict[str, Any] = anchor["current"] or anchor
    return place


@register.filter
def place_words(anchor: dict[str, Any]) -> str:
    """The lines of a place: "lines 3 to 5", with the side if it is the old one."""
    place = newest_place(anchor)
    first, last = place["start_line"], place["line"]
    words = f"line {last}" if first == last else f"lines {first} to {last}"
    return f"{words} before the changes" if anchor["side"] == Side.OLD else words


@register.filter
def place_address(anchor: dict[str, Any], thread_url: str) -> str:
    """The address of the lines among the changes of the pull."""
    place = newest_place(anchor)
    base64 = place.get("path_base64")
    file = anchor_of(path_in_tree("" if base64 else place["path"], base64))
    head, _, number = thread_url.rpartition("/threads/")
    first, last = place["start_line"], place["line"]
    letter = "o" if anchor["side"] == Side.OLD else "n"
    lines = f"{file}-{letter}{first}-{last}"
    return f"{head}/pulls/{number}/files?lines={lines}#{file}-{letter}{last}"


@register.filter
def outdated_words(anchor: dict[str, Any]) -> str:
    """The reason why the lines are not at the current head; "" if they are."""
    reason = anchor["outdated_reason"]
    return REASONS[Outdated(reason)] if reason else ""


@register.filter
def snippet_rows(anchor: dict[str, Any]) -> list[SnippetRow]:
    """The lines of the snippet, as numbered in the commit that was commented."""
    texts = anchor["snippet"]
    first = anchor["line"] - len(texts) + 1
    return [
        SnippetRow(number, text, number >= anchor["start_line"])
        for number, text in enumerate(texts, first)
    ]

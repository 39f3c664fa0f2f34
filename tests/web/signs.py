"""Finds colours that alone carry a meaning: a word or an icon has to stand beside each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from tests.web.markup import VOID

A_WORD = r"[A-Za-z]{2}"
SAID = {
    "state": A_WORD,
    "message": A_WORD,
    "wrong": A_WORD,
    "live": A_WORD,
    "gone": A_WORD,
    "tint-good": A_WORD,
    "tint-bad": A_WORD,
    "tint-wait": A_WORD,
    "tint-done": A_WORD,
    "unread": r"\bunread\b",
    "accepted": r"\bAccepted\b",
    "hot": r"\d",
    "stat": r"^\+\d+.*\u2212\d+",
}
"""Classes that colour an element, with the pattern that its text has to match."""
OF_CHECKS = r"^(Met|Not met): \S"
"""The first words of each condition of a merge, beside its tinted icon."""


@dataclass
class Opened:
    """An open element, with the parts read so far."""

    tag: str
    classes: list[str]
    needed: list[str] = field(default_factory=list)
    """The pattern for the text of an element that is coloured, or whose icon is."""
    text: str = ""


class Reader(HTMLParser):
    """Parses a page once and collects elements with a meaning that only their colour has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.opened: list[Opened] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        one = Opened(tag, known.get("class", "").split())
        needed = [SAID[name] for name in one.classes if name in SAID]
        if tag == "svg" and needed and self.opened:  # an icon: the word stands beside it
            above = self.opened[-1]
            in_checks = len(self.opened) > 1 and "checks" in self.opened[-2].classes
            above.needed += [OF_CHECKS] if in_checks else needed
        elif tag != "svg":
            one.needed = needed
        if known.get("aria-invalid") == "true" and "_error" not in known.get(
            "aria-describedby", ""
        ):
            self.found.append(f"nothing says what is wrong with {known.get('name')}")
        if tag not in VOID:
            self.opened.append(one)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        if self.opened:
            self.opened[-1].text += data

    def handle_endtag(self, tag: str) -> None:
        if not self.opened:
            return
        one = self.opened.pop()
        if self.opened:
            self.opened[-1].text += one.text
        text = " ".join(one.text.split())
        self.found += [
            f"<{one.tag} class={one.classes}> says {text[:80]!r}"
            for pattern in one.needed
            if not re.search(pattern, text)
        ]


def colour_alone(html: str) -> list[str]:
    """Elements with a meaningful colour that have neither a word nor an icon for it."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader.found

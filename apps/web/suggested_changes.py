"""Suggestions in comments on lines as pages show them: the lines before and after, and whether they
can be applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import unescape
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from apps.browse.cache import cached
from apps.browse.names import quick
from apps.git.diff import SIDE_MAX, FileChange
from apps.git.tree import read_blobs
from apps.pulls.models import PullVersion
from apps.pulls.serializers import BODY_MAX
from apps.pulls.suggestions import WORD, suggestions_in
from apps.threads.anchors import Side
from apps.threads.models import ReplyStatus
from apps.web.diff_tables import Place
from apps.web.templatetags.anchors import outdated_words

BLOCK = re.compile(r"<pre><code>(.*?)</code></pre>\s*", re.DOTALL)
FENCE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)


@dataclass(frozen=True)
class Suggestion:
    """The context of `_suggestion.html`."""

    old: tuple[str, ...] = ()
    """The lines that it replaces, as far as the comment's snippet has them."""
    new: tuple[str, ...] = ()
    problem: str = ""
    """The reason why it cannot be applied; "" if it can be, or has been."""
    is_open: bool = False


def add_suggestions(records: Iterable[dict[str, Any]]) -> int:
    """Set `suggestion` of each of these replies that has one, and take its block out of the HTML;
    returns the number of those that can be applied.
    """
    count = 0
    for record in records:
        if record.get("anchor") and WORD in record.get("body", ""):
            add_suggestion(record)
            suggestion = record.get("suggestion")
            count += bool(suggestion and suggestion.is_open)
    return count


def add_suggestion(record: dict[str, Any]) -> None:
    suggestions = suggestions_in(record["body"])
    if not suggestions:
        return
    if len(suggestions) > 1:
        text = "This comment has several suggestions. A comment with one can be applied."
        record["suggestion"] = Suggestion(problem=text)
        return
    [lines] = suggestions
    anchor = record["anchor"]
    problem = problem_of(anchor)
    is_open = not problem and record.get("status") == ReplyStatus.OPEN
    count = anchor["line"] - anchor["start_line"] + 1
    old = tuple(anchor["snippet"][-count:])
    record["suggestion"] = Suggestion(old, lines, problem, is_open)
    if record.get("body_html"):
        record["body_html"] = without_block(record["body_html"], lines)


def problem_of(anchor: dict[str, Any]) -> str:
    """The reason why the suggestion of a comment on these lines cannot be applied; "" for none."""
    if anchor["side"] == Side.OLD:
        return "This cannot be applied, because the pull removes the lines."
    if anchor.get("outdated_reason"):
        return f"This cannot be applied: {outdated_words(anchor)}."
    return ""


def without_block(html: str, lines: tuple[str, ...]) -> SafeString:
    """The HTML of a text without the code block that has these lines."""
    content = "".join(f"{line}\n" for line in lines)
    for match in BLOCK.finditer(html):
        if unescape(match[1]) == content:
            html = html[: match.start()] + html[match.end() :]
            break
    return mark_safe(html)  # noqa: S308 - a part of safe HTML without a whole element


def suggestion_block(version: PullVersion, file: FileChange, place: Place) -> str:
    """A suggestion with the present lines of a place, to be edited; "" if there can be none: on
    removed lines, for lines that are not UTF-8, and for a text that would be too long.
    """
    if place.side != "n" or file.sha is None:
        return ""
    sha, repo = file.sha, version.pull.repo

    def ask() -> str:
        with quick():
            content = read_blobs(repo.git, [sha], most=SIDE_MAX, together=SIDE_MAX).get(sha, b"")
        lines = content.split(b"\n")[place.first - 1 : place.last]
        try:
            return "\n".join(line.removesuffix(b"\r").decode() for line in lines)
        except UnicodeDecodeError:
            return "\0"

    text: str = cached(repo, ("suggested", sha, place.first, place.last), ask)
    if "\0" in text or len(text) > BODY_MAX // 2:
        return ""
    fence = max((match[1] for match in FENCE.finditer(text)), key=len, default="``") + "`"
    return f"{fence}{WORD}\n{text}\n{fence}\n"

"""Colours for code: each line of a file as pieces of text, each with one of seven CSS classes.

The language follows from the name of the file alone. A file stays plain if it is large, has a very
long line, or takes too long.
"""

from __future__ import annotations

import html
from functools import cache
from typing import Any

from pygments.lexers import get_all_lexers
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String

from apps.core.lexers import LANGUAGES, Budget, tokens_of
from apps.web import hidden_characters

Piece = tuple[str, str]
"""A CSS class, "" for none, and text without line ends."""
Line = list[Piece]

VERSION = 2
"""Part of the cache key: raise it when colouring changes."""
CHARACTERS_MAX = 128 * 1024
LINES_MAX = 2000
"""A file with more characters or lines stays plain."""
LINE_MAX = 1000
"""A file with a longer line, in characters, stays plain: lexers can take extremely long on it."""
SECONDS_MAX = 0.3
"""Processor time for colouring one file; the rest of the file stays plain."""

LANGUAGE_OF_NAME = {
    pattern.lower(): name
    for _, aliases, patterns, _ in get_all_lexers(plugins=False)
    for name in [alias for alias in aliases if alias in LANGUAGES][:1]
    for pattern in patterns
}
LANGUAGE_OF_NAME |= {"*.c": "c", "*.h": "c", "*.cljs": "clojure", "*.edn": "clojure"}
LANGUAGE_OF_NAME |= {"*.dockerfile": "docker", "*.f95": "fortran", "*.s": "", "*.sty": "tex"}
"""The languages of code in Markdown by Pygments' patterns of file names, such as `*.py`. C is more
frequent than C++ and Objective-C, and assembly is not R.
"""
CLASSES = {
    Comment: "x",
    Comment.Preproc: "d",
    Generic.Deleted: "m",
    Generic.Heading: "f",
    Generic.Inserted: "s",
    Generic.Subheading: "d",
    Keyword: "k",
    Name.Attribute: "d",
    Name.Class: "f",
    Name.Decorator: "d",
    Name.Function: "f",
    Name.Tag: "k",
    Number: "m",
    Operator: "o",
    Operator.Word: "k",
    String: "s",
}
"""CSS classes by type of token; subtypes inherit the class, other types have none. k: keyword,
s: string, m: number, f: defined name, o: operator, d: decoration, x: comment.
"""
VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"}
VISIBLE |= {0x7F: 0x2421}
"""Unicode's symbols for control characters, which are not allowed in HTML."""
AS_HTML: dict[int, Any] = {**VISIBLE, ord("\r"): "&#13;"}
"""A carriage return is escaped: a browser would normalize the character to a line feed."""


def coloured_lines(name: str, text: str, budget: Budget) -> list[Line]:
    """The lines of a file, coloured as far as the budget allows."""
    language = language_of(name)
    if not language or not can_be_coloured(text):
        return plain_lines(text)
    tokens = tokens_of(text, language, budget, seconds=SECONDS_MAX)
    return split_pieces([(class_of(kind), value) for kind, value in tokens])


def plain_lines(text: str) -> list[Line]:
    return split_pieces([("", text)])


def language_of(name: str) -> str:
    """Pygments' name of the language of a file; "" if its name does not tell."""
    last = name.rpartition("/")[2].lower()
    ending = last.rpartition(".")[2] if "." in last else ""
    return LANGUAGE_OF_NAME.get(last) or LANGUAGE_OF_NAME.get(f"*.{ending}", "")


def can_be_coloured(text: str) -> bool:
    if len(text) > CHARACTERS_MAX or text.count("\n") > LINES_MAX:
        return False
    return max(map(len, text.split("\n"))) <= LINE_MAX


@cache
def class_of(kind: Any) -> str:
    return next((CLASSES[one] for one in reversed(kind.split()) if one in CLASSES), "")


def split_pieces(pieces: list[Piece]) -> list[Line]:
    """The pieces split into lines, without the line feeds. The last line may have none."""
    lines: list[Line] = [[]]
    for kind, text in pieces:
        for at, part in enumerate(text.split("\n")):
            lines += [[]] if at else []
            add_piece(lines[-1], kind, part)
    if not lines[-1]:
        lines.pop()
    return lines


def add_piece(line: Line, kind: str, text: str) -> None:
    """Add text to a line, joined to the last piece if that has the same class."""
    if not text:
        return
    if line and line[-1][0] == kind:
        line[-1] = kind, line[-1][1] + text
    else:
        line.append((kind, text))


def text_of(line: Line) -> str:
    return "".join(text for _, text in line)


def html_of(line: Line, marked: tuple[int, int] | None = None) -> str:
    """A line as HTML; `marked`: start and end of the characters to put into a `<mark>`."""
    if marked is None:
        return pieces_html(line)
    start, stop = marked
    before, rest = split_line(line, start)
    inside, after = split_line(rest, stop - start)
    mark = f"<mark>{pieces_html(inside)}</mark>"
    if len(inside) == 1:  # the tags of the piece stand around the mark, instead of three times
        [(kind, text)] = inside
        left = before.pop()[1] if before and before[-1][0] == kind else ""
        right = after.pop(0)[1] if after and after[0][0] == kind else ""
        mark = piece_html(kind, f"{escaped(left)}<mark>{escaped(text)}</mark>{escaped(right)}")
    return f"{pieces_html(before)}{mark}{pieces_html(after)}"


def pieces_html(line: Line) -> str:
    return "".join(piece_html(kind, escaped(text)) for kind, text in line)


def piece_html(kind: str, inner: str) -> str:
    """A piece in its tags, which are short because a page has thousands of them."""
    return f"<i class={kind}>{inner}</i>" if kind else inner


def split_line(line: Line, length: int) -> tuple[Line, Line]:
    before, after = Line(), Line()
    for kind, text in line:
        add_piece(before, kind, text[:length])
        add_piece(after, kind, text[length:])
        length = max(0, length - len(text))
    return before, after


def escaped(text: str) -> str:
    """Text of a file as HTML, with marks for hidden characters."""
    return hidden_characters.marked(html.escape(text, quote=False).translate(AS_HTML))

"""Colours for code: each line of a file as pieces of text, which have one of seven classes.

The name of the file alone says which language it is. What is large, has a very long line, or takes
too long stays plain.
"""

from __future__ import annotations

import html
from functools import cache
from typing import Any

from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String

from apps.core.lexers import Budget, tokens_of
from apps.web import hidden_characters

Piece = tuple[str, str]
"""A class, "" for none, and text without line ends."""
Line = list[Piece]

VERSION = 1
"""Raised when lines are coloured in another way."""
CHARACTERS_MAX = 128 * 1024
LINES_MAX = 2000
"""A file with more of either stays plain."""
LINE_MAX = 1000
"""Characters; a file with a longer line stays plain: in such lines lexers may try without end."""
SECONDS_MAX = 0.3
"""Limits the processor time that colouring one file may take; the rest stays plain."""

ENDINGS = {
    "bash": "bash sh zsh",
    "c": "c h",
    "clojure": "clj cljs edn",
    "cmake": "cmake",
    "cpp": "cc cpp cxx hh hpp hxx",
    "csharp": "cs",
    "css": "css",
    "diff": "diff patch",
    "docker": "dockerfile",
    "elixir": "ex exs",
    "elm": "elm",
    "erlang": "erl hrl",
    "fortran": "f90 f95",
    "fsharp": "fs fsi fsx",
    "go": "go",
    "graphql": "graphql",
    "groovy": "gradle groovy",
    "haskell": "hs",
    "hcl": "hcl",
    "html": "htm html",
    "ini": "cfg ini",
    "java": "java",
    "javascript": "cjs js jsx mjs",
    "json": "json",
    "julia": "jl",
    "kotlin": "kt kts",
    "less": "less",
    "lisp": "lisp",
    "lua": "lua",
    "make": "mk",
    "nix": "nix",
    "ocaml": "ml mli",
    "perl": "pl pm",
    "php": "php",
    "powershell": "ps1 psm1",
    "properties": "properties",
    "protobuf": "proto",
    "python": "py pyi",
    "r": "r",
    "rst": "rst",
    "ruby": "rb",
    "rust": "rs",
    "sass": "sass",
    "scala": "scala",
    "scheme": "scm",
    "scss": "scss",
    "sql": "sql",
    "swift": "swift",
    "tcl": "tcl",
    "terraform": "tf",
    "tex": "sty tex",
    "toml": "toml",
    "typescript": "ts tsx",
    "vim": "vim",
    "vue": "vue",
    "xml": "svg xml xsd xsl",
    "yaml": "yaml yml",
    "zig": "zig",
}
"""The endings of names by Pygments' name of the language, which is one of those that texts may
have as well (`apps/core/lexers.py`).
"""
LANGUAGE_OF_ENDING = {end: language for language, ends in ENDINGS.items() for end in ends.split()}
LANGUAGE_OF_NAME = {
    "cmakelists.txt": "cmake",
    "dockerfile": "docker",
    "gemfile": "ruby",
    "gnumakefile": "make",
    "makefile": "make",
    "nginx.conf": "nginx",
    "rakefile": "ruby",
}
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
"""By kind of token: keyword, string, number, name that is defined, operator, decoration, comment.
Kinds below these have the same; all else stays plain.
"""
VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"}
VISIBLE |= {0x7F: 0x2421}
"""Control characters, which HTML has not, as the signs that Unicode has for them."""
AS_HTML: dict[int, Any] = {**VISIBLE, ord("\r"): "&#13;"}
"""A browser would take a carriage return itself for the end of a line."""


def coloured_lines(name: str, text: str, budget: Budget) -> list[Line]:
    """The lines of the file of this name, as far as they take no longer than the budget has."""
    language = language_of(name)
    if not language or not fits(text):
        return plain_lines(text)
    return split_pieces(pieces_of(text, language, budget))


def plain_lines(text: str) -> list[Line]:
    """The same without colours."""
    return split_pieces([("", text)])


def language_of(name: str) -> str:
    """Pygments' name for what is written in a file of this name; "" where nobody knows."""
    last = name.rpartition("/")[2].lower()
    found = LANGUAGE_OF_NAME.get(last)
    return found or LANGUAGE_OF_ENDING.get(last.rpartition(".")[2] if "." in last else "", "")


def fits(text: str) -> bool:
    """Whether this is not too much to be coloured."""
    if len(text) > CHARACTERS_MAX or text.count("\n") > LINES_MAX:
        return False
    return max(map(len, text.split("\n"))) <= LINE_MAX


def pieces_of(text: str, language: str, budget: Budget) -> list[Piece]:
    """All of the text, whatever the lexer makes of it."""
    tokens = tokens_of(text, language, budget, seconds=SECONDS_MAX)
    return [(class_of(kind), value) for kind, value in tokens]


@cache
def class_of(kind: Any) -> str:
    """The class of a kind of token."""
    while kind is not None:
        if kind in CLASSES:
            return CLASSES[kind]
        kind = kind.parent
    return ""


def split_pieces(pieces: list[Piece]) -> list[Line]:
    """Lines without their ends. A last line may end without one, as in a file."""
    lines: list[Line] = [[]]
    for kind, text in pieces:
        first, *others = text.split("\n")
        add_piece(lines[-1], kind, first)
        for other in others:
            lines.append([])
            add_piece(lines[-1], kind, other)
    if not lines[-1]:
        lines.pop()
    return lines


def add_piece(line: Line, kind: str, text: str) -> None:
    """Add to a line, in one piece with what has the same class."""
    if not text:
        return
    if line and line[-1][0] == kind:
        line[-1] = kind, line[-1][1] + text
    else:
        line.append((kind, text))


def text_of(line: Line) -> str:
    """A line without its colours."""
    return "".join(text for _, text in line)


def html_of(line: Line, marked: tuple[int, int] | None = None) -> str:
    """A line as HTML; `marked`: from which to before which character it stands out."""
    if marked is None:
        return pieces_html(line)
    start, stop = marked
    before, rest = cut(line, start)
    inside, after = cut(rest, stop - start)
    return f"{pieces_html(before)}<mark>{pieces_html(inside)}</mark>{pieces_html(after)}"


def pieces_html(line: Line) -> str:
    return "".join(
        f'<span class="{kind}">{escaped(text)}</span>' if kind else escaped(text)
        for kind, text in line
    )


def cut(line: Line, length: int) -> tuple[Line, Line]:
    """The first so many characters, and the others."""
    before, after = Line(), Line()
    for kind, text in line:
        add_piece(before, kind, text[:length])
        add_piece(after, kind, text[length:])
        length = max(0, length - len(text))
    return before, after


def escaped(text: str) -> str:
    """Text of a file as HTML."""
    return hidden_characters.marked(html.escape(text, quote=False).translate(AS_HTML))

"""The house rule about prose: the worst patterns of docstrings and comments, counted by folder.

`prose_counts.json` has the counts, which may only go down: see `test_house_rules.py`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.house_rules import Source

RIDDLE = re.compile(r"(?:What|Whoever|Who|That)\b")
"""A text that begins with one of these has no noun as its subject."""
DANGLING = re.compile(
    r"(?<!\bdo )(?<!\bdoes )(?<!\bdid )(?<!\bdoing )(?<!\bdone )(?<!\bif )(?<!\bsay )(?<!\bsays )"
    r"(?<!\bsaid )(?<!\beven )(?<!\bor )\b(?:so|as)(?=[.,;:!?)]|\s*$)"
)
"""`so` or `as` at the end of a clause, except in "does so", "says so", "if so" and "or so"."""


def plain_prose(source: Source) -> Iterator[str]:
    """Docstrings and comments have a noun as subject, and no adverb at the end of a clause."""
    for number, text in sorted([*docstrings(source), *comments(source)]):
        if RIDDLE.match(text):
            yield f"{number}: begins with {text.split()[0]}: name the thing instead"
        if found := DANGLING.search(text):
            yield f"{number}: ends a clause with {found[0]}: say what is meant"


def docstrings(source: Source) -> Iterator[tuple[int, str]]:
    """The line and the text of each docstring, including those of attributes and fields."""
    for node in ast.walk(source.tree):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, " ".join(value.value.split())


def comments(source: Source) -> Iterator[tuple[int, str]]:
    """The first line and the text of each comment. Several lines are one comment, but a comment
    behind code is not continued.
    """
    start, texts = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, is_alone = token.start[0], token.line.lstrip().startswith("#")
        if texts and not (is_alone and line == start + len(texts)):
            yield start, " ".join(texts)
            texts = []
        start = start if texts else line
        texts.append(token.string.lstrip("#: "))
    if texts:
        yield start, " ".join(texts)


def folder_of(path: str) -> str:
    """The folder for the count: an app, a folder of tests, or a top folder."""
    parts = path.split("/")
    return "/".join(parts[: 2 if len(parts) > 2 else 1])

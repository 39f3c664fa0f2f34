"""Marks for hidden characters: characters that change the direction of text or have no width.

With them, a line of code can look different from the code that a compiler reads.
"""

from __future__ import annotations

import html
import re
import sys
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

BYTE_ORDER_MARK = "\ufeff"
VISIBLE_FORMATS = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
"""Format characters (Unicode category Cf) that fonts draw: Arabic, Syriac and Kaithi signs."""
OTHERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2028\u2029\u3164\uffa0"
"""Other hidden characters: fillers, variation selectors and line separators."""
FORMATS = "".join(
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.category(chr(code)) == "Cf" and code not in VISIBLE_FORMATS
).translate({0x200C: None, 0x200D: None})
EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
JOINED = "\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\u1800-\u18aa"
"""Scripts whose words need joiners."""
IDEOGRAPHS = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
HIDDEN = re.compile(
    f"[{FORMATS}{OTHERS}]"
    f"|(?<![{EMOJI}{JOINED}\ufe0f])[\u200c\u200d]|[\u200c\u200d](?![{EMOJI}{JOINED}])"
    f"|[\ufe00-\ufe0d]|(?<![{EMOJI}0-9#*])[\ufe0e\ufe0f]"
    f"|(?<![{IDEOGRAPHS}])[\U000e0100-\U000e01ef]"
)
"""A hidden character. Joiners and variation selectors do not count inside an emoji or inside a word
of a script that needs them.
"""
MARK = '<span class="hidden-char"'


def escaped(text: str) -> str:
    """The text as HTML, with a mark around each hidden character."""
    return marked(html.escape(text))


def marked(escaped_text: str) -> str:
    """Escaped text with a mark around each hidden character. The stylesheet draws the code of the
    mark; the text itself does not change, and copies unchanged.
    """
    if escaped_text.isascii():
        return escaped_text
    return HIDDEN.sub(lambda match: mark(match[0]), escaped_text)


def spelled(text: str) -> str:
    """The text with codes such as [U+200B] for hidden characters, for page titles and labels, which
    cannot have marks.
    """
    if text.isascii():
        return text
    return HIDDEN.sub(lambda match: f"[{code_of(match[0])}]", text)


def code_of(character: str) -> str:
    return f"U+{ord(character):04X}"


@lru_cache(1024)
def mark(character: str) -> str:
    name = unicodedata.name(character, "NO NAME")
    return f'{MARK} title="{name}" data-code="{code_of(character)}">{character}</span>'


def has_hidden(text: str) -> bool:
    """Whether a text has hidden characters, besides a byte order mark at its start."""
    return not text.isascii() and HIDDEN.search(text.removeprefix(BYTE_ORDER_MARK)) is not None


def rows_have_hidden(rows: Iterable[tuple[str, int | None, int | None, str]]) -> bool:
    """Whether any row of a diff has a mark, besides a byte order mark at the start of the file."""
    return any(
        MARK in (text.replace(mark(BYTE_ORDER_MARK), "", 1) if 1 in {old, new} else text)
        for _, old, new, text in rows
    )

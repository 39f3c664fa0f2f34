"""Colours for code of a named language, as classes of Pygments'; no style, which a CSP refuses."""

from __future__ import annotations

from typing import Any

from pygments import format
from pygments.formatters import HtmlFormatter
from pygments.token import STANDARD_TYPES

from apps.core.lexers import Budget, tokens_of

NAMES = """
    bash c c# c++ clojure cmake console cpp cs csharp css diff docker dockerfile elixir elm
    erlang fortran fsharp go golang graphql groovy haskell hcl hs html http ini java javascript
    jinja js json jsx julia kotlin latex less lisp lua make makefile nginx nix
    objective-c ocaml perl php pl powershell properties proto protobuf ps1 py pycon python r rb
    rst ruby rs rust sass scala scheme scss sh shell sql swift tcl terraform tex tf toml ts tsx
    typescript vim vue xml yaml yml zig zsh
"""
LANGUAGES = frozenset(NAMES.split())
"""What a fence may name: Pygments knows 500 more, whose modules would fill the memory, and among
which some take minutes for hostile text."""
CLASSES = frozenset(filter(None, STANDARD_TYPES.values()))
"""All classes that coloured code can have."""
CODE_MAX = 64 * 1024
"""Characters; longer code stays plain."""
LINE_MAX = 1000
"""Characters; code with a longer line stays plain: in such lines lexers may try without end."""
TOKENS_MAX = 10_000
"""Words, signs and strings of one code that are coloured; what follows stays plain."""
SECONDS_MAX = 0.25
"""Limits the processor time that colouring one code block may take; the rest stays plain."""


FORMATTER: Any = HtmlFormatter(nowrap=True)


def highlight(code: str, language: str, budget: Budget) -> str:
    """The code as HTML with classes; empty where it is no code to be coloured."""
    if language.lower() not in LANGUAGES or len(code) > CODE_MAX:
        return ""
    if max(map(len, code.split("\n"))) > LINE_MAX:
        return ""
    tokens = tokens_of(code, language.lower(), budget, seconds=SECONDS_MAX, most=TOKENS_MAX)
    html: str = format(tokens, FORMATTER)
    return html

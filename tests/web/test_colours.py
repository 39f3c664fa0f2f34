"""Colours of code never change the text of a file."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.lexers import LANGUAGES, Budget
from apps.web import colours
from apps.web.colours import coloured_lines, html_of, language_of, plain_lines, text_of

pytestmark = pytest.mark.once
NAMES = sorted(name.replace("*", "x") for name in colours.LANGUAGE_OF_NAME)
CODE = st.text(st.sampled_from("ab1 \t\n\r\"'#/*<>&{}()=\\-\u00e9\u202e\x00\x1b"), max_size=80)


def lines_of(text):
    """The lines of a file as git counts them."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


@given(CODE, st.sampled_from(["", "x", *NAMES]))
def test_the_text_of_coloured_lines_is_that_of_the_file(text, name):
    lines = coloured_lines(name, text, Budget(1))
    assert [text_of(line) for line in lines] == lines_of(text)
    assert {kind for line in lines for kind, _ in line} <= {"", *"ksmfodx"}
    assert not any("\n" in piece for line in lines for _, piece in line)


@given(CODE, st.integers(0, 20), st.integers(0, 20))
def test_a_line_as_html_is_the_same_text_wherever_it_is_marked(text, start, length):
    for line in coloured_lines("x.py", text, Budget(1)):
        shown = {html_of(line), html_of(line, (start, start + length))}
        for html in shown:
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", html)
            plain = unescape(re.sub(r"</?(?:span|mark)[^>]*>", "", html))
            assert plain == text_of(line).translate(colours.VISIBLE)
        assert "<script" not in html_of(line)


def test_a_line_is_coloured_by_kind_and_marked_in_whole():
    [first, second] = coloured_lines("a/b.PY", "@x  # no\ndef f(): return '<1>' or 1\n", Budget(1))
    assert html_of(first) == '<span class="d">@x</span>  <span class="x"># no</span>'
    marked = '<span class="k">def</span> <mark><span class="f">f</span>():</mark> '
    assert html_of(second, (4, 8)).startswith(marked)
    assert '<span class="s">\'&lt;1&gt;\'</span> <span class="k">or</span>' in html_of(second)


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("src/app.py", "python"),
        ("Makefile", "make"),
        ("CMakeLists.txt", "cmake"),
        ("a.tar.JS", "javascript"),
        ("a.h", "c"),
        ("b.S", ""),
        (".bashrc", "bash"),
        ("py", ""),
        ("README", ""),
        ("x.unknown", ""),
        ("", ""),
    ],
)
def test_the_name_alone_says_which_language_it_is(name, language):
    assert language_of(name) == language


def test_only_languages_are_coloured_that_texts_may_have_as_well():
    assert {*colours.LANGUAGE_OF_NAME.values()} <= LANGUAGES | {""}


@pytest.mark.parametrize(
    "text", ["import os\n" * 2001, "import os" + " " * 992, "x = 1\n" + "y" * (128 * 1024)]
)
def test_what_is_too_much_stays_plain(text):
    assert coloured_lines("x.py", text, Budget(1)) == plain_lines(text)


def test_what_takes_too_long_stays_plain_from_there_on():
    text = "import os\n" * 1500
    lines = coloured_lines("x.py", text, Budget(0.001))
    assert lines != coloured_lines("x.py", text, Budget(1))
    assert [text_of(line) for line in lines] == lines_of(text)

"""Colours of code and marks of hidden characters never change the text of a file."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.lexers import LANGUAGES, Budget
from apps.repos.models import Ref
from apps.threads.models import Thread
from apps.web import colours
from apps.web.colours import coloured_lines, html_of, language_of, plain_lines, text_of
from apps.web.hidden_characters import HIDDEN, escaped, has_hidden
from tests.browse.code import code_of, push

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
            plain = unescape(re.sub(r"</?(?:span|mark|i)[^>]*>", "", html))
            assert plain == text_of(line).translate(colours.VISIBLE)
        assert "<script" not in html_of(line)


def test_a_line_is_coloured_by_kind_and_marked_in_whole():
    [first, second] = coloured_lines("a/b.PY", "@x  # no\ndef f(): return '<1>' or 1\n", Budget(1))
    assert html_of(first) == "<i class=d>@x</i>  <i class=x># no</i>"
    marked = "<i class=k>def</i> <mark><i class=f>f</i>():</mark> "
    assert html_of(second, (4, 8)).startswith(marked)
    assert "<i class=s>'<mark>&lt;1&gt;</mark>'</i>" in html_of(second, (17, 20))
    assert "<i class=s>'&lt;1&gt;'</i> <i class=k>or</i>" in html_of(second)


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


WARNING = "This file has hidden characters"
OVERRIDE = (
    '<span class="hidden-char" title="RIGHT-TO-LEFT OVERRIDE" data-code="U+202E">\u202e</span>'
)
BEFORE = {b"app.py": b"plain = 1\n"}
AFTER = {
    b"app.py": "if level != 'user\u202e':  # \u2066 x\u200b\n".encode(),
    "gpj\u202e.py".encode(): b"1\n",
    b"bom.cs": b"\xef\xbb\xbfclass A {}\n",
}


@pytest.fixture
def commit(team_repo, alice):
    code = code_of(team_repo)
    first = code.commit_with(BEFORE)
    made = code.commit_with(BEFORE | AFTER, first, message="Fix \u202ereversed")
    push(team_repo, "refs/heads/main", made, by=alice)
    return made


def section(html, name):
    """The part of a page of changes for this file."""
    return next(one for one in html.split('<section class="sheet diff"') if f"<h3>{name}" in one)


HIDDEN_CODES = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x61C]
HIDDEN_CODES += [0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0xAD, 0x180E, 0xE0041, 0xFE0F, 0xE0101]
HIDDEN_CODES += [0x3164, 0x2028]


@pytest.mark.parametrize("code", HIDDEN_CODES)
def test_every_hidden_character_has_a_mark_with_its_code(code):
    shown = escaped(f"a{chr(code)}b")
    assert f'data-code="U+{code:04X}">{chr(code)}</span>' in shown
    assert has_hidden(f"a{chr(code)}b")


UNMARKED = ["👨‍👩‍👧", "👩🏽‍💻", "🏳️‍🌈", "❤️", "1️⃣", "می‌خواهم", "क्‍ष", "葛\U000e0100", "שלום"]
UNMARKED += ["é ü ß", "x\u0301"]


@pytest.mark.parametrize("text", UNMARKED)
def test_emoji_and_words_of_any_script_have_no_marks(text):
    assert escaped(text) == text
    assert not has_hidden(text)


@given(st.text(st.sampled_from("ab<&'\u202e\u200d\u200b\ufeff👩é")))
def test_the_text_below_the_marks_is_what_was_there(text):
    assert unescape(re.sub(r"<[^>]+>", "", escaped(text))) == text
    assert not HIDDEN.search(re.sub(r'<span class="hidden-char"[^>]*>.</span>', "", escaped(text)))


def test_a_file_shows_its_hidden_characters_and_warns_of_them(visit, team_repo, commit, alice):
    page = visit(alice).get(f"/{team_repo.path}/files/app.py").html
    assert OVERRIDE in page and 'title="ZERO WIDTH SPACE"' in page
    assert WARNING in page
    page = visit(alice).get(f"/{team_repo.path}/files/bom.cs").html
    assert 'title="ZERO WIDTH NO-BREAK SPACE"' in page and WARNING not in page


@pytest.mark.parametrize("view", ["unified", "split"])
def test_changes_show_hidden_characters_and_warn_above_their_file(
    visit, team_repo, commit, alice, view
):
    page = visit(alice).get(f"/{team_repo.path}/commits/{commit}?view={view}").html
    assert OVERRIDE in section(page, "app.py") and WARNING in section(page, "app.py")
    assert WARNING not in section(page, "bom.cs")


def test_names_of_files_and_subjects_of_commits_show_hidden_characters(
    visit, team_repo, commit, alice
):
    client = visit(alice)
    name, subject = f"gpj{OVERRIDE}.py", f"Fix {OVERRIDE}reversed"
    path = f"/{team_repo.path}"
    page = client.get(f"{path}/commits/{commit}").html
    assert f"<h3>{name}</h3>" in page
    assert f"<h1><bdi>{subject}</bdi></h1>" in page
    for address in (path, f"{path}/files", f"{path}/commits"):
        assert f"<bdi>{subject}</bdi>" in client.get(address).html
    assert name in client.get(path).html
    assert f"<h1>{name}</h1>" in client.get(f"{path}/files/gpj%E2%80%AE.py").html


def test_no_title_of_a_page_and_no_label_turns_its_text(visit, team_repo, commit, alice):
    """Attributes and titles cannot have a mark: they have the code of the character."""
    client, path = visit(alice), f"/{team_repo.path}"
    page = client.get(f"{path}/commits/{commit}").html
    assert "<title>Fix [U+202E]reversed" in page
    assert 'aria-label="gpj[U+202E].py"' in page
    name = "gpj%E2%80%AE.py"
    for address in (f"{path}/commits/{commit}", f"{path}/files/{name}"):
        page = client.get(address).html
        unmarked = re.sub(r'<span class="hidden-char"[^>]*>.</span>', "", page)
        assert [unmarked[at.start() - 60 : at.end()] for at in HIDDEN.finditer(unmarked)] == []
    assert "<title>gpj[U+202E].py" in client.get(f"{path}/files/{name}").html
    assert "<title>Commits of gpj[U+202E].py" in client.get(f"{path}/commits?path={name}").html


def test_headings_of_versions_and_folders_turn_no_text(visit, team_repo, commit, alice, make):
    thread = make.thread(team_repo, by=alice, title="x")
    Thread.objects.filter(pk=thread.pk).update(title="Fix \u202ereversed")
    Ref.objects.filter(full_name="refs/heads/main").update(full_name="refs/heads/a\u202eb")
    client, path = visit(alice), f"/{team_repo.path}"
    page = client.get(f"{path}/threads/{thread.number}/versions").html
    assert f"<h1>Versions of <bdi>Fix {OVERRIDE}reversed" in page
    assert "Files at a[U+202E]b</h1>" in client.get(f"{path}/files?ref=a%E2%80%AEb").html


def test_a_new_title_with_hidden_turns_is_refused(visit, team_repo, alice):
    typed = {"title": "Fix \u202ereversed", "body": "", "kind": "issue", "priority": "normal"}
    page = visit(alice).post(f"/{team_repo.path}/threads/new", **typed)
    assert page.status == 422 and "control characters" in page.alert()
    assert not Thread.objects.exists()

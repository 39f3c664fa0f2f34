"""Pages of changes: rows with the text of git's patch, colours and marks; folding; pulls."""

import re
import time
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.browse.models import GitCache
from apps.core.lexers import Budget
from apps.git.diff import changes, parse_hunks, patches
from apps.git.run import GitTimeout
from apps.web import diffs, pulls
from apps.web.colours import coloured_lines, plain_lines, text_of
from apps.web.diff_rows import Gap, Item, marks_of, rows_of, with_gaps
from apps.web.diff_tables import TableOptions, diff_table, side_by_side
from tests.browse.code import push
from tests.git.scratch import Scratch
from tests.test_queries import costing

pytestmark = pytest.mark.once
BEFORE = b"import os\n\n\ndef run():\n    return 1\n"
AFTER = b"import os\n\n\ndef run(n):\n    return 1\n"


@pytest.fixture
def base(team_repo, code, alice):
    """The head of `main`."""
    made = code.commit_with({b"app.py": BEFORE, b"old.txt": b"1\n", b"bin": b"\0"})
    push(team_repo, "refs/heads/main", made, by=alice)
    return made


@pytest.fixture
def head(team_repo, code, base, alice):
    """The head of `topic`, one commit ahead."""
    files = {b"app.py": AFTER, b"new.txt": b"1\n", b"bin": b"\0\0", b"dir/last": b"x"}
    made = code.commit_with(files, base, message="Take a number")
    push(team_repo, "refs/heads/topic", made, by=alice)
    return made


@pytest.fixture
def pull(make, team_repo, head, alice):
    return make.pull(team_repo, by=alice, source="topic", title="A number")


@pytest.fixture
def address(pull):
    return f"/{pull.repo.path}/pulls/{pull.number}"


def rows(html):
    """The class and the text of each cell of a line."""
    cells = re.findall(r'<td class="c([^"]*)">(.*?)</td>', html, re.DOTALL)
    return [(kind.strip(), unescape(re.sub(r"<[^>]+>", "", text))) for kind, text in cells]


def test_the_files_of_a_pull_are_shown_below_each_other_or_side_by_side(visit, address, bob):
    page = visit(bob).get(f"{address}/files").gives()
    assert "Changes in 4 files +2 lines added \u22121 lines removed" in page.text
    shown = rows(page.html)
    assert shown.index(("del", "def run():")) + 1 == shown.index(("add", "def run(n):"))
    assert "<mark>n</mark>" in page.html
    assert "A binary file" in page.text and "old.txt → new.txt" in page.text
    assert "No line end at the end of the file" in page.text
    split = visit(bob).get(f"{address}/files?view=split").gives()
    assert rows(split.html).count(("same left", "    return 1")) == 1
    assert 'class="lines two"' in split.html and 'class="lines one"' not in split.html
    assert re.search(r'<a href="[^"]*view=split" aria-current="true">Split', split.html)


def test_a_pull_of_a_few_lines_is_one_page_and_starts_git_once(visit, address, bob, monkeypatch):
    person = visit(bob)
    page = person.get(address).gives()
    assert ("add", "def run(n):") in rows(page.html)
    assert f'href="{address}/files?view=split"' in page.html
    later = person.get(f"{address}?page=2&view=split").gives()
    assert rows(later.html) and f'href="{address}/files?view=unified"' in later.html
    person.get(f"{address}/files").gives()
    for tab, most in (("", 25), ("/files", 18), ("/commits", 16)):
        with costing() as cost:
            person.get(f"{address}{tab}").gives()
        assert cost.git == 0 and cost.sql <= most, tab
    monkeypatch.setattr(pulls, "INLINE_ROWS", 3)
    page = person.get(address).gives()
    assert not rows(page.html) and f'<a href="{address}/files">' in page.html


def test_a_pull_lists_its_commits(visit, address, head, bob):
    page = visit(bob).get(f"{address}/commits").gives()
    assert page.h1.startswith("A number") and "Take a number" in page.text
    assert f"/commits/{head}" in page.html and 'aria-current="page">Commits' in page.html


def test_what_has_changed_since_a_version_is_shown(
    visit, team_repo, code, address, head, alice, bob
):
    files = {b"app.py": AFTER + b"\n", b"new.txt": b"1\n", b"bin": b"\0\0", b"dir/last": b"x"}
    push(team_repo, "refs/heads/topic", code.commit_with(files, head), by=alice)
    page = visit(bob).get(f"{address}/files").gives()
    assert '<option value="1">version 1' in page.html and "Changes in 4 files" in page.text
    since = visit(bob).get(f"{address}/files?from=1").gives()
    assert "Changes in 1 file +1" in since.text and "since version 1" in since.text
    assert [kind for kind, _ in rows(since.html)].count("add") == 1
    visit(bob).get(f"{address}/files?from=9").gives(404)
    visit(bob).get(f"{address}/files?from=x").gives(422)


def test_a_pull_without_commits_says_so_on_each_tab(visit, make, team_repo, alice):
    pull = make.pull(team_repo, by=alice, source="later")
    address = f"/{team_repo.path}/pulls/{pull.number}"
    assert "No commits" in visit(alice).get(f"{address}/commits").gives().text
    assert "No changes" in visit(alice).get(f"{address}/files").gives().text


def test_white_space_can_be_ignored(visit, root, team_repo, code, base, alice):
    files = {b"app.py": BEFORE.replace(b"    ", b"\t"), b"old.txt": b"1 2\n", b"bin": b"\0"}
    sha = code.commit_with(files, base)
    page = visit(alice).get(f"{root}/commits/{sha}").gives()
    assert ("add", "\treturn 1") in rows(page.html)
    assert f'href="{root}/commits/{sha}?w=1"' in page.html
    page = visit(alice).get(f"{root}/commits/{sha}?w=1").gives()
    assert ("add", "\treturn 1") not in rows(page.html) and ("add", "1 2") in rows(page.html)
    assert "No lines have changed, except for white space" in page.text


@pytest.fixture
def large(code, base):
    """A commit of three new files: two of 12 lines each, and one of 3."""
    text, same = b"".join(b"x = %d\n" % n for n in range(12)), {b"app.py": BEFORE, b"bin": b"\0"}
    made = {b"a.py": text, b"b.py": text, b"c.py": b"1\n2\n3\n", b"old.txt": b"1\n"}
    return code.commit_with(same | made, base)


def test_what_is_too_much_is_folded_or_linked(visit, root, large, alice, monkeypatch):
    person = visit(alice)
    monkeypatch.setattr(diffs, "UNFOLDED_MAX", 10)
    page = person.get(f"{root}/commits/{large}").gives()
    assert page.html.count("<summary class") == 2 and "13 rows" in page.text
    monkeypatch.setattr(diffs, "LINES_MAX", 16)
    page = person.get(f"{root}/commits/{large}").gives()
    assert ("add", "x = 11") in rows(page.html) and ("add", "3") in rows(page.html)
    link = re.search(r'href="([^"]*file=b.py)">Show this file', page.html)
    assert link and page.text.count("Show this file") == 1
    alone = person.get(unescape(link[1])).gives()
    assert [text for _, text in rows(alone.html)] == [f"x = {n}" for n in range(12)]
    assert "<summary class" not in alone.html and "Show all files" in alone.text
    person.get(f"{root}/commits/{large}?file=nothing").gives(404)
    monkeypatch.setattr(diffs, "SINGLE_FILE_MAX", 12)
    cut = person.get(unescape(link[1])).gives()
    assert "The remaining lines are not shown" in cut.text
    assert ("add", "x = 11") not in rows(cut.html)


DENSE = '    value_%d = compute(%d, "%s", key=None, size=width * %d + 1)  # why not\n'


@pytest.mark.parametrize("view", ["unified", "split"])
def test_three_thousand_rows_of_dense_code_are_less_than_1_4_mb(
    visit, root, code, base, alice, view
):
    def files(word: str) -> dict[bytes, bytes]:
        lines = ["".join(DENSE % (n, n, word, n) for n in range(150)).encode() for _ in range(10)]
        return {b"%d.py" % number: text for number, text in enumerate(lines)}

    before = code.commit_with(files("the old word"), base)
    after = code.commit_with(files("a new word"), before)
    page = visit(alice).get(f"{root}/commits/{after}?view={view}").gives()
    assert len(rows(page.html)) == 3_000
    assert len(page.html.encode()) < 1_400_000


def test_files_come_in_pages(visit, root, large, alice, monkeypatch):
    monkeypatch.setattr(diffs, "FILES_MAX", 2)
    address, person = f"{root}/commits/{large}", visit(alice)
    pages = [person.get(f"{address}?page={n}").gives() for n in (1, 2)]
    shown = [re.findall(r'id="f\w+" aria-label="([^"]*)"', page.html) for page in pages]
    assert shown == [["a.py", "b.py"], ["c.py"]]
    assert f'href="{address}?page=2">More files' in pages[0].html
    assert "More files" not in pages[1].text and "Earlier files" in pages[1].text


def test_what_git_cannot_tell_in_time_is_said_and_a_pull_is_shown_without(
    visit, root, address, head, bob, monkeypatch
):
    def late(*args, **options):
        raise GitTimeout("on purpose")

    GitCache.objects.all().delete()
    monkeypatch.setattr(diffs, "patches", late)
    page = visit(bob).get(address).gives()
    assert "Changes in 4 files" in page.text and not rows(page.html)
    refused = visit(bob).get(f"{address}/files").gives(422)
    assert "takes git too long" in refused.text and refused.h1
    assert "takes git too long" in visit(bob).get(f"{root}/commits/{head}").gives(422).text


LINES = st.lists(
    st.sampled_from(["a = 1", "a = 2", "def f():", "  '''", "b\r", "<i>&", "\ufffd", ""]),
    max_size=9,
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


def text_in(html):
    return unescape(re.sub(r"<[^>]+>", "", html))


@given(TEXTS, TEXTS)
def test_the_text_of_all_rows_is_what_git_says(old: str, new: str) -> None:
    with TemporaryDirectory() as folder:
        repo = Scratch(Path(folder) / "repo.git")
        repo.create()
        before, after = repo.commit({"x.py": old.encode()}), repo.commit({"x.py": new.encode()})
        files = changes(repo, before, after).files
        found = patches(repo, before, after, files)
    for patch in found.values():
        assert patch is not None
        sides = [coloured_lines("x.py", side, Budget(1)) for side in (old, new)]
        rows = rows_of(patch, *sides)
        told = [(row[0], text_in(row[3])) for row in rows if row[0] in " +-"]
        lines = [line for hunk in parse_hunks(patch) for line in hunk.lines]
        for (sign, text), line in zip(sorted(told), sorted_lines(lines), strict=True):
            assert (sign, text) == line
        for sign, left, right, shown in rows:
            for signs, number, side in ((" -", left, old), (" +", right, new)):
                if sign in signs:
                    assert number and side.split("\n")[number - 1] == text_in(shown)
        items = [*with_gaps(rows)]
        plain = [one for one in items if isinstance(one, Gap) or one[0] != "\\"]
        assert list(flat(items)) == plain
        for is_split in (False, True):
            html = diff_table(with_gaps(rows), TableOptions("f1", is_split))
            ids = re.findall(r' id="([^"]+)"', html)
            assert len(ids) == len({*ids})


def sorted_lines(lines):
    return sorted((line.sign, line.text.decode("utf-8", "replace")) for line in lines)


def flat(items):
    """Rows that stand side by side, back in one column."""
    left: list[Item] = []
    right: list[Item] = []
    for pair in side_by_side(items):
        one, other = (pair, pair) if isinstance(pair, Gap) else pair
        if one == other:
            yield from [*left, *right, one]
            left, right = [], []
        else:
            left += [one] if one else []
            right += [other] if other else []
    yield from [*left, *right]


def line(text):
    return next(iter(plain_lines(text)), [])


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("timedelta(seconds=60)", "timedelta(seconds=30)", ("60", "30")),
        ("a = one + two", "a = one + too", ("two", "too")),
        ("f(x)", "f(x, y)", (None, ", y")),
        ("return 1", "return 1", (None, None)),
        ("abc", "xyz", (None, None)),
        ("", "xyz", (None, None)),
        ("the quick fox", "the quicker fox", ("quick", "quicker")),
        ("aa aa", "aa aa aa", (None, "aa ")),
    ],
)
def test_marks_are_whole_words_where_not_too_much_has_changed(old, new, marked):
    found = marks_of(line(old), line(new))
    pairs = zip((old, new), found, strict=True)
    texts = [text[slice(*mark)] if mark else None for text, mark in pairs]
    assert texts[0] == marked[0]
    assert (texts[1] or "").strip() == (marked[1] or "").strip()


@given(st.text("ab 1.", max_size=12), st.text("ab 1.", max_size=12))
def test_what_is_not_marked_is_the_same_in_both(old, new):
    marks = marks_of(line(old), line(new))
    if marks == (None, None):
        return
    rest = [
        text[: mark[0]] + text[mark[1] :] if mark else text
        for text, mark in zip((old, new), marks, strict=True)
    ]
    assert rest[0] == rest[1]
    assert text_of(line(old)) == old


def test_very_long_lines_that_differ_get_no_marks():
    """Finding the ends of words in such lines takes quadratic time."""
    begin = time.thread_time()
    old, new = ([("", end + "a" * 200_000)] for end in "xy")
    assert marks_of(old, new) == (None, None)
    assert time.thread_time() - begin < 10

"""The page that compares two versions of a pull, and the links that lead to it."""

from __future__ import annotations

import re
from html import unescape

import pytest

from apps.git import range_diff, run
from apps.web import comparisons
from tests.gitclient import Clone

LINES = [f"line {number}\n" for number in range(30)]


def text_with(line):
    return "".join([*LINES[:7], f"{line}\n", *LINES[8:]])


@pytest.fixture
def clone(tmp_path, team_repo, alice):
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.push_commit("main", {"README": "A place to meet.\n"}, message="begin")
    clone.commit("feature", {"text": text_with("seven")}, onto="main", message="write text")
    clone.commit("feature", {"b": "b\n" * 9}, message="write b")
    clone.push_commit("feature", {"c": "c\n" * 9}, message="write c")
    return clone


@pytest.fixture
def pull(make, clone, alice):
    return make.pull(clone.repo, by=alice, title="Count")


@pytest.fixture
def rebased(clone, pull):
    """Version 2 stands on a target that has moved: one commit changed, one dropped, one added."""
    clone.push_commit("main", {"gate": "1\n"})
    clone.commit("feature", {"c": "c\n" * 9}, onto="main", message="write c")
    clone.commit("feature", {"text": text_with("<b>7</b>")}, message="write text & more")
    clone.push_commit("feature", {"d": "d\n"}, message="write d")
    return pull


@pytest.fixture
def address(pull):
    return f"/{pull.repo.path}/pulls/{pull.number}"


def commits(html):
    """Subject and state of each pair of commits."""
    part = html.partition('id="pairs"')[2].partition('id="changes"')[0]
    pairs = re.findall(r"<h3>(.*?)</h3><span class=\"state \w+\">(.*?)</span>", part)
    return [(unescape(re.sub(r"<[^>]+>", "", subject)), state) for subject, state in pairs]


def rows(html):
    """Version, kind and text of each row of a pair."""
    cells = re.findall(
        r'<tr><td class="n[^"]*"(?: data-n="(v\d+)")?></td><td class="c(.*?)">(.*?)</td>', html
    )
    return [(version, kind.strip(), unescape(text)) for version, kind, text in cells]


def test_a_rebased_version_is_shown_commit_by_commit_with_its_files(visit, rebased, address, bob):
    page = visit(bob).get(f"{address}/compare/1...2").gives()
    assert sorted(commits(page.html)) == [
        ("write b", "Only in version 1"),
        ("write c", "Unchanged"),
        ("write d", "Only in version 2"),
        ("write text & more", "Changed"),
    ]
    shown = rows(page.html)
    assert ("v1", "del", "+seven") in shown and ("v2", "add", "+<b>7</b>") in shown
    assert ("", "", "-line 7") not in shown
    assert "<b>7</b>" not in page.html
    assert "begin at different commits of main" in page.text
    assert "Changes in 4 files" in page.text
    assert f'href="{address}/compare/1...2?view=split"' in page.html


def test_the_form_chooses_two_versions(visit, rebased, address, clone, bob):
    person = visit(bob)
    person.get(f"{address}/compare").redirects_to(f"{address}/compare/1...2")
    person.get(f"{address}/compare?from=2&to=1").redirects_to(f"{address}/compare/2...1")
    page = person.get(f"{address}/compare/2...1").gives()
    assert page.find(r'name="from">.*?<option value="(\d)" selected') == "2"
    assert page.find(r'name="to">.*?<option value="(\d)" selected') == "1"
    for wrong in ("1...3", "x", "1..2", "0...1"):
        person.get(f"{address}/compare/{wrong}").gives(404)
    person.get(f"{address}/compare?from=x").gives(422)
    person.get(f"{address}/compare?to=7").redirects_to(f"{address}/compare/6...7")


def test_a_pull_without_a_version_says_so(visit, make, clone, alice):
    pull = make.pull(clone.repo, by=alice, source="later")
    page = visit(alice).get(f"/{clone.repo.path}/pulls/{pull.number}/compare").gives()
    assert "No versions to compare" in page.text


def test_pushes_commits_and_files_link_to_the_comparison(visit, pull, address, clone, bob):
    person = visit(bob)
    for part in ("", "/commits"):
        assert "/compare" not in person.get(f"{address}{part}").gives().html.partition("</nav>")[2]
    clone.push_commit("feature", {"d": "d\n"})
    link = f'href="{address}/compare/1...2">compare with the version before</a>'
    assert link in person.get(address).gives().html
    assert f'href="{address}/compare">Compare versions</a>' in person.get(f"{address}/commits").html
    files = person.get(f"{address}/files?from=1").gives()
    assert f'href="{address}/compare/1...2">Compare the commits</a>' in files.html


def test_too_many_commits_leave_the_files(visit, rebased, address, bob, monkeypatch):
    monkeypatch.setattr(range_diff, "COMMITS_MAX", 2)
    page = visit(bob).get(f"{address}/compare/1...2").gives()
    assert "too many commits or changes" in page.text
    assert "Changes in 4 files" in page.text


def test_a_long_difference_has_a_page_of_its_own(visit, rebased, address, bob, monkeypatch):
    monkeypatch.setattr(comparisons, "LINES_MAX", 5)
    page = visit(bob).get(f"{address}/compare/1...2").gives()
    assert rows(page.html) == []
    alone = unescape(page.find(r'href="([^"]*)">Show this commit'))
    assert ("v1", "del", "+seven") in rows(visit(bob).get(alone).gives().html)
    monkeypatch.setattr(comparisons, "LINES_MAX", 100)
    monkeypatch.setattr(comparisons, "UNFOLDED_MAX", 5)
    folded = visit(bob).get(f"{address}/compare/1...2").gives()
    assert re.search(r'<details><summary class="fold">\d+ rows</summary>\s*<table', folded.html)


def test_older_versions_are_offered_if_they_are_compared(
    visit, pull, address, clone, bob, monkeypatch
):
    monkeypatch.setattr(comparisons, "MOST_VERSIONS", 2)
    for number in range(3):
        clone.push_commit("feature", {"d": f"{number}\n"})
    page = visit(bob).get(f"{address}/compare/1...3").gives()
    offered = re.findall(r'<option value="(\d)"', page.html)
    assert offered == ["4", "3", "1"] * 2


def test_the_page_needs_no_git_the_second_time(visit, rebased, address, bob):
    person = visit(bob)
    person.get(f"{address}/compare/1...2").gives()
    spawned = run.spawned
    person.get(f"{address}/compare/1...2").gives()
    assert run.spawned == spawned

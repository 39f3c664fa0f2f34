"""The conversation of a pull: comments on lines, and one form for replies and reviews."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apps.pulls.actions import create_comment, merge_pull
from apps.pulls.models import Pull
from apps.threads.actions import delete_reply, update_reply
from tests.gitclient import Clone
from tests.principals import access_of

LINES = [f"line {number}\n" for number in range(1, 11)]


@pytest.fixture
def clone(tmp_path: Path, team_repo, alice) -> Clone:
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.push_commit("main", {"README": "A place to meet.\n"})
    clone.commit("feature", {"book": "".join(LINES)}, onto="main", message="write")
    clone.push("feature")
    return clone


@pytest.fixture
def pull(make, clone: Clone, alice) -> Pull:
    made: Pull = make.pull(clone.repo, by=alice, title="Write a book")
    return made


@pytest.fixture
def address(pull: Pull) -> str:
    return f"/{pull.repo.path}/pulls/{pull.number}"


@pytest.fixture
def comment(pull: Pull, bob):
    return create_comment(
        access=access_of(bob, pull.repo),
        pull=pull,
        body="Why?",
        commit_sha=str(pull.head_sha),
        path="book",
        start_line=5,
        line=6,
    )


def snippet_of(page) -> list[str]:
    """The numbers and texts of the snippet on the page."""
    found = re.search(r'<table class="lines whole snippet">(.*?)</table>', page.html, re.DOTALL)
    rows = re.findall(r'data-n="(\d+)"></td><td class="c">([^<]*)', found[1]) if found else []
    return [f"{number} {text}" for number, text in rows]


def test_a_comment_shows_its_place_and_its_lines(visit, address, comment, alice):
    page = visit(alice).get(address).gives()
    assert ", lines 5 to 6" in page.text and "outdated" not in page.text
    assert snippet_of(page) == [f"{number} line {number}" for number in range(2, 7)]
    assert page.html.count('<tr class="commented">') == 2
    link = page.find(r'class="mono" href="([^"]*/files\?[^"]*)"')
    file, _, line = link.partition("#")
    assert f'id="{line}"' in visit(alice).get(file).gives().html


def test_a_comment_says_why_it_is_outdated_and_keeps_its_lines(
    visit, address, comment, clone, alice
):
    changed = [*LINES[:4], "another\n", *LINES[5:]]
    clone.push_commit("feature", {"book": "".join(changed)})
    page = visit(alice).get(address).gives()
    assert "outdated the lines have changed since" in page.text
    assert snippet_of(page)[-1] == "6 line 6"


def test_a_resolved_comment_says_so_and_a_deleted_one_shows_nothing(
    visit, pull, address, comment, bob
):
    access = access_of(bob, pull.repo)
    update_reply(access=access, reply=comment, status="resolved")
    assert "Resolved" in visit(bob).get(address).gives().text
    delete_reply(access=access, reply=comment)
    assert snippet_of(visit(bob).get(address).gives()) == []


def test_one_form_replies_and_reviews(visit, pull, address, bob, events):
    person = visit(bob)
    page = person.get(address).gives()
    assert page.html.count("data-draft") == 1
    replies = page.find(r'<form class="tight" method="post" action="([^"#]+)#say"')
    reviews = page.find(r'formaction="([^"#]+)#say" name="status" value="approved"')
    head = page.find(r'name="expected_head_sha" value="([0-9a-f]{40})"')
    with events("reply-created"):
        person.post(replies, body="Well.", kind="comment", expected_head_sha=head).gives(303)
    sent = {"body": "Good.", "kind": "comment", "expected_head_sha": head, "status": "approved"}
    with events("review-created"):
        person.post(reviews, **sent).gives(303)


def test_a_refused_review_keeps_its_text_in_the_form(visit, pull, address, clone, bob):
    clone.push_commit("feature", {"more": "1\n"})
    sent = {"body": "Good.", "status": "approved", "expected_head_sha": pull.head_sha}
    page = visit(bob).post(f"{address}/reviews", **sent).gives(409)
    assert page.html.count("data-draft") == 1
    assert re.search(r"<textarea[^>]*>\s*Good\.</textarea>", page.html)
    pull.refresh_from_db()
    assert page.find(r'name="expected_head_sha" value="([0-9a-f]{40})"') == pull.head_sha


def test_a_merged_pull_takes_replies_only(visit, pull, address, alice, bob):
    merge_pull(access=access_of(alice, pull.repo), pull=pull, merge_strategy="merge")
    page = visit(bob).get(address).gives()
    assert page.html.count("data-draft") == 1 and "Request changes" not in page.html

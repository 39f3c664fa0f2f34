"""The button Preview: the page comes back with the rendered text, and nothing is saved."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.once
TEXT = "Is **this** like #1, @bob? <script>x</script>"
SEEN = "<strong>this</strong>"


@pytest.fixture
def place(make, team_repo, alice, bob) -> str:
    """A repository with thread 1, reply 1 to it, and pull 2, all by bob."""
    thread = make.thread(team_repo, by=bob, title="First", body="First text.")
    make.reply(thread, by=bob, body="First reply.")
    make.pull(team_repo, by=bob, title="Second", body="Second text.")
    return f"/{team_repo.path}"


FORMS = {
    "/threads/new": {"title": "Typed", "kind": "proposal", "priority": "high"},
    "/threads/1/edit": {"title": "Typed", "kind": "issue", "priority": "low", "status": "open"},
    "/threads/1/replies": {"kind": "question"},
    "/threads/1/replies/1/reply": {"kind": "question"},
    "/threads/1/replies/1/edit": {"kind": "task", "status": "open"},
    "/threads/2/replies": {"kind": "question"},
    "/pulls/new": {"title": "Typed", "source_branch": "a", "target_branch": "b", "status": "draft"},
    "/pulls/2/edit": {"title": "Typed"},
    "/pulls/2/reviews": {"expected_head_sha": "abc"},
}


@pytest.mark.parametrize("path", FORMS)
def test_a_text_is_shown_as_it_will_look_and_nothing_is_done(visit, place, bob, events, path):
    person, fields = visit(bob), FORMS[path]
    with events():
        page = person.post(place + path, **fields, body=TEXT, preview="yes").gives(200)
    assert SEEN in page.html and "<script>x" not in page.html and not page.alert()
    assert f'href="{place}/threads/1"' in page.html and 'href="/users/bob"' in page.html
    assert "Is **this** like #1" in page.html
    for name, value in fields.items():
        kept = [f' name="{name}"', f'value="{value}"']
        tags = re.findall(r"<(?:input|option)[^>]*>", page.html)
        chosen = [one for one in tags if kept[1] in one and (kept[0] in one or " selected" in one)]
        assert chosen, (name, value)


def test_what_was_previewed_is_then_sent_as_it_was_typed(visit, make, place, bob, events):
    person, path = visit(bob), f"{place}/threads/1/edit"
    shown = person.get(path).gives().inputs()
    typed = {"title": "Typed", "body": "One\r\ntwo", "kind": "discussion", "priority": "normal"}
    typed["status"] = "open"
    page = person.post(path, **shown | typed | {"preview": "yes"}).gives()
    with events("thread-updated"):
        person.post(path, **page.inputs() | typed).redirects_to(f"{place}/threads/1")
    assert "Typed" in person.get(f"{place}/threads/1").h1


def test_a_preview_is_cut_where_a_text_would_be_refused(visit, place, bob):
    page = visit(bob).post(f"{place}/threads/new", body="a " * 40_000 + "END", preview="yes")
    seen = re.search(r"Nothing is saved yet.*?</section>", page.gives().html, re.DOTALL)
    assert seen and "END" not in seen[0]


def test_who_may_not_write_sees_no_preview(visit, place, bob, carol):
    visit(carol).post(f"{place}/threads/1/replies", body=TEXT, preview="yes").gives(403)
    page = visit().post(f"{place}/threads/1/replies", body=TEXT, preview="yes").gives(401)
    assert "Is **this**" in page.html

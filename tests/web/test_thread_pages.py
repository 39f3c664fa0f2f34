"""The pages of threads and their replies."""

import re

import pytest

from apps.threads import serializers
from apps.threads.models import Reply, Thread
from apps.threads.queries import index_of
from apps.web import conversations as pages
from tests.web.page_client import PageResponse

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


def replies_of(page: PageResponse) -> list[tuple[str, str]]:
    """The ids and depths of the replies on a page, in order."""
    return re.findall(r'<li id="(reply-\d+)" class="(d\d)', page.html)


@pytest.fixture
def thread(make, team_repo, alice) -> Thread:
    fields = {"title": "Slow <b>pushes</b>", "body": "Since *today*."}
    made: Thread = make.thread(team_repo, by=alice, **fields)
    return made


@pytest.fixture
def address(thread) -> str:
    return f"/{thread.repo.path}/threads/{thread.number}"


def test_a_thread_shows_each_reply_at_its_place(visit, make, thread, address, alice, bob):
    first = make.reply(thread, by=bob, body="**Here** too.")
    second = make.reply(thread, by=alice, to=first)
    make.reply(thread, by=bob, to=second)
    make.reply(thread, by=bob, body="Later.")
    page = visit(bob).get(address).gives()
    expected = [("reply-1", "d0"), ("reply-2", "d1"), ("reply-3", "d2"), ("reply-4", "d0")]
    assert replies_of(page) == expected
    assert page.h1 == f"Slow <b>pushes</b> #{thread.number}" and "<b>pushes" not in page.html
    assert "<em>today</em>" in page.html and "<strong>Here</strong>" in page.html
    assert "4 replies · 2 participants" in page.text


def test_one_writes_answers_and_sees_ones_own_reply(visit, make, thread, address, bob, events):
    person = visit(bob)
    with events("reply-created", "reply-created"):
        first = person.post(f"{address}/replies", kind="comment", body="First")
        first.redirects_to(f"{address}#reply-1")
        form = person.get(f"{address}/replies/1/reply").gives()
        assert "Reply to bob, reply 1" in form.text
        assert "<title>Reply to bob, reply 1 · Slow" in form.html
        second = person.post(f"{address}/replies/1/reply", kind="question", body="Second")
        second.redirects_to(f"{address}#reply-2")
    assert Reply.objects.filter(number=2, parent__number=1).exists()
    assert replies_of(person.get(address)) == [("reply-1", "d0"), ("reply-2", "d1")]


def test_a_refused_reply_keeps_its_text(visit, thread, bob, events):
    address = f"/{thread.repo.path}/threads/{thread.number}/replies"
    sent = {"kind": "comment", "body": "Long thought"}
    with events():
        page = visit(bob).post(address, **sent | {"kind": "guess"})
        assert page.gives(422).alert() and "Long thought" in page.html
        assert visit(bob).post(address, **sent | {"body": " "}).gives(422).alert()
        old = visit(bob, strict=True).post(address, SAME_ORIGIN, **sent).gives(403)
        assert "Long thought" in old.html
        assert "Long thought" in visit().post(address, **sent).gives(401).html


def test_a_reply_is_changed_by_its_author_and_keeps_its_versions(
    visit, make, thread, alice, bob, events
):
    reply = make.reply(thread, by=bob, body="Frist", kind="rumour")
    address = f"/{thread.repo.path}/threads/{thread.number}/replies/{reply.number}"
    person = visit(bob)
    shown = person.get(f"{address}/edit").gives()
    sent = {**shown.inputs(), "status": "open", "initial-status": "open", "initial-body": "Frist"}
    with events("reply-updated"):
        person.post(f"{address}/edit", **{**sent, "body": "First"}).redirects_to(
            f"/{thread.repo.path}/threads/{thread.number}#reply-1"
        )
    with events("reply-updated"):
        # An outdated page changes the status and does not undo the change to the text.
        person.post(f"{address}/edit", **{**sent, "body": "Frist", "status": "resolved"})
    reply.refresh_from_db()
    assert (reply.kind, reply.body, reply.status) == ("rumour", "First", "resolved")
    versions = visit(alice).get(f"{address}/versions").gives().text
    assert versions.index("Version 3") < versions.index("Version 1") and "Frist" in versions


def test_a_deleted_reply_leaves_its_place_and_tells_nothing(
    visit, make, thread, address, alice, bob
):
    reply = make.reply(thread, by=bob, body="Secret")
    make.reply(thread, by=alice, to=reply)
    person = visit(bob)
    assert "Delete reply 1?" in person.get(f"{address}/replies/1/delete").gives().text
    person.post(f"{address}/replies/1/delete").redirects_to(f"{address}#reply-1")
    page = visit(alice).get(address).gives()
    assert "Reply 1 was deleted" in page.text and "Secret" not in page.html
    assert replies_of(page) == [("reply-1", "d0"), ("reply-2", "d1")]
    for part in ("reply", "edit", "delete", "versions"):
        assert visit(alice).get(f"{address}/replies/1/{part}").status in {403, 404}
    person.post(f"{address}/replies/1/reply", kind="comment", body="x").gives(404)


def test_the_link_of_a_reply_leads_to_its_page(visit, make, thread, address, bob, monkeypatch):
    monkeypatch.setattr(pages, "REPLIES", 2)
    made = [make.reply(thread, by=bob) for _ in range(5)]
    nested = make.reply(thread, by=bob, to=made[0])
    assert [index_of(reply) for reply in [*made, nested]] == [0, 2, 3, 4, 5, 1]
    person = visit(bob)
    person.get(f"{address}/replies/{made[1].number}").redirects_to(f"{address}?page=2#reply-2", 302)
    person.get(f"{address}/replies/{nested.number}").redirects_to(f"{address}#reply-6", 302)
    person.get(f"{address}/replies/9").gives(404)
    page = person.get(f"{address}?page=2").gives()
    assert [one for one, _ in replies_of(page)] == ["reply-2", "reply-3"]
    assert "Earlier replies" in page.text and "Later replies" in page.text


def test_threads_are_opened_found_changed_and_deleted(visit, team_repo, alice, bob, events):
    person, address = visit(bob), f"/{team_repo.path}/threads"
    sent = {"title": "Colours", "body": "#1", "kind": "proposal", "priority": "high"}
    assert "open the first" in person.get(address).gives().text
    with events("thread-created"):
        person.post(f"{address}/new", **sent).redirects_to(f"{address}/1")
    person.post(f"{address}/new", **sent | {"title": ""}).gives(422)
    page = person.get(f"{address}?kind=proposal&search=colo&status=&ordering=number").gives()
    assert "Colours" in page.text and "high priority" in page.text
    assert "No thread matches" in person.get(f"{address}?status=closed").text
    person.get(f"{address}?status=lost").gives(422)
    with events("thread-status-changed"):
        shown = {f"initial-{name}": text for name, text in sent.items()}
        changed = sent | shown | {"initial-status": "open", "status": "resolved"}
        person.post(f"{address}/1/edit", **changed).redirects_to(f"{address}/1")
    assert "Resolved" in person.get(f"{address}/1").text
    visit(bob).get(f"{address}/1/delete").gives()
    with events("thread-deleted"):
        visit(alice).post(f"{address}/1/delete").redirects_to(address)
    person.get(f"{address}/1").gives(404)


def test_the_thread_of_a_pull_leads_to_the_pull(visit, make, team_repo, alice):
    pull = make.pull(team_repo, by=alice)
    address = f"/{team_repo.path}/threads/{pull.number}"
    visit(alice).get(address).redirects_to(f"/{team_repo.path}/pulls/{pull.number}", 302)


def test_a_text_that_shows_nothing_is_no_long_one(visit, make, thread, address, bob):
    make.reply(thread, by=bob, body="<!-- for later -->")
    page = visit(bob).get(address).gives()
    assert len(replies_of(page)) == 1 and "A long text" not in page.html


def add_long_replies(make, thread, bob, count: int) -> None:
    for number in range(1, count + 1):
        make.reply(thread, by=bob, body="- a\n" * 4000 + f"\nLast {number}")


def test_after_a_refused_form_the_links_to_long_texts_lead_to_the_page_of_the_thread(
    visit, make, thread, address, bob, monkeypatch
):
    monkeypatch.setattr(serializers, "HTML_MAX", 64 * 1024)
    monkeypatch.setattr(pages, "REPLIES", 2)
    add_long_replies(make, thread, bob, 4)
    for below, query, last in (("replies", "", 2), ("replies/4/reply", "page=2&amp;", 4)):
        page = visit(bob).post(f"{address}/{below}", body="").gives(422)
        [link] = re.findall(r'<a href="([^"#]*)#[^"]*">A long text: open it</a>', page.html)
        assert link.startswith(f"{address}?{query}show=")
        page = visit(bob).get(link.replace("&amp;", "&")).gives()
        assert re.findall(r"Last \d", page.html) == [f"Last {last}"]


def test_a_page_shows_so_many_bytes_of_texts_and_leads_to_the_others(
    visit, make, thread, address, bob, monkeypatch
):
    monkeypatch.setattr(serializers, "HTML_MAX", 64 * 1024)
    add_long_replies(make, thread, bob, 3)
    page = visit(bob).get(address).gives()
    assert re.findall(r"Last \d", page.html) == ["Last 1"]
    links = re.findall(r'<a href="([^"#]*)#(reply-\d)">A long text: open it</a>', page.html)
    assert [anchor for _, anchor in links] == ["reply-2", "reply-3"]
    page = visit(bob).get(links[1][0]).gives()
    assert re.findall(r"Last \d", page.html) == ["Last 3"]
    assert len(replies_of(page)) == 3

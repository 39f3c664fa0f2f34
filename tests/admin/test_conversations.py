"""Staff moderates threads and replies, and reads events."""

import pytest

from apps.events.models import Event
from apps.repos.actions import update_repo
from apps.threads.models import Reply, Thread
from tests.admin.urls import admin_url, row_url
from tests.principals import access_of


@pytest.fixture
def reply(make, team_repo, bob, alice):
    return make.reply(make.thread(team_repo, by=alice), by=bob, body="Rude <b>words</b>.")


def test_a_reply_is_blanked(staff, sam, team_repo, reply, events):
    assert "Rude <b>words</b>." in staff.get(row_url(reply)).text.replace("&lt;", "<")
    assert "<b>words" not in staff.get(row_url(reply)).html
    with events("repo-updated"):
        update_repo(access=access_of(sam, team_repo), is_archived=True)
        staff.post(row_url(reply, "blank")).redirects_to(row_url(reply), 302)
    assert "is archived" in staff.get(row_url(reply)).text
    update_repo(access=access_of(sam, team_repo), is_archived=False)
    with events("reply-deleted"):
        staff.post(row_url(reply, "blank")).redirects_to(row_url(reply), 302)
        staff.post(row_url(reply, "blank")).redirects_to(row_url(reply), 302)
    page = staff.get(row_url(reply)).text
    assert "already been deleted" in page and "Rude" not in page


def test_a_thread_is_deleted_but_not_that_of_a_pull(staff, make, team_repo, alice, reply, events):
    pull = make.pull(team_repo, by=alice)
    companion = Thread.objects.get(repo=team_repo, number=pull.number)
    with events():
        staff.get(row_url(companion, "remove")).redirects_to(row_url(companion), 302)
        staff.post(row_url(companion, "remove")).redirects_to(row_url(companion), 302)
        assert "belongs to a pull" in staff.get(row_url(companion)).text
    with events("thread-deleted"):
        staff.post(row_url(reply.thread, "remove")).redirects_to(admin_url(Thread), 302)
    staff.post(row_url(reply.thread, "remove")).gives(404)
    staff.get(row_url(reply)).redirects_to("/admin/", 302)


def test_threads_and_replies_are_found(staff, make, team_repo, reply, carol):
    other = make.reply(make.thread(make.repo(carol, by=carol), by=carol), by=carol)
    number, found = reply.thread.number, {Thread: reply.thread, Reply: reply}
    texts = {Thread: ("alice", "teams/acme/api"), Reply: ("BOB",)}
    for model, row in found.items():
        for text in (*texts[model], f"teams/acme/api%23{number}"):
            page = staff.get(f"{admin_url(model)}?q={text}").gives().html
            assert row_url(row) in page
            assert row_url({Thread: other.thread, Reply: other}[model]) not in page
        for text in ("teams/acme/api%2399", "teams/acme/none", "a/b/c/d", "nobody", "x/%23%C2%B2"):
            assert row_url(row) not in staff.get(f"{admin_url(model)}?q={text}").gives().html


def test_events_are_found_by_event_scope_and_actor(staff, reply, carol, make):
    event = Event.objects.get(kind="reply-created")
    mine = f"thread:teams/acme/api/{reply.thread.number}"
    for text in ("bob", "team:acme", "repo:teams/acme/api", mine):
        page = staff.get(f"{admin_url(Event)}?q={text}").gives()
        assert row_url(event) in page.html and "teams/acme/api" in page.text, text
    for text in ("carol", "site", "team:none", "repo:x", "what:ever", "thread:teams/acme/api/x"):
        assert row_url(event) not in staff.get(f"{admin_url(Event)}?q={text}").gives().html, text
    assert row_url(event) in staff.get(f"{admin_url(Event)}?kind=reply-created").html
    assert "replied" in staff.get(row_url(event)).text

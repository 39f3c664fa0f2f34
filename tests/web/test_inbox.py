"""The inbox: pings, marked as read one by one or all at once."""

from __future__ import annotations

import re

import pytest

from apps.events.models import Ping
from apps.teams.actions import add_member
from tests.principals import team_access_of

NOWHERE = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def thread(make, team_repo, alice, bob):
    """A thread by alice that mentions bob twice."""
    found = make.thread(team_repo, by=alice, title="Slow pushes", body="@bob")
    make.reply(found, by=alice, body="@bob, look")
    return found


def count(page) -> str:
    """The number of unread pings in the header."""
    found = re.search(r'Inbox</span>(?:<span class="count hot">(.*?)</span>)?', page.html)
    assert found
    return found[1] or ""


def test_each_ping_says_what_happened_where_and_leads_there(visit, make, acme, thread, alice, bob):
    page = visit(bob).get("/inbox").gives()
    assert page.text.count("Slow pushes acme/api · alice mentioned you") == 2
    assert 'href="/teams/acme/api/threads/1#reply-1"' in page.html
    carol = make.with_token(type(bob).objects.create(username="carol", username_key="carol"))
    add_member(access=team_access_of(alice, acme), user=carol, role="viewer")
    page = visit(carol).get("/inbox").gives()
    assert "acme alice added you to the team" in page.text and 'href="/teams/acme"' in page.html
    assert count(page) == "1"


def test_pings_are_marked_as_read_one_by_one(visit, thread, alice, bob, events):
    person, other = visit(bob), visit(alice)
    ping = Ping.objects.filter(user=bob).latest("event")
    assert count(person.get("/")) == "2" and count(other.get("/")) == ""
    with events():
        other.post(f"/inbox/{ping.uuid}/read").gives(404)
        person.post(f"/inbox/{NOWHERE}/read").gives(404)
        person.get(f"/inbox/{ping.uuid}/read").gives(405)
        visit().post(f"/inbox/{ping.uuid}/read").gives(401)
        for _ in range(2):
            person.post(f"/inbox/{ping.uuid}/read").redirects_to("/inbox")
    page = person.get("/inbox")
    assert count(page) == "1" and page.html.count('class="unread"') == 1
    all_of_them = person.get("/inbox?unread=false").gives()
    assert all_of_them.text.count("alice mentioned you") == 2
    assert all_of_them.html.count('class="unread"') == 1


def test_all_are_marked_as_read_at_once_and_the_empty_list_says_what_comes_there(
    visit, thread, bob
):
    person = visit(bob)
    person.post("/inbox/read-all", next="/inbox?page=1").redirects_to("/inbox?page=1")
    page = person.get("/inbox").gives()
    assert "All pings marked as read." in page.text and "No unread pings." in page.text
    assert count(page) == "" and 'action="/inbox/read-all"' not in page.html
    assert "Slow pushes" in person.get("/inbox?unread=false").text


@pytest.mark.parametrize("goal", ["https://evil.example/inbox", "//evil.example", "/settings", ""])
def test_the_way_back_leads_to_the_inbox_only(visit, thread, bob, goal):
    visit(bob).post("/inbox/read-all", next=goal).redirects_to("/inbox")


def test_a_long_inbox_has_pages_and_the_bar_counts_no_further_than_it_says(
    visit, make, thread, alice, bob
):
    event = Ping.objects.filter(user=bob).latest("event").event
    more = []
    for _ in range(118):
        event.pk = None
        event.save(force_insert=True)
        more.append(Ping(user=bob, event_id=event.pk, kind="mention"))
    Ping.objects.bulk_create(more)
    person = visit(bob)
    page = person.get("/inbox").gives()
    assert count(page) == "99+" and page.html.count("alice mentioned you") == 50
    assert 'href="/inbox?page=2"' in page.html
    assert person.get("/inbox?page=3").gives().html.count("alice mentioned you") == 20

"""`/pings`, and the event scope `inbox` in the list."""

from __future__ import annotations

import pytest

from apps.accounts.principal import Principal
from apps.core.access import Permission
from apps.core.errors import ApiError
from apps.events import actions
from apps.events.models import Ping
from apps.repos.actions import update_repo
from apps.teams.actions import add_member, remove_member
from tests.principals import access_of, principal_of, team_access_of
from tests.test_queries import costing

NOWHERE = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def thread(make, team_repo, alice, bob):
    """A thread by alice that mentions bob."""
    return make.thread(team_repo, by=alice, title="Slow pushes", body="@bob")


def test_a_ping_says_what_has_happened_and_where(api, thread, make, alice, bob):
    make.reply(thread, by=alice, body="@bob, look")
    first, second = api(bob).get("/pings").gives()["results"]
    events = api(bob).get("/events?scope=inbox").gives()["results"]
    assert [first["event_id"], second["event_id"]] == [event["id"] for event in events]
    assert first == {
        "uuid": first["uuid"],
        "kind": "mention",
        "event_id": events[0]["id"],
        "thread_title": "Slow pushes",
        "web_url": "http://testserver/teams/acme/api/threads/1#reply-1",
        "api_url": "http://testserver/api/v1/teams/acme/repos/api/threads/1/replies/1",
        "is_read": False,
        "created_at": events[0]["created_at"],
    }
    assert "inbox" not in str(events)
    assert api(alice).get("/pings").gives()["results"] == []
    assert api(alice).get("/events?scope=inbox").gives()["results"] == []


def test_pings_are_read_one_by_one_or_all_at_once(api, thread, make, alice, bob, events):
    for _ in range(2):
        make.reply(thread, by=alice, body="@bob")
    own, uuids = api(bob), [ping["uuid"] for ping in api(bob).get("/pings").gives()["results"]]

    def unread():
        return [ping["uuid"] for ping in own.get("/pings?unread=true").gives()["results"]]

    with events():
        api(alice).put(f"/pings/{uuids[0]}/read").fails(404, "not_found")
        own.put(f"/pings/{NOWHERE}/read").fails(404, "not_found")
        own.put(f"/pings/{uuids[0]}/read", is_read=False).fails(422, "unknown_field")
        own.get("/pings?unread=yes").fails(422, "validation_failed")
        api(alice).put("/pings/read-all").gives(204)
        assert unread() == uuids
        for _ in range(2):
            assert own.put(f"/pings/{uuids[0]}/read").gives()["is_read"] is True
        assert unread() == uuids[1:]
        own.put("/pings/read-all").gives(204)
        assert unread() == []
    page = own.get("/pings?per_page=2&unread=false").gives()
    assert [record["uuid"] for record in page["results"]] == uuids[:2] and page["next"]
    assert [record["uuid"] for record in own.get(page["next"]).gives()["results"]] == uuids[2:]


def test_what_one_may_not_read_any_more_pings_no_more(api, thread, make, acme, alice, bob):
    own, by = api(bob), team_access_of(alice, acme)
    [ping] = own.get("/pings").gives()["results"]
    remove_member(access=by, member=acme.members.get(user=bob))
    assert own.get("/pings").gives()["results"] == []
    assert own.get("/events?scope=inbox").gives()["results"] == []
    own.put(f"/pings/{ping['uuid']}/read").fails(404, "not_found")
    own.put("/pings/read-all").gives(204)
    add_member(access=by, user=bob, role="viewer")
    kinds = [record["kind"] for record in own.get("/pings?unread=true").gives()["results"]]
    assert kinds == ["added", "mention"]
    assert [event["kind"] for event in own.get("/events?scope=inbox").gives()["results"]] == [
        "member-added",
        "thread-created",
    ]


def test_a_repository_that_is_hidden_hides_its_pings(api, make, alice, carol):
    repo = make.repo(alice, "own", by=alice, visibility="public")
    make.thread(repo, by=alice, body="@carol")
    assert len(api(carol).get("/pings").gives()["results"]) == 1
    by = access_of(alice, repo)
    update_repo(access=by, name=repo.name, slug=repo.slug, visibility="private")
    assert api(carol).get("/pings").gives()["results"] == []


def test_a_credential_that_only_reads_marks_nothing(thread, bob):
    reading = Principal(bob, permission=Permission.READ)
    ping = Ping.objects.get(user=bob)
    for call in (
        lambda: actions.read_ping(principal=reading, ping=ping),
        lambda: actions.read_all_pings(principal=reading),
    ):
        with pytest.raises(ApiError) as refused:
            call()
        assert refused.value.code == "token_scope"
    actions.read_ping(principal=principal_of(bob), ping=ping)


def test_the_action_marks_nobody_elses_ping(thread, alice, bob):
    ping = Ping.objects.get(user=bob)
    with pytest.raises(ApiError) as refused:
        actions.read_ping(principal=principal_of(alice), ping=ping)
    assert refused.value.status == 404


def test_a_deleted_thread_tells_its_title_in_no_inbox(api, thread, alice, bob):
    api(alice).delete("/teams/acme/repos/api/threads/1").gives(204)
    assert "Slow pushes" not in str(api(bob).get("/pings").gives())
    assert "Slow pushes" not in str(api(bob).get("/events?scope=inbox").gives())


def test_a_page_of_pings_costs_the_same_however_many_there_are(api, thread, make, alice, bob):
    costs, _ = [], api(bob).get("/pings").gives()
    for count in (1, 4):
        for _ in range(count):
            make.reply(thread, by=alice, body="@bob")
        for path in ("/pings", "/pings?unread=true", "/events?scope=inbox"):
            with costing() as cost:
                api(bob).get(path).gives()
            costs.append(cost.sql)
    assert costs[:3] == costs[3:]

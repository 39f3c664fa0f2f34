"""The event scope `inbox` in the stream and in the list; each person has only their own."""

from __future__ import annotations

from tests.events.conftest import ON_SERVE
from tests.tail import opened

pytestmark = ON_SERVE


def talk(followed, text, by="alice"):
    """A reply with this body in a thread of alice's."""
    api = followed.server.api(by)
    threads = f"{followed.repo}/threads"
    if not api.get(threads).gives()["results"]:
        followed.thread()
    api.post(f"{threads}/1/replies", kind="comment", body=text).gives(201)


def listed(server, name, first):
    """The ids of the inbox in the list after an id, oldest first."""
    page = server.api(name).get(f"/events?scope=inbox&after_id={first - 1}&per_page=100").gives()
    return [event["id"] for event in reversed(page["results"])]


def test_the_stream_has_what_pinged_its_reader_and_nobody_else(live, shared):
    followed = shared.on(live)
    with opened(live, "bob", "scope=inbox") as bob, opened(live, "alice", "scope=inbox") as alice:
        talk(followed, "nobody")
        talk(followed, "@bob and @carol")
        talk(followed, "@alice", by="bob")
        talk(followed, "@bob again")
        first, second = bob.take(2)
        assert [first.kind, second.kind] == ["reply-created"] * 2
        assert "inbox" not in first.data and "scopes" in first.json
        [reply] = alice.take(1)
        assert first.id < reply.id < second.id
    assert listed(live, "bob", first.id) == [first.id, second.id]
    with opened(live, "bob", f"scope=inbox&last_event_id={first.id - 1}") as again:
        assert again.ids(2) == [first.id, second.id]
        talk(followed, "@bob once more")
        assert again.ids(1) == listed(live, "bob", second.id + 1)


def test_a_scope_beside_the_inbox_gives_each_event_once(live, shared):
    followed = shared.on(live)
    with opened(live, "bob", f"scope=inbox&{followed.repo_scope}&scope=self") as stream:
        talk(followed, "@bob")
        followed.rename("Not of its repository")
        talk(followed, "nobody")
        assert stream.kinds(2) == ["reply-created"] * 2


def test_whoever_may_not_read_any_more_gets_nothing_more(followed):
    server = followed.server
    with opened(server, "bob", "scope=inbox&scope=self") as stream:
        talk(followed, "@bob")
        assert stream.kinds(1) == ["reply-created"]
        server.api("alice").delete(f"{followed.path}/members/bob").gives(204)
        talk(followed, "@bob")
        server.api("bob").post("/teams", name="Own", slug=f"{followed.team}-inbox").gives(201)
        assert stream.kinds(1) == ["team-created"]
        begin = stream.last_id
    with opened(server, "bob", f"scope=inbox&scope=self&last_event_id={begin - 20}") as stream:
        server.api("bob").post("/teams", name="Two", slug=f"{followed.team}-two").gives(201)
        frame = stream.take(1)[0]
        while frame.json["team_slug"] != f"{followed.team}-two":
            assert frame.json["team_slug"] != followed.team
            frame = stream.take(1)[0]
        followed.describe("Open", visibility="internal")
        talk(followed, "@bob")
        assert stream.take(1)[0].json["repo_path"] == f"teams/{followed.team}/api"


def test_being_added_to_a_team_is_in_the_inbox_of_whom_it_lets_in(followed):
    with opened(followed.server, "carol", "scope=inbox") as stream:
        alice = followed.server.api("alice")
        alice.post(f"{followed.path}/members", username="carol", role="viewer").gives(201)
        talk(followed, "@carol")
        assert stream.kinds(2) == ["member-added", "reply-created"]

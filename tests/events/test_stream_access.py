"""Streams that lose events, or close, when their readers lose access."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.events.conftest import ON_SERVE, make_followed_team
from tests.tail import follow, opened
from tests.waiting import eventually

pytestmark = ON_SERVE


def test_a_removed_member_gets_neither_the_removal_nor_what_follows(live):
    followed = make_followed_team(live)
    query = f"{followed.scope}&{followed.repo_scope}&scope=self"
    with opened(live, "alice", followed.scope) as alice, opened(live, "bob", query) as bob:
        followed.rename("Before")
        assert bob.kinds(1) == ["team-updated"]
        live.api("alice").delete(f"{followed.path}/members/bob").gives(204)
        followed.rename("After")
        live.api("bob").post("/teams", name="Own", slug=f"{followed.team}-bob").gives(201)
        assert alice.kinds(3) == ["team-updated", "member-removed", "team-updated"]
        assert bob.kinds(1) == ["team-created"]


def ended(stream):
    """Check that the server has ended the stream without another event."""
    assert stream.next() is None


def test_a_stream_ends_with_its_last_scope_and_another_works_after_a_return(live):
    followed = make_followed_team(live)
    alice, bob = live.api("alice"), live.api("bob")
    followed.thread()
    repo = f"teams/{followed.team}/api"
    queries = [followed.scope, f"{followed.scope}&scope=repo:{repo}", f"scope=thread:{repo}/1"]
    with ExitStack() as streams:
        opens = [streams.enter_context(opened(live, "bob", query)) for query in queries]
        alice.delete(f"{followed.path}/members/bob").gives(204)
        for stream in opens:
            ended(stream)
    with follow(live, "bob", followed.scope) as stream:
        stream.refusal().fails(403, "forbidden")
    alice.post(f"{followed.path}/members", username="bob", role="viewer").gives(201)
    last = bob.get(f"/events?{followed.scope}").gives()["results"][0]["id"]
    with opened(live, "bob", f"{followed.scope}&last_event_id={last}") as stream:
        followed.rename("Back")
        assert stream.kinds(1) == ["team-updated"]


def test_a_stream_ends_when_its_repository_becomes_private(live):
    followed = make_followed_team(live)
    followed.describe("Open", visibility="internal")
    with (
        opened(live, "carol", followed.repo_scope) as repo,
        opened(live, "carol", f"{followed.repo_scope}&scope=user:alice") as both,
    ):
        followed.describe("Closed", visibility="private")
        ended(repo)
        # The stream goes on with its other scope. It does not get the lost scope back.
        new = {"name": "New", "slug": f"{followed.team}-new", "visibility": "public"}
        live.api("alice").post("/users/alice/repos", **new).gives(201)
        assert both.kinds(1) == ["repo-created"]
        followed.describe("Reopen", visibility="internal")
        assert [frame.json["data"]["after"]["visibility"] for frame in both.take(1)] == ["internal"]
    with opened(live, "carol", followed.repo_scope) as stream:
        followed.describe("Read again")
        assert stream.kinds(1) == ["repo-updated"]


def test_whoever_leaves_a_team_does_not_hear_of_it_there(followed):
    with opened(followed.server, "bob", f"{followed.scope}&scope=user:bob") as stream:
        followed.server.api("bob").delete(f"{followed.path}/members/bob").gives(204)
        followed.server.api("bob").post("/teams", name="Own", slug=f"{followed.team}-b").gives(201)
        assert stream.kinds(1) == ["team-created"]


def test_a_repository_that_becomes_private_falls_silent_for_strangers(followed):
    server = followed.server
    followed.describe("Open", visibility="public")
    path = f"teams/{followed.team}/api"
    followed.thread()
    query = f"{followed.repo_scope}&scope=thread:{path}/1&scope=user:alice&scope=self"
    with opened(server, "carol", query) as stream:
        followed.describe("Still open")
        assert stream.kinds(1) == ["repo-updated"]
        followed.describe("Closed", visibility="private")
        server.api("alice").patch(f"{followed.repo}/threads/1", title="Two").gives()
        server.api("carol").post("/teams", name="Own", slug=f"{followed.team}-carol").gives(201)
        assert stream.kinds(1) == ["team-created"]


def test_an_inactive_team_closes_its_repositories_to_strangers(followed):
    server = followed.server
    followed.describe("Open", visibility="internal")
    with opened(server, "carol", f"{followed.repo_scope}&scope=self") as stream:
        team = {"name": "Team", "slug": followed.team}
        own = {"name": "Own", "slug": f"{followed.team}-c"}
        server.api("alice").put(followed.path, **team, is_active=False).gives()
        server.api("carol").post("/teams", **own).gives(201)
        assert stream.kinds(1) == ["team-created"]  # earlier events have been received
        server.api("alice").put(followed.path, **team, is_active=True).gives()
        followed.describe("Not given back to an open stream")
        server.api("carol").put(f"/teams/{own['slug']}", **{**own, "name": "Ours"}).gives()
        assert stream.kinds(1) == ["team-updated"]


@pytest.mark.parametrize("how", ["revoke", "delete"])
def test_a_stream_closes_with_its_token(live, how):
    api = live.api("alice")
    made = api.post("/api-tokens", name=how).gives(201)
    with (
        opened(live, "alice", "scope=self") as other,
        opened(live, "alice", "scope=self&kind=team-created", token=made["token"]) as stream,
    ):
        if how == "revoke":
            api.put(f"/api-tokens/{made['uuid']}/revoke").gives()
        else:
            api.delete(f"/api-tokens/{made['uuid']}").gives(204)
        assert stream.next() is None
        assert other.kinds(1) == [f"token-{how}d"]
    with follow(live, "alice", "scope=self", token=made["token"]) as stream:
        stream.refusal().fails(401, "invalid_token")


DEACTIVATE = """
from apps.accounts.actions import deactivate_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
people = User.objects.in_bulk(["sam", "leaver"], field_name="username")
deactivate_user(principal=Principal(people["sam"]), user=people["leaver"])
"""


@pytest.mark.slow
def test_a_stream_closes_with_its_account(live):
    staff = live.api("sam")
    with (
        opened(live, "sam", "scope=site&kind=user-deactivated") as site,
        opened(live, "leaver", "scope=self") as stream,
    ):
        live.run(DEACTIVATE)
        assert stream.next() is None
        assert site.kinds(1) == ["user-deactivated"]
    live.api("leaver").get("/users/self").fails(401, "inactive_user")
    assert staff.get("/users/leaver").gives()["is_active"] is False
    live.run(DEACTIVATE.replace("deactivate_user", "reactivate_user"))


def test_the_owner_alone_follows_what_happens_to_tokens(server):
    with (
        opened(server, "sam", "scope=user:bob") as staff,
        opened(server, "bob", "scope=user:bob") as own,
    ):
        server.api("bob").post("/api-tokens", name="secret").gives(201)
        server.api("bob").post("/teams", name="Own", slug="bobs-own").gives(201)
        assert own.kinds(2) == ["token-created", "team-created"]
        assert staff.kinds(1) == ["team-created"]


def test_a_user_scope_shows_only_what_its_reader_may_read(followed):
    server = followed.server
    with (
        opened(server, "carol", "scope=user:bob") as stranger,
        opened(server, "alice", "scope=user:bob") as member,
    ):
        server.api("bob").post(f"{followed.path}/repos", name="P", slug="p").gives(201)
        public = {"name": "Q", "slug": "q", "visibility": "public"}
        server.api("bob").post(f"{followed.path}/repos", **public).gives(201)
        paths = [frame.json["repo_path"] for frame in member.take(2)]
        assert paths == [f"teams/{followed.team}/p", f"teams/{followed.team}/q"]
        assert stranger.take(1)[0].json["repo_path"] == f"teams/{followed.team}/q"


def test_a_renamed_repository_is_followed_on(followed):
    with opened(followed.server, "alice", followed.repo_scope) as stream:
        alice = followed.server.api("alice")
        alice.put(followed.repo, name="Api", slug="renamed").gives()
        thread = {"title": "One", "body": "", "kind": "issue"}
        alice.post(f"{followed.path}/repos/renamed/threads", **thread).gives(201)
        updated, created = stream.take(2)
    assert updated.json["repo_path"] == f"teams/{followed.team}/renamed"
    assert f"repo:teams/{followed.team}/renamed" in created.json["scopes"]


def test_a_user_has_at_most_twenty_streams(live):
    with ExitStack() as streams:
        first = streams.enter_context(opened(live, "bob", "scope=self"))
        for _ in range(19):
            streams.enter_context(opened(live, "bob", "scope=self"))
        assert status(live, "bob") == 429
        assert status(live, "carol") == 200
        first.close()
        eventually(lambda: status(live, "bob") == 200)


def status(server, name):
    with follow(server, name, "scope=self") as stream:
        if stream.status == 429:
            stream.refusal().fails(429, "too_many_streams")
            assert stream.response.headers["Retry-After"] == "5"
        return stream.status

"""Event scopes accept former slugs; responses have the current names."""

from __future__ import annotations

import pytest

from tests.events.conftest import ON_SERVE
from tests.factories import TeamFactory
from tests.tail import opened

OLD = ["team:acme", "repo:teams/acme/api", "repo:teams/guild/api", "repo:teams/acme/engine"]
OLD += ["thread:teams/acme/api/1", "pull:teams/acme/api/2"]


@pytest.fixture
def renamed(api, make, team_repo, alice):
    """acme/api, with a thread and a pull, renamed to guild/engine."""
    make.thread(team_repo, by=alice)
    make.pull(team_repo, by=alice)
    api(alice).put(team_repo.api_path, name="Api", slug="engine").gives()
    api(alice).put("/teams/acme", name="Acme", slug="guild").gives()
    return team_repo


def rows(answer):
    return answer.gives()["results"]


@pytest.mark.parametrize("old", OLD)
def test_a_list_is_found_by_a_former_slug(api, renamed, alice, carol, old):
    now = old.replace("acme", "guild").replace("/api", "/engine")
    results = rows(api(alice).get(f"/events?scope={old}"))
    assert results == rows(api(alice).get(f"/events?scope={now}"))
    for event in results:
        assert now in event["scopes"] and old not in event["scopes"]
    assert results == rows(api(alice).get(f"/events?scope={old}&scope={now}"))
    assert results == rows(api(alice).get(f"/events?scope={old.replace('acme', 'ACME')}"))
    assert "guild" not in api(carol).get(f"/events?scope={old}").fails(403, "forbidden")
    api(alice).send("HEAD", f"/tail-events?scope={old}").gives()
    assert api(carol).send("HEAD", f"/tail-events?scope={old}").status == 403


@pytest.mark.parametrize("old", OLD)
def test_whoever_has_no_access_learns_no_name_of_an_inactive_team_either(
    api, renamed, alice, carol, old
):
    api(alice).put("/teams/guild", name="Acme", slug="guild", is_active=False).gives()
    assert "guild" not in api(carol).get(f"/events?scope={old}").fails(403, "team_inactive")


def test_whoever_takes_a_former_slug_is_followed_from_then_on(api, make, renamed, alice):
    taker = make.repo(renamed.owner, "api", by=alice)
    api(alice).get("/events?scope=thread:teams/guild/api/1").fails(404, "not_found")
    assert rows(api(alice).get("/events?scope=repo:teams/guild/api"))[-1]["repo_path"] == (
        f"teams/guild/{taker.slug}"
    )


def test_a_repository_of_a_person_is_found_too(api, make, alice):
    repo = make.repo(alice, "api", by=alice)
    make.thread(repo, by=alice)
    api(alice).put(repo.api_path, name="Api", slug="engine").gives()
    for form in ("repo:users/alice/api", "thread:users/Alice/api/1"):
        assert (
            "repo:users/alice/engine" in rows(api(alice).get(f"/events?scope={form}"))[0]["scopes"]
        )


def test_what_nothing_was_called_is_not_found(api, renamed, alice):
    TeamFactory.create(slug="other", owner=alice)
    for text in ("team:acme2", "repo:teams/other/api", "repo:teams/acme/nothing", "user:acme"):
        api(alice).get(f"/events?scope={text}").fails(404, "not_found")


def test_the_scope_of_a_deleted_thread_is_open_to_readers_of_its_repository(
    api, make, team_repo, alice, bob, carol
):
    make.thread(team_repo, by=alice)
    api(alice).delete(f"{team_repo.api_path}/threads/1").gives(204)
    for scope in ("thread:teams/acme/api/1", "repo:teams/acme/api"):
        event = rows(api(bob).get(f"/events?scope={scope}"))[0]
        assert (event["kind"], event["summary"]["thread_title"]) == ("thread-deleted", None)
    api(carol).get("/events?scope=thread:teams/acme/api/1").gives(403)
    api(bob).get("/events?scope=thread:teams/acme/api/2").fails(404, "not_found")
    api(bob).get("/events?scope=pull:teams/acme/api/1").fails(404, "not_found")


@ON_SERVE
def test_who_was_away_learns_from_the_stream_of_a_thread_that_it_was_deleted(followed):
    server, number = followed.server, followed.thread()["number"]
    scope = f"scope=thread:teams/{followed.team}/api/{number}"
    with opened(server, "bob", f"{scope}&last_event_id=0") as stream:
        [frame] = stream.take(1)
    server.api("alice").delete(f"{followed.repo}/threads/{number}").gives(204)
    with opened(server, "bob", f"{scope}&last_event_id={frame.id}") as stream:
        assert stream.kinds(1) == ["thread-deleted"]


@ON_SERVE
def test_a_stream_is_taken_up_by_the_slugs_that_its_reader_knew(followed):
    """A client that was disconnected during the renames reconnects with the former scope."""
    alice, old = followed.server.api("alice"), f"repo:teams/{followed.team}/api"
    with opened(followed.server, "alice", f"scope={old}") as stream:
        followed.describe("Seen")
        [frame] = stream.take(1)
    alice.put(followed.repo, name="Api", slug="renamed").gives()
    new = f"{followed.team}-new"
    alice.put(followed.path, name="Team", slug=new).gives()
    query = f"scope={old}&scope=team:{followed.team}&last_event_id={frame.id}"
    with opened(followed.server, "alice", query) as stream:
        repo, team = stream.take(2)
        assert repo.json["data"]["after"] == {"slug": "renamed"}
        assert team.json["data"]["before"] == {"slug": followed.team}
        assert f"repo:teams/{new}/renamed" in repo.json["scopes"]
        thread = {"title": "One", "body": "", "kind": "issue"}
        alice.post(f"/teams/{new}/repos/renamed/threads", **thread).gives(201)
        assert stream.kinds(1) == ["thread-created"]

"""A deleted repository in stored answers, pings and references, until it is restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.actions import restore
from apps.accounts.models import Deletion
from tests.principals import principal_of
from tests.repos.test_deletion import delete


@pytest.fixture
def undo(sam: Any) -> Callable[[], None]:
    return lambda: restore(principal=principal_of(sam), deletion=Deletion.objects.get())


def test_a_stored_answer_is_of_no_use_until_it_is_restored(api, make, team_repo, alice, undo):
    """Neither one that the client has (`If-None-Match`), nor one that the server has stored."""
    make.thread(team_repo, by=alice, title="Xylophone")
    client, url = api(alice), f"{team_repo.api_path}/threads"
    sent = {"title": "Once", "body": "", "kind": "issue"}
    first = client.post_once("key", url, **sent).gives(201)
    tags = {path: client.get(path).header("ETag") for path in (f"{url}/1", url, "/threads")}

    def again(path: str) -> Any:
        return client.send("GET", path, headers={"If-None-Match": tags[path]})

    delete(client, team_repo)
    again(url).fails(404, "not_found")
    again(f"{url}/1").fails(404, "not_found")
    assert again("/threads").gives()["results"] == []
    client.post_once("key", url, **sent).fails(404, "not_found")
    undo()
    assert [again(path).status for path in tags] == [304, 304, 304]
    assert client.post_once("key", url, **sent).gives(201) == first


def test_pings_about_it_come_back_with_it(api, make, team_repo, alice, bob, undo):
    make.thread(team_repo, by=alice, title="Xylophone", body="@bob")
    before = api(bob).get("/pings").gives()["results"]
    assert len(before) == 1
    delete(api(alice), team_repo)
    assert api(bob).get("/pings").gives()["results"] == []
    api(bob).put(f"/pings/{before[0]['uuid']}/read").fails(404, "not_found")
    undo()
    assert api(bob).get("/pings").gives()["results"] == before


def test_references_to_it_are_no_links_until_it_is_restored(api, make, team_repo, alice, undo):
    make.thread(team_repo, by=alice)
    other = make.repo(alice, "other", by=alice)
    make.thread(other, by=alice, body=f"See {team_repo.path}#1.")
    path = f"{other.api_path}/threads/1?render=html"

    def has_link() -> bool:
        return f">{team_repo.path}#1</a>" in api(alice).get(path).gives()["body_html"]

    assert has_link()
    delete(api(alice), team_repo)
    assert not has_link()
    undo()
    assert has_link()

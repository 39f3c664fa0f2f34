"""Repositories of a deactivated person can be read as before, but only staff may change them."""

from __future__ import annotations

from base64 import b64encode

import pytest

from apps.accounts.models import User
from apps.pulls.rules import takes_changes
from tests.factories import TeamFactory
from tests.gitclient import Clone
from tests.principals import access_of


@pytest.fixture
def opened(make, alice, bob, tmp_path):
    """alice's public repository with a commit."""
    repo = make.repo(alice, "open", by=alice, visibility="public")
    clone = Clone(tmp_path / "first", repo, alice)
    clone.commit("main", {"a": "1\n"})
    clone.push("main")
    return repo


def deactivate(person: User) -> None:
    User.objects.filter(pk=person.pk).update(is_active=False)


THREAD = {"title": "t", "body": "", "kind": "issue"}


def test_a_deactivated_persons_repositories_are_read_as_before(
    api, make, opened, alice, bob, carol
):
    make.thread(opened, by=bob)
    deactivate(alice)
    for path in ("", "/threads", "/branches", "/commits"):
        for caller in (api(bob), api(carol)):
            caller.get(opened.api_path + path).gives()


def test_nobody_but_staff_writes_to_a_deactivated_persons_repositories(
    api, make, opened, alice, bob, carol, sam, events
):
    thread = make.thread(opened, by=bob)
    make.reply(thread, by=bob)
    TeamFactory.create(slug="guild", owner=bob)
    deactivate(alice)
    path = opened.api_path
    with events():
        for caller in (api(bob), api(carol)):
            caller.post(f"{path}/threads", **THREAD).fails(403, "owner_inactive")
            caller.patch(f"{path}/threads/1", title="x").fails(403, "owner_inactive")
            reply = {"kind": "comment", "body": "x"}
            caller.post(f"{path}/threads/1/replies", **reply).fails(403, "owner_inactive")
            caller.delete(f"{path}/threads/1/replies/1").fails(403, "owner_inactive")
            pull = {"title": "x", "body": "", "source_branch": "a", "target_branch": "main"}
            caller.post(f"{path}/pulls", **pull).fails(403, "owner_inactive")
            caller.post(f"{path}/forks").fails(403, "owner_inactive")
            caller.put(path, name="x", slug="x").fails(403, "owner_inactive")
        api(bob).post(f"{path}/forks?team_slug=guild").fails(403, "owner_inactive")
    api(sam).post(f"{path}/threads", **THREAD).gives(201)
    assert api(sam).put(path, name="Kept", slug="open").gives()["name"] == "Kept"
    User.objects.filter(pk=alice.pk).update(is_active=True)
    api(bob).post(f"{path}/threads", **THREAD).gives(201)


def test_a_push_to_a_deactivated_persons_repository_is_refused_but_for_staff(
    client, make, opened, alice, bob, sam
):
    def asks_to_push(person: User) -> tuple[int, str]:
        basic = b64encode(f"x:{make.token(person)}".encode()).decode()
        address = f"/{opened.path}.git/info/refs?service=git-receive-pack"
        answer = client.get(address, headers={"Authorization": f"Basic {basic}"})
        return answer.status_code, answer.getvalue().decode(errors="replace")

    deactivate(alice)
    status, text = asks_to_push(bob)
    assert (status, "alice is deactivated" in text) == (403, True)
    assert asks_to_push(sam)[0] == 200
    fetch = client.get(f"/{opened.path}.git/info/refs?service=git-upload-pack")
    assert fetch.status_code == 200 and fetch.getvalue()


def test_pulls_in_a_deactivated_persons_repositories_wait_for_nobody_and_staff_may_merge(
    opened, alice, sam
):
    assert takes_changes(opened) and access_of(sam, opened).is_writable
    opened.owner_user.is_active = False
    assert not takes_changes(opened)
    assert access_of(sam, opened).is_writable
    assert not access_of(alice, opened).is_writable

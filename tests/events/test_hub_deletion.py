"""The live stream when a repository, a team or an account is deleted, and when it is restored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.actions import delete_user, restore
from apps.accounts.models import Deletion
from apps.events.hub import in_thread
from apps.repos.actions import delete_repo
from apps.teams.actions import delete_team, update_team
from apps.threads.actions import create_reply
from tests.events.test_hub import Client, following, joined
from tests.principals import access_of, principal_of, team_access_of

pytestmark = pytest.mark.django_db(transaction=True)
Remove = Callable[[str], Any]


@pytest.fixture
def remove(alice, acme, team_repo) -> Remove:
    """`remove("repo")` deletes the repository of team acme, `remove("team")` the team."""
    deletions: dict[str, Callable[[], Any]] = {
        "repo": lambda: delete_repo(access=access_of(alice, team_repo), confirm="acme/api"),
        "team": lambda: delete_team(access=team_access_of(alice, acme), confirm="acme"),
    }
    return lambda kind: deletions[kind]()


@pytest.fixture
def rename(alice, acme) -> Callable[[str], None]:
    """Record an event of team acme."""
    return lambda name: update_team(access=team_access_of(alice, acme), name=name)


async def until(client: Client, word: str) -> str:
    """The text of a stream up to the event with this word."""
    text = ""
    while word not in text:
        text += await client.text()
    return text


def text_after(token: str, scope: str, change: Callable[[], Any]) -> str:
    """The first text of an open stream after a change; "" if the stream ends."""

    async def story() -> str:
        async with joined(token, f"scope={scope}") as client:
            await in_thread(change)
            return await client.text()

    return asyncio.run(story())


@pytest.mark.parametrize("kind", ["repo", "team"])
@pytest.mark.parametrize("form", ["repo:{}", "thread:{}/1", "pull:{}/2"])
def test_streams_of_a_deleted_repository_end(make, team_repo, alice, bob, remove, form, kind):
    make.thread(team_repo, by=alice)
    make.pull(team_repo, by=alice)
    scope = form.format(team_repo.path)
    assert text_after(make.token(bob), scope, lambda: remove(kind)) == ""


@pytest.mark.parametrize(
    ("name", "scope"), [("carol", "self"), ("alice", "user:carol"), ("alice", "repo:{}")]
)
def test_streams_of_a_deleted_person_end(make, alice, carol, name, scope):
    repo = make.repo(carol, "own", by=carol, visibility="public")
    token = make.token({"alice": alice, "carol": carol}[name])

    def delete() -> None:
        delete_user(principal=principal_of(carol), user=carol, confirm="carol")

    assert text_after(token, scope.format(repo.path), delete) == ""


def test_a_change_that_was_under_way_during_the_deletion_reaches_no_stream(
    make, team_repo, alice, bob, remove, rename
):
    """A reply does not lock the repository."""
    thread, access = make.thread(team_repo, by=alice), access_of(bob, team_repo)

    def change() -> None:
        remove("repo")
        create_reply(access=access, thread=thread, kind="comment", body="Late")
        rename("After")

    async def story() -> str:
        async with joined(make.token(bob), "scope=team:acme") as client:
            await in_thread(change)
            return await until(client, "After")

    text = asyncio.run(story())
    assert "event: repo-deleted" in text
    assert "event: reply-created" not in text


def test_a_stream_that_catches_up_gets_no_event_of_a_deleted_repository(
    make, team_repo, alice, bob, sam, remove, rename
):
    make.thread(team_repo, by=alice, title="Xylophone")
    token = make.token(bob)

    def log_until(name: str) -> str:
        async def story() -> str:
            async with following(token, "scope=team:acme&last_event_id=0") as client:
                return await until(client, name)

        rename(name)
        return asyncio.run(story())

    assert "Xylophone" in log_until("Before")
    remove("repo")
    assert "Xylophone" not in log_until("Deleted")
    restore(principal=principal_of(sam), deletion=Deletion.objects.get())
    text = log_until("Restored")
    assert "Xylophone" in text
    assert "event: repo-restored" in text


def test_a_stream_of_the_team_goes_on_after_the_restoration(
    make, team_repo, alice, bob, sam, remove
):
    def change() -> None:
        remove("repo")
        restore(principal=principal_of(sam), deletion=Deletion.objects.get())
        make.thread(team_repo, by=alice, title="Again")

    async def story() -> str:
        async with joined(make.token(bob), "scope=team:acme") as client:
            await in_thread(change)
            return await until(client, "Again")

    text = asyncio.run(story())
    assert "event: repo-restored" in text

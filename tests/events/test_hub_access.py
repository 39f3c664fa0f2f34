"""The hub when somebody loses access, with the application in this process."""

from __future__ import annotations

import asyncio
import datetime as dt
from functools import partial

import pytest
from django.db import transaction
from django.utils import timezone

from apps.accounts import actions as accounts
from apps.events.hub import in_thread
from apps.teams import actions as teams
from tests.events.test_hub import joined, newest, read
from tests.factories import UserFactory
from tests.principals import principal_of, team_access_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_whoever_is_no_longer_staff_gets_nothing_that_staff_alone_reads(make, sam):
    """Not even events that are read together with the loss: the uuid of an invite is its link."""
    sue = UserFactory.create(username="sue", staff=True)

    def change() -> None:
        with transaction.atomic():
            accounts.update_user(principal=principal_of(sam), user=sue, is_staff=False)
            ends = timezone.now() + dt.timedelta(days=1)
            accounts.create_invite(principal=principal_of(sam), expires_at=ends)
        teams.create_team(principal=principal_of(sue), name="x", slug="x")

    async def story(token: str) -> list[int]:
        async with joined(token, "scope=user:sam&scope=self") as client:
            await in_thread(change)
            return await read(client, 1)

    assert asyncio.run(story(make.token(sue))) == newest(1)


def test_a_stream_of_which_nothing_may_be_read_any_more_ends(make, alice, bob, acme):
    def remove() -> None:
        teams.remove_member(access=team_access_of(alice, acme), member=acme.members.get(user=bob))

    async def story() -> str:
        async with joined(make.token(bob), "scope=team:acme") as client:
            await in_thread(remove)
            return await client.text()

    assert asyncio.run(story()) == ""


def test_whoever_is_deactivated_gets_nothing_that_is_read_together_with_it(
    make, alice, bob, sam, acme
):
    def change() -> None:
        with transaction.atomic():
            accounts.deactivate_user(principal=principal_of(sam), user=bob)
            teams.update_team(access=team_access_of(alice, acme), name="After", slug="acme")

    async def story() -> str:
        async with joined(make.token(bob), "scope=team:acme") as client:
            await in_thread(change)
            return await client.text()

    assert asyncio.run(story()) == ""


def test_whoever_is_no_longer_staff_sees_no_links_to_what_staff_alone_reads(
    make, sam, alice, team_repo
):
    """In the body of an event that is read together with the loss."""
    sue = UserFactory.create(username="sue", staff=True)
    make.thread(team_repo, by=alice)
    name = f"{team_repo.path}#1"
    open_repo = make.repo(alice, "open", by=alice, visibility="public")

    def change() -> None:
        with transaction.atomic():
            accounts.update_user(principal=principal_of(sam), user=sue, is_staff=False)
            make.thread(open_repo, by=alice, body=name)

    async def story(token: str) -> list[str]:
        query = f"scope=repo:{open_repo.path}&html=true"
        async with joined(token, query) as client:
            make_one = partial(make.thread, open_repo, by=alice, body=name)
            await in_thread(make_one)
            first = await client.text()
            await in_thread(change)
            return [first, await client.text()]

    before, after = asyncio.run(story(make.token(sue)))
    assert f">{name}</a>" in before
    assert f"<p>{name}</p>" in after

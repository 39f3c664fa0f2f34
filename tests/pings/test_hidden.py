"""Pings are not delivered to people who may no longer read the event."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from django.db import transaction

from apps.events.hub import hub, in_thread
from apps.events.kinds import Kind, PingKind
from apps.events.models import Event
from apps.events.record import record
from tests.events.test_hub import following, read
from tests.waiting import eventually_in_loop

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ping(make, alice, carol):
    """`ping(repo)` records an event that pings carol, as if she had lost access afterwards."""

    def pinged(repo):
        with transaction.atomic():
            pings = [(carol, PingKind.MENTION)]
            record(Kind.REPO_UPDATED, actor=alice, about=repo, data={"changed": []}, pings=pings)

    return pinged


def test_the_stream_leaves_out_what_its_reader_may_not_read(make, alice, carol, api, ping):
    hidden = make.repo(alice, "hidden", by=alice)
    public = make.repo(alice, "shown", by=alice, visibility="public")

    async def story() -> list[int]:
        async with following(make.token(carol), "scope=inbox") as client:
            await eventually_in_loop(lambda: hub.joined)
            for repo in (hidden, public):
                await in_thread(partial(ping, repo))
            first = await read(client, 1)
        async with following(make.token(carol), "scope=inbox&last_event_id=0") as client:
            return first + await read(client, 1)

    newest = Event.objects.newest_id
    assert asyncio.run(story()) == [newest(), newest()]
    for path in ("/events?scope=inbox", "/pings"):
        [ping_of_carol] = api(carol).get(path).gives()["results"]
        assert ping_of_carol.get("event_id", ping_of_carol.get("id")) == newest()

"""A ping whose person may not read its event when it is delivered is delivered to nobody."""

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
    """`ping(repo)`: an event of it that pings carol, as if she had lost access just afterwards."""

    def pinged(repo):
        with transaction.atomic():
            pings = [(carol, PingKind.MENTION)]
            record(Kind.REPO_UPDATED, actor=alice, about=repo, data={"changed": []}, pings=pings)

    return pinged


def test_the_stream_leaves_out_what_its_reader_may_not_read(make, alice, carol, api, ping):
    hidden = make.repo(alice, "hidden", by=alice)
    shown = make.repo(alice, "shown", by=alice, visibility="public")

    async def story() -> list[int]:
        async with following(make.token(carol), "scope=inbox") as client:
            await eventually_in_loop(lambda: hub.joined)
            for repo in (hidden, shown):
                await in_thread(partial(ping, repo))
            first = await read(client, 1)
        async with following(make.token(carol), "scope=inbox&last_event_id=0") as client:
            return first + await read(client, 1)

    newest = Event.objects.newest_id
    assert asyncio.run(story()) == [newest(), newest()]
    for path in ("/events?scope=inbox", "/pings"):
        [one] = api(carol).get(path).gives()["results"]
        assert one.get("event_id", one.get("id")) == newest()

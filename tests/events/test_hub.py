"""What a client cannot be waited for: the application in this process, with its limits lowered."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from django.db import OperationalError, transaction
from django.utils import timezone

from apps.accounts import actions as accounts
from apps.accounts.models import User
from apps.events import hub as hub_module
from apps.events import stream, subscribers
from apps.events.hub import hub, in_thread
from apps.events.models import Event
from apps.teams import actions as teams
from config.asgi import application

pytestmark = pytest.mark.django_db(transaction=True)


class Client:
    """An ASGI server's side of one stream."""

    def __init__(self, token: str, query: str) -> None:
        self.scope = {
            "type": "http",
            "method": "GET",
            "path": stream.PATH,
            "query_string": query.encode(),
            "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())],
        }
        self.sent: asyncio.Queue[Any] = asyncio.Queue()
        self.reading = asyncio.Event()
        self.reading.set()

    async def receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send(self, message: Any) -> None:
        """As a connection does: what is sent is kept, and then waits until there is room."""
        self.sent.put_nowait(message)
        if message.get("more_body"):
            await self.reading.wait()

    async def text(self) -> str:
        """The next piece of the body; "" at its end."""
        async with asyncio.timeout(10):
            message = await self.sent.get()
        assert message["type"] == "http.response.body", message
        body: bytes = message["body"]
        return body.decode()


@asynccontextmanager
async def following(token: str, query: str) -> AsyncIterator[Client]:
    client = Client(token, query)
    task = asyncio.create_task(application(client.scope, client.receive, client.send))
    try:
        head = await client.sent.get()
        assert head["status"] == 200
        assert await client.text() == ": ok\n\nretry: 0\n\n"
        yield client
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def rename(acme, alice) -> Callable[[str], Any]:
    """Make one event of team acme, in a thread as the server would."""
    return lambda name: in_thread(
        lambda: teams.update_team(actor=alice, team=acme, name=name, slug="acme")
    )


@pytest.fixture
def quick(monkeypatch) -> None:
    monkeypatch.setattr(hub_module, "LOOK_EVERY", 0.02)
    monkeypatch.setattr(hub, "_check_every", 0.0)


def ids(text: str) -> list[int]:
    return [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]


async def read(client: Client, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        found += ids(await client.text())
    return found


def newest(count: int) -> list[int]:
    return list(Event.objects.order_by("-id").values_list("id", flat=True)[:count])[::-1]


def test_whoever_reads_nothing_is_closed_in_the_end(monkeypatch, make, alice, rename):
    monkeypatch.setattr(stream, "SEND_TIMEOUT", 0.1)

    async def story() -> None:
        async with following(make.token(alice), "scope=team:acme") as client:
            client.reading.clear()
            await rename("One")
            assert len(ids(await client.text())) == 1
            assert await client.text() == ""

    asyncio.run(story())


def test_a_full_queue_is_thrown_away_and_the_log_read_instead(monkeypatch, make, alice, rename):
    monkeypatch.setattr(subscribers, "QUEUE_LIMIT", 1)

    async def story() -> list[int]:
        async with following(make.token(alice), "scope=team:acme") as client:
            for number in range(5):
                await rename(f"Name {number}")
            return await read(client, 5)

    assert asyncio.run(story()) == newest(5)


def test_a_stream_closes_when_its_token_expires(alice):
    soon = timezone.now() + dt.timedelta(seconds=0.5)
    _, token = accounts.create_token(actor=alice, owner=alice, name="soon", expires_at=soon)

    async def story() -> None:
        async with following(token, "scope=self") as client:
            assert await client.text() == ""
            assert timezone.now() >= soon

    asyncio.run(story())


def test_a_silent_stream_says_that_it_lives(monkeypatch, make, alice, acme):
    monkeypatch.setattr(subscribers, "HEARTBEAT_AFTER", 0.01)

    async def story() -> None:
        async with following(make.token(alice), "scope=team:acme") as client:
            assert await client.text() == await client.text() == ": heartbeat\n\n"

    asyncio.run(story())


def test_what_came_before_a_loss_of_access_is_sent_though_it_is_read_later(make, alice, bob, acme):
    def change() -> None:
        with transaction.atomic():
            teams.update_team(actor=alice, team=acme, name="Before", slug="acme")
            teams.remove_member(actor=alice, member=acme.members.get(user=bob))
            teams.update_team(actor=alice, team=acme, name="After", slug="acme")
        teams.create_team(actor=bob, name="Own", slug="own")

    async def story() -> list[int]:
        async with following(make.token(bob), "scope=team:acme&scope=self") as client:
            await until(lambda: bool(hub.joined))
            await in_thread(change)
            return await read(client, 2)

    found = asyncio.run(story())
    assert found == [newest(4)[0], newest(4)[3]]


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_staff": False}])
def test_what_no_event_tells_is_noticed_in_time(quick, make, sam, change):
    async def story() -> None:
        async with following(make.token(sam), "scope=site") as client:
            await in_thread(lambda: User.objects.filter(pk=sam.pk).update(**change))
            if not change.get("is_active", True):
                assert await client.text() == ""
                return
            await until(lambda: not any(one.selection.scopes for one in hub.present))

    asyncio.run(story())


async def until(true: Callable[[], bool]) -> None:
    """Let the loop run until this holds."""
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0)


def test_the_hub_ends_with_the_last_and_begins_with_the_next(quick, make, alice, rename):
    async def story() -> list[int]:
        found = []
        for name in ("One", "Two"):
            async with following(make.token(alice), "scope=team:acme") as client:
                await rename(name)
                found += await read(client, 1)
            await until(lambda: hub.is_idle)
            await rename(f"Nobody hears of {name}")
        return found

    found = asyncio.run(story())
    assert found == newest(4)[::2]


def test_a_failing_hub_closes_its_streams(monkeypatch, caplog, make, alice, rename):
    def fail(events: object) -> None:
        raise RuntimeError("a defect")

    async def story() -> None:
        async with following(make.token(alice), "scope=team:acme") as client:
            await rename("One")
            assert len(await read(client, 1)) == 1
            monkeypatch.setattr(hub_module, "render", fail)
            await rename("Two")
            assert await client.text() == ""

    asyncio.run(story())
    assert "a defect" in caplog.text


def test_a_database_that_fails_for_a_moment_loses_nothing(monkeypatch, quick, make, alice, rename):
    failures = [OperationalError("busy"), OperationalError("busy")]
    looking = hub_module._visible

    def visible(wanted: Any) -> Any:
        if failures:
            raise failures.pop()
        return looking(wanted)

    async def story() -> list[int]:
        async with following(make.token(alice), "scope=team:acme&scope=self") as client:
            await until(lambda: bool(hub.joined))
            monkeypatch.setattr(hub_module, "_visible", visible)
            for name in ("One", "Two", "Three"):
                await rename(name)
            return await read(client, 3)

    assert asyncio.run(story()) == newest(3)
    assert not failures

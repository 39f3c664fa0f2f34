"""The hub, with the application in this process, and with lower limits than clients could reach."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from apps.accounts import actions as accounts
from apps.accounts.models import ApiToken, User
from apps.events import consumers, wake
from apps.events import hub as hub_module
from apps.events.hub import hub, in_thread
from apps.events.models import Event, EventQuerySet
from apps.teams import actions as teams
from config.asgi import application, handler
from tests.principals import principal_of, team_access_of
from tests.server import PATIENCE
from tests.waiting import eventually, eventually_in_loop

pytestmark = pytest.mark.django_db(transaction=True)


class Client:
    """The ASGI server's side of one stream."""

    def __init__(self, token: str, query: str, *, reading: bool = True) -> None:
        self.scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/v1/tail-events",
            "query_string": query.encode(),
            "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())],
        }
        self.sent: asyncio.Queue[Any] = asyncio.Queue()
        self.has_sent_body = False
        self.reading = asyncio.Event()
        if reading:
            self.reading.set()

    async def receive(self) -> dict[str, Any]:
        """An empty body. After it, the client never disconnects."""
        if self.has_sent_body:
            await asyncio.Event().wait()
        self.has_sent_body = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Any) -> None:
        """Keep the message; then wait until the client reads, as a full connection does."""
        self.sent.put_nowait(message)
        if message.get("more_body"):
            await self.reading.wait()

    async def status(self) -> int:
        """The status of the response, as soon as it begins."""
        async with asyncio.timeout(PATIENCE):
            head = await self.sent.get()
        code: int = head["status"]
        return code

    async def text(self) -> str:
        """The next piece of the body; "" at its end."""
        async with asyncio.timeout(PATIENCE):
            message = await self.sent.get()
        assert message["type"] == "http.response.body", message
        body: bytes = message["body"]
        return body.decode()


@asynccontextmanager
async def following(token: str, query: str, **options: bool) -> AsyncIterator[Client]:
    client = Client(token, query, **options)
    task = asyncio.create_task(application(client.scope, client.receive, client.send))
    try:
        assert await client.status() == 200
        assert await client.text() == ": ok\n\nretry: 0\n\n"
        yield client
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def rename(acme, alice) -> Callable[[str], Any]:
    """Record one event of team acme, in a thread as the server does."""
    return lambda name: in_thread(
        lambda: teams.update_team(access=team_access_of(alice, acme), name=name, slug="acme")
    )


@asynccontextmanager
async def joined(token: str, query: str) -> AsyncIterator[Client]:
    """A stream that gets its events from the hub."""
    before = len(hub.joined)
    async with following(token, query) as client:
        await eventually_in_loop(lambda: len(hub.joined) > before)
        yield client


async def new_team(person: User) -> None:
    """Record one event of this person's."""
    await in_thread(lambda: teams.create_team(principal=principal_of(person), name="x", slug="x"))


@pytest.fixture
def lose(acme, alice, bob) -> Callable[[], None]:
    """Remove bob from acme, and record an event that he may not read any more."""

    def change() -> None:
        teams.remove_member(access=team_access_of(alice, acme), member=acme.members.get(user=bob))
        teams.update_team(access=team_access_of(alice, acme), name="After", slug="acme")

    return change


@pytest.fixture
def quick(monkeypatch) -> None:
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(hub_module, "CHECK_SECONDS", 0.0)


def ids(text: str) -> list[int]:
    return [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]


async def read(client: Client, count: int) -> list[int]:
    """The ids of the next events; skips heartbeats."""
    event_ids: list[int] = []
    async with asyncio.timeout(PATIENCE):
        while len(event_ids) < count:
            event_ids += ids(await client.text())
    return event_ids


def newest(count: int) -> list[int]:
    return list(Event.objects.order_by("-id").values_list("id", flat=True)[:count])[::-1]


def test_a_wake_up_is_enough(monkeypatch, make, alice, rename):
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 60.0)

    async def story() -> list[int]:
        async with joined(make.token(alice), "scope=team:acme") as client:
            await rename("One")
            return await read(client, 1)

    assert asyncio.run(story()) == newest(1)


@pytest.mark.skipif("postgres" not in os.environ.get("DATABASE_URL", ""), reason="PostgreSQL's own")
def test_a_lost_listener_comes_back(monkeypatch, make, alice, rename):
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 60.0)
    monkeypatch.setattr(wake, "RECONNECT_AFTER", 0.01)
    find = "SELECT pid FROM pg_stat_activity WHERE application_name = 'guildhall-stream'"

    def listeners(kill: bool = False) -> list[int]:
        with connection.cursor() as cursor:
            cursor.execute(f"{find} AND datname = current_database()")
            pids = [row[0] for row in cursor.fetchall()]
            if kill:
                cursor.execute("SELECT pg_terminate_backend(%s)", pids)
        return pids

    async def no_listener() -> bool:
        return not await in_thread(listeners)

    async def story() -> list[int]:
        # The connection of an earlier stream may still be closing.
        await eventually_in_loop(no_listener)
        async with following(make.token(alice), "scope=team:acme") as client:
            await rename("One")
            first = await read(client, 1)
            # The hub may have read the log before the listener had connected.
            await eventually_in_loop(lambda: in_thread(listeners))
            [gone] = await in_thread(lambda: listeners(kill=True))
            await eventually_in_loop(lambda: in_thread(lambda: set(listeners()) - {gone}))
            await rename("Two")
            return first + await read(client, 1)

    assert asyncio.run(story()) == newest(2)


def test_whoever_reads_nothing_is_closed_in_the_end(monkeypatch, make, alice, rename):
    monkeypatch.setattr(consumers, "SEND_TIMEOUT", 0.1)

    async def story() -> None:
        async with following(make.token(alice), "scope=team:acme") as client:
            client.reading.clear()
            await rename("One")
            assert len(ids(await client.text())) == 1
            assert await client.text() == ""

    asyncio.run(story())


def test_a_full_queue_is_thrown_away_and_the_log_read_instead(monkeypatch, make, alice, rename):
    monkeypatch.setattr(hub_module, "QUEUE_LIMIT", 1)

    async def story() -> list[int]:
        async with following(make.token(alice), "scope=team:acme") as client:
            for number in range(5):
                await rename(f"Name {number}")
            return await read(client, 5)

    assert asyncio.run(story()) == newest(5)


def test_a_stream_closes_when_its_token_expires(monkeypatch, alice):
    """Set the time to just before the end once the stream is open, however long that takes."""
    end, moment = timezone.now() + dt.timedelta(days=1), dt.timedelta(seconds=0.2)
    _, token = accounts.create_token(principal=None, owner=alice, name="soon", expires_at=end)
    monkeypatch.setattr(consumers, "timezone", SimpleNamespace(now=lambda: end - moment))

    async def story() -> None:
        begin = time.monotonic()
        async with following(token, "scope=self") as client:
            assert await client.text() == ""
            assert time.monotonic() - begin >= moment.total_seconds()

    asyncio.run(story())


def test_a_silent_stream_says_that_it_lives(monkeypatch, make, alice, acme):
    monkeypatch.setattr(hub_module, "HEARTBEAT_AFTER", 0.01)

    async def story() -> None:
        async with following(make.token(alice), "scope=team:acme") as client:
            assert await client.text() == await client.text() == ": heartbeat\n\n"

    asyncio.run(story())


def test_what_came_before_a_loss_of_access_is_sent_though_it_is_read_later(
    make, alice, bob, acme, lose
):
    def change() -> None:
        with transaction.atomic():
            teams.update_team(access=team_access_of(alice, acme), name="Before", slug="acme")
            lose()

    async def story() -> list[int]:
        async with joined(make.token(bob), "scope=team:acme&scope=self") as client:
            await in_thread(change)
            await new_team(bob)
            return await read(client, 2)

    received = asyncio.run(story())
    assert received == [newest(4)[0], newest(4)[3]]


@pytest.mark.parametrize("end", [None, ""])
def test_access_that_is_lost_while_a_stream_begins_is_lost(make, bob, lose, end):
    """The hub does not check a stream that has not entered yet."""

    def change() -> None:
        lose()
        if end is not None:
            ApiToken.objects.filter(user=bob).delete()

    async def story() -> str:
        query = "scope=team:acme&scope=self&kind=team-updated&kind=team-created&last_event_id=0"
        async with following(make.token(bob), query, reading=False) as client:
            await in_thread(change)
            client.reading.set()
            if end is None:
                await new_team(bob)
            return await client.text()

    text = asyncio.run(story())
    assert ids(text) == (newest(1) if end is None else [])


@pytest.mark.parametrize("noticed", [True, False])
def test_access_that_is_lost_after_the_view_has_looked_is_lost(
    monkeypatch, make, alice, bob, lose, noticed
):
    """The hub reads the event before the stream enters, or after."""
    gate = threading.Event()
    ask, reading = handler.ask, hub_module.read_after
    query = "scope=team:acme&scope=self&kind=team-updated&kind=team-created"

    def lost_event() -> int:
        lose()
        return newest(1)[0]

    def read_after(last: int) -> Any:
        assert gate.wait(PATIENCE)
        return reading(last)

    async def overtaken(scope: Any) -> Any:
        response = await ask(scope)
        lost = await in_thread(lost_event)
        await eventually_in_loop(lambda: (hub.last >= lost) is noticed)
        return response

    async def story() -> list[int]:
        async with joined(make.token(alice), "scope=team:acme"):
            monkeypatch.setattr(hub_module, "read_after", read_after)
            monkeypatch.setattr(handler, "ask", overtaken)
            if noticed:
                gate.set()
            async with joined(make.token(bob), query) as client:
                gate.set()
                await new_team(bob)
                return await read(client, 1)

    assert asyncio.run(story()) == newest(1)


def test_a_token_that_is_revoked_while_the_view_looks_is_lost(monkeypatch, make, alice, bob):
    """The hub reads the event before the stream enters, and the stream begins after that event."""
    row, token = accounts.create_token(principal=principal_of(bob), owner=bob, name="laptop")
    newest_id = EventQuerySet.newest_id

    def revoked_meanwhile(events: EventQuerySet) -> int:
        accounts.revoke_token(principal=principal_of(bob), token=row)
        eventually(lambda: hub.last >= newest(1)[0])
        return newest_id(events)

    async def story() -> None:
        async with joined(make.token(alice), "scope=self"):
            monkeypatch.setattr(EventQuerySet, "newest_id", revoked_meanwhile)
            async with following(token, "scope=self") as client:
                assert await client.text() == ""

    asyncio.run(story())


def test_nothing_comes_twice_when_a_newcomer_is_ahead_of_the_hub(monkeypatch, make, alice, rename):
    gate = threading.Event()
    reading = hub_module.read_after

    def read_after(last: int) -> Any:
        assert gate.wait(PATIENCE)
        return reading(last)

    async def story() -> tuple[list[int], list[int]]:
        token, query = make.token(alice), "scope=team:acme&kind=team-updated"
        async with joined(token, query) as first:
            monkeypatch.setattr(hub_module, "read_after", read_after)
            await rename("One")
            async with joined(token, f"{query}&last_event_id=0") as second:
                gate.set()
                await rename("Two")
                return await read(first, 2), await read(second, 2)

    first, second = asyncio.run(story())
    assert first == second == newest(2)


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_staff": False}])
def test_what_no_event_tells_is_noticed_in_time(quick, make, sam, change):
    async def story() -> None:
        async with following(make.token(sam), "scope=site") as client:
            await in_thread(lambda: User.objects.filter(pk=sam.pk).update(**change))
            if not change.get("is_active", True):
                assert await client.text() == ""
                return
            await eventually_in_loop(
                lambda: not any(subscriber.selection.event_scopes for subscriber in hub.present)
            )

    asyncio.run(story())


def test_the_hub_ends_with_the_last_and_begins_with_the_next(quick, make, alice, rename):
    async def story() -> list[int]:
        received = []
        for name in ("One", "Two"):
            async with following(make.token(alice), "scope=team:acme") as client:
                await rename(name)
                received += await read(client, 1)
            await eventually_in_loop(
                lambda: "hub" not in {task.get_name() for task in asyncio.all_tasks()}
            )
            await rename(f"Nobody hears of {name}")
        return received

    received = asyncio.run(story())
    assert received == newest(4)[::2]


def test_a_failing_hub_closes_its_streams(monkeypatch, caplog, make, alice, rename):
    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    async def story() -> None:
        async with following(make.token(alice), "scope=team:acme") as client:
            await rename("One")
            assert len(await read(client, 1)) == 1
            monkeypatch.setattr(hub_module, "frames_of", fail)
            await rename("Two")
            assert await client.text() == ""

    asyncio.run(story())
    assert "a defect" in caplog.text


def test_a_database_that_fails_for_a_moment_loses_nothing(monkeypatch, quick, make, alice, rename):
    failures = [OperationalError("busy"), OperationalError("busy")]
    looking = hub_module.visible_ids

    def visible(ids: Any) -> Any:
        if failures:
            raise failures.pop()
        return looking(ids)

    async def story() -> list[int]:
        async with joined(make.token(alice), "scope=team:acme&scope=self") as client:
            monkeypatch.setattr(hub_module, "visible_ids", visible)
            for name in ("One", "Two", "Three"):
                await rename(name)
            return await read(client, 3)

    assert asyncio.run(story()) == newest(3)
    assert not failures


@pytest.fixture
def one_stream(monkeypatch) -> None:
    monkeypatch.setattr(hub_module, "STREAMS_PER_USER", 1)


async def refusal(token: str) -> int:
    """The status of the response to a refused request."""
    client = Client(token, "scope=self")
    await application(client.scope, client.receive, client.send)
    return await client.status()


@pytest.mark.parametrize("when", ["while the view looks", "when the stream begins"])
def test_a_client_that_leaves_early_keeps_no_connection(monkeypatch, one_stream, make, alice, when):
    """The view of a disconnected request continues in its thread."""
    begun, left, ended = (threading.Event() for _ in range(3))
    newest_id = EventQuerySet.newest_id
    token = make.token(alice)

    def newest_id_slowly(events: EventQuerySet) -> int:
        begun.set()
        if when == "while the view looks":
            assert left.wait(PATIENCE)
        ended.set()
        return newest_id(events)

    async def story() -> None:
        client = Client(token, "scope=self")
        monkeypatch.setattr(EventQuerySet, "newest_id", newest_id_slowly)
        task = asyncio.create_task(application(client.scope, client.receive, client.send))
        assert await in_thread(lambda: begun.wait(PATIENCE))
        if when == "when the stream begins":
            assert await client.status() == 200
            assert await refusal(token) == 429
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        left.set()
        assert await in_thread(lambda: ended.wait(PATIENCE))
        async with following(token, "scope=self"):
            pass

    asyncio.run(story())


def test_of_two_who_come_for_the_last_connection_one_is_refused(
    monkeypatch, one_stream, make, alice
):
    """The view accepts both before either takes the connection."""
    ask, let_in = handler.ask, asyncio.Barrier(2)
    first_answers = 2

    async def ask_together(scope: Any) -> Any:
        nonlocal first_answers
        response = await ask(scope)
        if first_answers:
            first_answers -= 1
            assert response.status_code == 200
            await let_in.wait()
        return response

    async def story() -> set[int]:
        monkeypatch.setattr(handler, "ask", ask_together)
        clients = [Client(make.token(alice), "scope=self") for _ in range(2)]
        tasks = [asyncio.create_task(application(c.scope, c.receive, c.send)) for c in clients]
        statuses = {await client.status() for client in clients}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return statuses

    assert asyncio.run(story()) == {200, 429}


def test_nobody_is_let_in_while_the_process_ends(monkeypatch, make, alice):
    """Also if the view has accepted the request before."""
    ask = handler.ask

    async def ask_before_the_end(scope: Any) -> Any:
        response = await ask(scope)
        monkeypatch.setattr(hub.connections, "closed", True)
        return response

    monkeypatch.setattr(handler, "ask", ask_before_the_end)
    assert asyncio.run(refusal(make.token(alice))) == 503


def test_the_end_of_the_process_waits_for_nobody_who_is_reading():
    """A reading may wait for a lock in PostgreSQL."""
    assert asyncio.run(in_thread(lambda: threading.current_thread().daemon))

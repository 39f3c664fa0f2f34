"""`GET /tail-events` as an ASGI application (contract, Live stream; behaviour.md §5).

The door is the ordinary one: Django answers the request first, with all that it refuses. Only
when its view has subscribed does the stream begin, outside Django, so that an idle one holds
neither a thread nor a database connection.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from django.utils import timezone

from apps.events.frames import OPENING
from apps.events.hub import hub, in_thread, renewed
from apps.events.scopes import Selection
from apps.events.subscribers import SUBSCRIBE, Rendered, Subscriber, Wish, render

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PATH = "/api/v1/tail-events"
PAGE = 100
"""Events in one page of catching up."""
SEND_TIMEOUT = 10.0
"""Seconds that a client may leave a full connection unread; then its stream is closed."""

logger = logging.getLogger(__name__)


def live(door: Application) -> Application:
    """An application that answers `PATH`: refusals by `door`, the rest as a stream."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        wishes: list[Wish] = []
        gone = False

        def subscribe(wish: Wish) -> None:
            hub.seats.take(wish.selection.principal.user.pk)
            wishes.append(wish)
            if gone:  # the view has been waiting for something, and its client has not
                rise()

        def rise() -> None:
            """Give the seat back, once, whichever thread comes first."""
            with suppress(IndexError):
                hub.seats.leave(wishes.pop().selection.principal.user.pk)

        seen = hub.last
        try:
            head = await knock(door, {**scope, SUBSCRIBE: subscribe}, send, wishes)
            if head is not None:
                await send(head)
                await follow(Subscriber(wishes[0]), seen, receive, send)
        finally:
            gone = True
            rise()

    return answer


async def knock(door: Application, scope: Scope, send: Send, wishes: list[Wish]) -> Message | None:
    """Let the door answer. Returns the head of the stream's answer; None when it has refused."""
    head: Message | None = None

    async def relay(message: Message) -> None:
        nonlocal head
        if not wishes:
            await send(message)
        elif message["type"] == "http.response.start":
            headers = [pair for pair in message["headers"] if pair[0].lower() != b"content-length"]
            head = {**message, "headers": headers}

    await door(scope, without_body(), relay)
    return head


def without_body() -> Receive:
    """The end of an empty body, and then nothing: the door is quick, and is not interrupted."""
    waiting = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if not waiting:
            await asyncio.get_running_loop().create_future()
        return waiting.pop()

    return receive


async def follow(subscriber: Subscriber, seen: int, receive: Receive, send: Send) -> None:
    """Stream until the client leaves, its credential ends, or the hub closes it.

    `seen` is how far the hub had read before the door looked at the access.
    """
    hub.enter(subscriber, seen)
    tasks = [asyncio.create_task(pour(subscriber, send)), asyncio.create_task(departure(receive))]
    try:
        await asyncio.wait(
            [*tasks, subscriber.over],
            timeout=lifetime(subscriber.wish),
            return_when=asyncio.FIRST_COMPLETED,
        )
    finally:
        hub.leave(subscriber)
        for task in tasks:
            task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception) and not isinstance(outcome, TimeoutError | OSError):
            logger.error("A live stream failed", exc_info=outcome)
    with suppress(OSError):  # some servers say so when the client has gone
        await send({"type": "http.response.body", "body": b""})


def lifetime(wish: Wish) -> float | None:
    """Seconds until the credential expires; None when it does not."""
    end = wish.selection.principal.expires_at
    return None if end is None else (end - timezone.now()).total_seconds()


async def departure(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def pour(subscriber: Subscriber, send: Send) -> None:
    """Send the opening, what the log has since the client was last here, then what comes."""

    async def write(data: bytes) -> None:
        timer = subscriber.loop.call_later(SEND_TIMEOUT, subscriber.end)
        try:
            await send({"type": "http.response.body", "body": data, "more_body": True})
        finally:
            timer.cancel()

    await write(OPENING)
    while not subscriber.over.done():
        if subscriber in hub.joined:
            await write(await subscriber.take())
        else:
            await catch_up(subscriber, write)


async def catch_up(subscriber: Subscriber, write: Callable[[bytes], Awaitable[None]]) -> None:
    """Send a page of the log, and join the hub, when that was all, without a gap or a double.

    The hub's last id may move on during every `await`, so that it is compared and joined in one go.
    Access is looked at again with each page: the hub does so only for those who have joined.
    """
    after = subscriber.position
    end = max(after, hub.last)
    allowed, page = await in_thread(partial(read_page, subscriber, after, end))
    hub.narrow(subscriber, allowed)
    for rendered in page:
        await write(rendered.frame(html=subscriber.wish.html))
    subscriber.position = page[-1].event.id if len(page) == PAGE else end
    if subscriber.position >= hub.last:
        hub.join(subscriber)


def read_page(
    subscriber: Subscriber, after: int, end: int
) -> tuple[Selection | None, list[Rendered]]:
    """What is allowed now, and the oldest events of it with `after` < id <= `end`."""
    allowed = renewed(subscriber.selection)
    if allowed is None:
        return None, []
    return allowed, render(allowed.find(after=after, before=end + 1, size=PAGE, newest_first=False))


def close_on_sigterm() -> None:
    """End the streams when the process is told to.

    A server may wait for open answers before it says that it is ending, so the signal itself is
    heard. Its own handler is called as before; so are those of the event loop, which hears of
    signals by another way.
    """
    loop = asyncio.get_running_loop()
    previous = signal.getsignal(signal.SIGTERM)
    if not callable(previous):
        return

    def handle(number: int, frame: Any) -> None:
        with suppress(RuntimeError):  # the loop has been closed already
            loop.call_soon_threadsafe(hub.close)
        previous(number, frame)

    signal.signal(signal.SIGTERM, handle)

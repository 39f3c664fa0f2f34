"""`GET /tail-events` as a Channels consumer: who may follow is asked once, then events are sent.

Django answers the request first, with all that it refuses. When its view lets the request in, the
stream runs outside Django, so that an idle one holds neither a thread nor a database connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeAlias

from channels.exceptions import StopConsumer
from channels.generic.http import AsyncHttpConsumer
from django.http.response import HttpResponseBase
from django.utils import timezone

from apps.events.bodies import bodies_for
from apps.events.frames import OPENING
from apps.events.hub import hub, in_thread
from apps.events.scopes import Selection
from apps.events.subscribers import Subscribed, Subscriber, render

Scope: TypeAlias = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

PAGE = 100
"""Events in one page of catching up."""
SEND_TIMEOUT = 10.0
"""Seconds that a client may leave a full connection unread; then its stream is closed."""

logger = logging.getLogger(__name__)


class Handler(Protocol):
    """Django's handler, as far as a consumer needs it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def ask(self, scope: Scope) -> HttpResponseBase:
        """The response to this request without its body, which is not sent."""
        ...

    async def send_response(self, response: HttpResponseBase, send: Send) -> None: ...


class EventStreamConsumer(AsyncHttpConsumer):
    """Answers one request for the live stream."""

    subscriber: Subscriber | None = None
    """Set while the stream is open."""

    def __init__(self, handler: Handler) -> None:
        super().__init__()
        self.handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":  # HEAD, and those that the view refuses
            await self.handler(scope, receive, send)
            return
        self.receive = receive
        await super().__call__(scope, receive, send)

    async def http_request(self, message: Mapping[str, Any]) -> None:
        """Send the refusal of the view, or events until the stream ends.

        All of it happens here: not every server says that a client has left after an answer.
        """
        try:
            if subscriber := await self.subscribe():
                await self.follow(subscriber)
        finally:
            if self.subscriber is not None:
                hub.leave(self.subscriber)
        raise StopConsumer

    async def subscribe(self) -> Subscriber | None:
        """Begin the answer. Returns a subscriber who has entered the hub; None after a refusal.

        Others may have taken the last connection since the view has looked: then it is asked again.
        The response goes when this returns, as it holds the whole request.
        """
        while True:
            seen = hub.state
            response = await self.handler.ask(self.scope)
            if not isinstance(response, Subscribed):
                await self.handler.send_response(response, self.send)
                return None
            subscriber = Subscriber(response)
            if hub.enter(subscriber, seen):
                self.subscriber = subscriber
                del response["Content-Length"]  # that of no body
                pairs = response.items()
                headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in pairs]
                await self.send_headers(headers=headers)
                return subscriber

    async def follow(self, subscriber: Subscriber) -> None:
        """Stream until the client leaves, its credential ends, or the hub closes the stream."""
        expires_at = subscriber.selection.principal.expires_at
        lifetime = None if expires_at is None else (expires_at - timezone.now()).total_seconds()
        tasks = [
            asyncio.create_task(self.send_events(subscriber)),
            asyncio.create_task(self.wait_for_disconnect()),
        ]
        try:
            await asyncio.wait(
                [*tasks, subscriber.over],
                timeout=lifetime,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for task in tasks:
                task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception) and not isinstance(outcome, TimeoutError | OSError):
                logger.error("A live stream failed", exc_info=outcome)
        with suppress(OSError):  # some servers say so when the client has gone
            await self.send_body(b"")

    async def wait_for_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def send_events(self, subscriber: Subscriber) -> None:
        """Send the opening, then what the log has after the client's last id, then new events."""
        write = partial(self.write, subscriber)
        await write(OPENING)
        while not subscriber.over.done():
            if subscriber in hub.joined:
                await write(await subscriber.take())
            else:
                await catch_up(subscriber, write)

    async def write(self, subscriber: Subscriber, data: bytes) -> None:
        """Send a piece of the body; the stream ends when the client does not take it in time."""
        timer = subscriber.loop.call_later(SEND_TIMEOUT, subscriber.end)
        try:
            await self.send_body(data, more_body=True)
        finally:
            timer.cancel()


async def catch_up(subscriber: Subscriber, write: Callable[[bytes], Awaitable[None]]) -> None:
    """Send a page of the log, and join the hub, when that was all, without a gap or a double.

    The hub's last id may move on during every `await`, so that it is compared and joined in one go.
    Access is looked at again with each page: the hub does so only for those who have joined.
    """
    after = subscriber.position
    end = max(after, hub.last)
    allowed, page = await in_thread(partial(read_page, subscriber, after, end))
    hub.narrow(subscriber, allowed)
    for _, data in page:
        await write(data)
    subscriber.position = page[-1][0] if len(page) == PAGE else end
    if subscriber.position >= hub.last:
        hub.join(subscriber)


def read_page(
    subscriber: Subscriber, after: int, end: int
) -> tuple[Selection | None, list[tuple[int, bytes]]]:
    """What is allowed now, and the ids and frames of the oldest events of it with `after` < id <=
    `end`.
    """
    allowed = subscriber.selection.renewed()
    if allowed is None:
        return None, []
    events = allowed.find(after=after, before=end + 1, size=PAGE, newest_first=False)
    who, html = allowed.principal, subscriber.html
    bodies = bodies_for(events, [who])[who] if html and events else {}
    return allowed, [
        (one.event.id, one.frame(html=html, written=bodies.get(one.event.id)))
        for one in render(events)
    ]

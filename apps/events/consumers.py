"""`GET /tail-events` as a Channels consumer.

The Django view checks the request first, and answers it with a refusal or an `EventStreamResponse`.
The stream then runs outside Django, so that an idle stream holds no thread and no database
connection.
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

from apps.core.request_ids import HEADER, CurrentRequest, current
from apps.events.frames import OPENING, bodies_for, frames_of
from apps.events.hub import EventStreamResponse, Subscriber, hub, in_thread
from apps.events.scopes import Selection

Scope: TypeAlias = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

PAGE = 100
"""Events in one page when a subscriber catches up."""
SEND_TIMEOUT = 10.0
"""Seconds to wait for a client that does not read its full connection before closing the stream."""

logger = logging.getLogger(__name__)


class Handler(Protocol):
    """The part of Django's handler that the consumer uses."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def ask(self, scope: Scope) -> HttpResponseBase:
        """The response to this request, without sending it."""
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
        if scope["method"] != "GET":  # HEAD, and methods that the view refuses
            await self.handler(scope, receive, send)
            return
        self.receive = receive
        await super().__call__(scope, receive, send)

    async def http_request(self, message: Mapping[str, Any]) -> None:
        """Send the refusal of the view, or events until the stream ends.

        All of this happens here, as not every server sends `http.disconnect` after a response.
        """
        try:
            if subscriber := await self.subscribe():
                await self.follow(subscriber)
        finally:
            if self.subscriber is not None:
                hub.leave(self.subscriber)
        raise StopConsumer

    async def subscribe(self) -> Subscriber | None:
        """Send the headers. Returns a subscriber that has entered the hub; None after a refusal.

        Asks the view again if another stream has taken the last connection in the meantime. The
        response is freed when this method returns, as it holds the whole request.
        """
        while True:
            state_before = hub.state
            response = await self.handler.ask(self.scope)
            current.set(CurrentRequest(response[HEADER]))
            if not isinstance(response, EventStreamResponse):
                await self.handler.send_response(response, self.send)
                return None
            subscriber = Subscriber(response)
            if hub.enter(subscriber, state_before):
                self.subscriber = subscriber
                del response["Content-Length"]  # Django has set it to 0
                pairs = response.items()
                headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in pairs]
                await self.send_headers(headers=headers)
                return subscriber

    async def follow(self, subscriber: Subscriber) -> None:
        """Stream until the client leaves, its credential expires, or the hub ends the stream."""
        expires_at = subscriber.selection.principal.expires_at
        lifetime = None if expires_at is None else (expires_at - timezone.now()).total_seconds()
        tasks = [
            asyncio.create_task(self.send_events(subscriber)),
            asyncio.create_task(self.wait_for_disconnect()),
        ]
        try:
            await asyncio.wait(
                [*tasks, subscriber.ended],
                timeout=lifetime,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for task in tasks:
                task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception) and not isinstance(outcome, TimeoutError | OSError):
                logger.error("A live stream failed", exc_info=outcome)
        with suppress(OSError):  # some servers raise it when the client has gone
            await self.send_body(b"")

    async def wait_for_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def send_events(self, subscriber: Subscriber) -> None:
        """Send the opening, then the events after the client's last id, then new events."""
        write = partial(self.write, subscriber)
        await write(OPENING)
        while not subscriber.ended.done():
            if subscriber in hub.joined:
                await write(await subscriber.take())
            else:
                await catch_up(subscriber, write)

    async def write(self, subscriber: Subscriber, data: bytes) -> None:
        """Send a piece of the body; end the stream if the client does not take it in time."""
        timer = subscriber.loop.call_later(SEND_TIMEOUT, subscriber.end)
        try:
            await self.send_body(data, more_body=True)
        finally:
            timer.cancel()


async def catch_up(subscriber: Subscriber, write: Callable[[bytes], Awaitable[None]]) -> None:
    """Send a page of the log, and join the hub if it was the last page.

    `hub.last` may change during every `await`. No `await` stands between the comparison and the
    join, so that no event is missing or sent twice. Each page checks access again, as the hub
    checks only the subscribers that have joined.
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
    """The selection that is allowed now, and the ids and frames of its oldest events with `after` <
    id <= `end`.
    """
    allowed = subscriber.selection.renewed()
    if allowed is None:
        return None, []
    events = allowed.page(after=after, before=end + 1, size=PAGE, newest_first=False)
    principal, html = allowed.principal, subscriber.html
    bodies = bodies_for(events, [principal])[principal] if html and events else {}
    return allowed, [
        (frames.event.id, frames.frame(html=html, body=bodies.get(frames.event.id)))
        for frames in frames_of(events)
    ]

"""Who follows the live stream: what they asked for, what waits to be sent to them, and how many
streams each of them has. The hub (`hub.py`) does the reading.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from apps.core import json
from apps.core.errors import TooMany, unavailable
from apps.core.views import site_url
from apps.events.bodies import Written
from apps.events.frames import HEARTBEAT, frame
from apps.events.kinds import Kind
from apps.events.models import PINGED, EventRow, Key
from apps.events.scopes import Selection
from apps.events.sentences import sentence
from apps.events.serializers import event_records

HEARTBEAT_AFTER = 20.0
"""Seconds of silence after which a stream says that it lives."""
QUEUE_LIMIT = 1024 * 1024
"""Bytes that may wait for one subscriber; more, and it has to read the log by itself."""
PIECE = 64 * 1024
"""Bytes that are sent in one go where more wait, so that a slow reader is noticed."""
STREAMS_PER_USER = 20
RETRY_AFTER = 5
"""Seconds after which somebody with too many may try again: some may have ended by then."""
ABOUT_A_PERSON = ("member-", "token-", "user-")
ABOUT_A_RESOURCE = {Kind.REPO_UPDATED, Kind.TEAM_UPDATED}
"""The kinds of events by which somebody can lose access."""


class Subscribed(HttpResponse):
    """The view's answer to a request that may follow events: the stream begins with its headers.

    The sender may see all of `selection`, and wants events with larger ids than `after`. `newest`
    is the newest id when the view accepted the request.
    """

    def __init__(
        self, selection: Selection, *, html: bool, after: int, newest: int, headers: dict[str, str]
    ) -> None:
        super().__init__(content_type="text/event-stream", headers=headers)
        self.selection, self.html, self.after, self.newest = selection, html, after, newest


def can_end_access(event: EventRow) -> bool:
    """Whether somebody's access has to be looked at again after it."""
    return event.kind.startswith(ABOUT_A_PERSON) or event.kind in ABOUT_A_RESOURCE


class Rendered:
    """An event and its frames, each made once, and only when somebody wants it."""

    def __init__(self, event: EventRow, record: dict[str, Any], pinged: Iterable[int] = ()) -> None:
        self.event = event
        self.record = record
        self.keys = frozenset([*event.keys(), *(Key(PINGED, person) for person in pinged)])
        self._html: dict[str | None, bytes] = {}

    def frame(self, *, html: bool, written: Written | None = None) -> bytes:
        """`written`: for HTML alone."""
        return self.html(written or Written()) if html else self.json

    @cached_property
    def json(self) -> bytes:
        return frame(self.event.id, self.event.kind, json.dumps(self.record))

    def html(self, written: Written) -> bytes:
        """Made once for all who see the same links in the body."""
        if written.html not in self._html:
            text = render_to_string("events/event.html", self._seen(written))
            self._html[written.html] = frame(self.event.id, self.event.kind, text.strip().encode())
        return self._html[written.html]

    def _seen(self, written: Written) -> dict[str, Any]:
        """What the template shows. Nothing in it depends on who looks but the links of the body."""
        body = None if written.html is None else SafeString(written.html)
        path, base = self.record["repo_path"], site_url()
        return {
            "event": self.record,
            "words": sentence(self.record, base),
            "base": base,
            "number": self.event.number,
            "body": body,
            "thread": {"web_url": f"/{path}/threads/{self.event.number}"},
            "reply": written.reply and {**written.reply, "body_html": body},
        }


def render(
    events: Sequence[EventRow], pinged: Mapping[int, Iterable[int]] | None = None
) -> list[Rendered]:
    """These events ready for frames. Their URLs begin with the site's address, whoever asks.

    `pinged` has the ids of the people whom an event pinged, by its id.
    """
    records = event_records(events, site_url())
    return [
        Rendered(event, record, (pinged or {}).get(event.id, ()))
        for event, record in zip(events, records, strict=True)
    ]


class Subscriber:
    """One open stream: what it may follow, how far it is, and what waits to be sent."""

    def __init__(self, asked: Subscribed) -> None:
        self.selection, self.html, self.newest = asked.selection, asked.html, asked.newest
        self.user_id = self.selection.principal.user.pk
        self.position = asked.after
        """Everything up to this id has been taken for sending, or was not wanted."""
        self.loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self.loop.create_future()
        self._silent = False
        self._waiting: deque[tuple[int, bytes]] = deque()
        """The ids of events, and their frames."""
        self._size = 0
        self._ready = asyncio.Event()

    def end(self) -> None:
        """Let the stream close."""
        if not self.over.done():
            self.over.set_result(None)

    def put(self, rendered: Rendered, written: Written | None = None) -> bool:
        """Queue an event. False when too much waits: then all is thrown away instead."""
        data = rendered.frame(html=self.html, written=written)
        self._waiting.append((rendered.event.id, data))
        self._size += len(data)
        self._ready.set()
        if self._size > QUEUE_LIMIT:
            self._waiting.clear()
            self._size = 0
        return bool(self._waiting)

    async def take(self) -> bytes:
        """A piece of what waits, as soon as something does; a heartbeat when nothing comes."""
        # Timers of the loop's own: `asyncio.timeout` takes longer than all the rest of this.
        timer = self.loop.call_later(HEARTBEAT_AFTER, self._beat)
        try:
            await self._ready.wait()
        finally:
            timer.cancel()
        silent, self._silent = self._silent, False
        taken: list[bytes] = []
        while self._waiting and sum(map(len, taken)) < PIECE:
            self.position, data = self._waiting.popleft()
            taken.append(data)
        piece = b"".join(taken)
        self._size -= len(piece)
        if not self._waiting:
            self._ready.clear()
        return piece or (HEARTBEAT if silent else b"")

    def _beat(self) -> None:
        self._silent = not self._waiting
        self._ready.set()

    def wants(self, event: EventRow) -> bool:
        kinds = self.selection.kinds
        return event.id > self.position and (not kinds or event.kind in kinds)

    def may_lose_by(self, event: EventRow) -> bool:
        """Whether this event, one of `can_end_access`, may have ended access of this subscriber."""
        user = self.selection.principal.user
        if event.kind.startswith(ABOUT_A_PERSON):
            return event.private_to == user.pk or event.target.get("username") == user.username
        keys = [one.key for one in self.selection.event_scopes]
        if event.kind == Kind.TEAM_UPDATED:
            return any(key.column in {"repo_id", "thread_id"} for key in keys)
        own = Key("repo_id", event.repo_id or 0)
        return any(key == own or key.column == "thread_id" for key in keys)


class ConnectionLimit:
    """How many streams each user has open in this process.

    Views ask in their threads; only the event loop counts, so that nothing has to be locked.
    """

    def __init__(self) -> None:
        self.closed = False
        """Set while the process ends."""
        self._open: Counter[int] = Counter()

    def check(self, user_id: int) -> None:
        """429 `too_many_streams` for a user who has as many as allowed, 503 when closed."""
        if self.closed:
            raise unavailable()
        if self._open[user_id] >= STREAMS_PER_USER:
            text = f"You have {STREAMS_PER_USER} streams open. Close one."
            raise TooMany("too_many_streams", text, headers={"Retry-After": str(RETRY_AFTER)})

    def take(self, user_id: int) -> bool:
        """Count one more; False, and nothing counted, where `check` would refuse."""
        if self.closed or self._open[user_id] >= STREAMS_PER_USER:
            return False
        self._open[user_id] += 1
        return True

    def release(self, user_id: int) -> None:
        """Count one less."""
        self._open[user_id] -= 1
        if not self._open[user_id]:
            del self._open[user_id]

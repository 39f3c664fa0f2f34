"""The live stream: subscribers, and the hub that reads the log once for all of them.

The hub lives in the event loop of the process and knows nothing of HTTP. It sends each new event to
the subscribers that have joined it. A subscriber that is new or slow reads the log by itself until
it has caught up (`catch_up` in `consumers.py`), and joins then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.http import HttpResponse

from apps.core.access import Principal
from apps.core.errors import TooMany, unavailable
from apps.core.threads import DaemonExecutor
from apps.core.workers import workers
from apps.events import wake
from apps.events.frames import HEARTBEAT, Bodies, EventBody, EventFrames, bodies_for, frames_of
from apps.events.kinds import Kind
from apps.events.models import Event, EventRow, Key, Ping, gone_repos
from apps.events.scopes import Selection

HEARTBEAT_AFTER = 20.0
"""Seconds of silence after which a stream sends a heartbeat."""
QUEUE_LIMIT = 1024 * 1024
"""Bytes that may be queued for one subscriber. Beyond, it has to catch up from the log."""
PIECE = 64 * 1024
"""Maximum bytes of queued events that are sent at once, to notice a slow reader."""
STREAMS_PER_USER = 20
RETRY_AFTER = 5
"""Seconds in the Retry-After header of `too_many_streams`."""
READERS = DaemonExecutor("stream", 6)
"""The threads that read for all streams. More clients that catch up have to wait."""
READ_SIZE = 200
"""Maximum number of events in one reading of the log."""
POLL_SECONDS = 1.0
"""Seconds between two readings of the log without a wake-up."""
CHECK_SECONDS = 60.0
"""Seconds between two checks of all subscribers' access."""
CLOSES_PER_SECOND = 2000
"""Rate at which a stopping server closes streams, so that not all clients reconnect at once."""
PERSON_KINDS = ("member-", "token-", "user-")
DELETIONS = {Kind.REPO_DELETED, Kind.TEAM_DELETED, Kind.USER_DELETED}
RESOURCE_KINDS = {Kind.REPO_UPDATED, Kind.TEAM_UPDATED, *DELETIONS}
"""The kinds of events that can end somebody's access."""

Result = TypeVar("Result")
logger = logging.getLogger(__name__)


class EventStreamResponse(HttpResponse):
    """The view's response to a request that may follow events. The consumer sends its headers and
    then streams events.

    The caller may read all of `selection`, and gets events with larger ids than `after`. `newest`
    is the newest id at the time when the view accepted the request.
    """

    def __init__(
        self, selection: Selection, *, html: bool, after: int, newest: int, headers: dict[str, str]
    ) -> None:
        super().__init__(content_type="text/event-stream", headers=headers)
        self.selection, self.html, self.after, self.newest = selection, html, after, newest


def can_end_access(event: EventRow) -> bool:
    """Whether access has to be checked again after this event."""
    return event.kind.startswith(PERSON_KINDS) or event.kind in RESOURCE_KINDS


class Subscriber:
    """One open stream: its selection, its position in the log, and its queue."""

    def __init__(self, response: EventStreamResponse) -> None:
        self.selection, self.html = response.selection, response.html
        self.newest = response.newest
        self.user_id = self.selection.principal.user.pk
        self.position = response.after
        """The subscriber needs no event up to this id any more."""
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self.loop.create_future()
        self._is_silent = False
        self._queue: deque[tuple[int, bytes]] = deque()
        """The ids of events, and their frames."""
        self._size = 0
        """Bytes in the queue."""
        self._ready = asyncio.Event()

    def end(self) -> None:
        """Close the stream."""
        if not self.ended.done():
            self.ended.set_result(None)

    def put(self, frames: EventFrames, body: EventBody | None = None) -> bool:
        """Queue an event. False if the queue exceeds its limit; then it is emptied."""
        data = frames.frame(html=self.html, body=body)
        self._queue.append((frames.event.id, data))
        self._size += len(data)
        self._ready.set()
        if self._size > QUEUE_LIMIT:
            self._queue.clear()
            self._size = 0
        return bool(self._queue)

    async def take(self) -> bytes:
        """Wait for events, and take a piece of the queue; a heartbeat if no event comes."""
        # A timer of the loop, as `asyncio.timeout` takes longer than the rest of this method.
        timer = self.loop.call_later(HEARTBEAT_AFTER, self._beat)
        try:
            await self._ready.wait()
        finally:
            timer.cancel()
        is_silent, self._is_silent = self._is_silent, False
        frames: list[bytes] = []
        while self._queue and sum(map(len, frames)) < PIECE:
            self.position, data = self._queue.popleft()
            frames.append(data)
        piece = b"".join(frames)
        self._size -= len(piece)
        if not self._queue:
            self._ready.clear()
        return piece or (HEARTBEAT if is_silent else b"")

    def _beat(self) -> None:
        self._is_silent = not self._queue
        self._ready.set()

    def wants(self, event: EventRow) -> bool:
        """Whether the event is new to this subscriber and of a selected kind."""
        kinds = self.selection.kinds
        return event.id > self.position and (not kinds or event.kind in kinds)

    def may_lose_access_by(self, event: EventRow) -> bool:
        """Whether an event that `can_end_access` may have ended access of this subscriber."""
        if event.kind in DELETIONS:
            return True
        user = self.selection.principal.user
        if event.kind.startswith(PERSON_KINDS):
            return event.private_to == user.pk or event.target.get("username") == user.username
        keys = [event_scope.key for event_scope in self.selection.event_scopes]
        if event.kind == Kind.TEAM_UPDATED:
            return any(key.column in {"repo_id", "thread_id"} for key in keys)
        repo = Key("repo_id", event.repo_id or 0)
        return any(key == repo or key.column == "thread_id" for key in keys)


class ConnectionLimit:
    """Limits the streams that each user has open on this server.

    Views call `check` in their threads. Only the event loop changes the counts of its process, so
    that no lock is needed.
    """

    def __init__(self) -> None:
        self.closed = False
        """Set when the process stops."""

    def check(self, user_id: int) -> None:
        """429 `too_many_streams` for a user at the limit, 503 when closed."""
        if self.closed:
            raise unavailable()
        if workers.streams.count(user_id) >= STREAMS_PER_USER:
            text = f"You have {STREAMS_PER_USER} streams open. Close one."
            raise TooMany("too_many_streams", text, headers={"Retry-After": str(RETRY_AFTER)})

    def take(self, user_id: int) -> bool:
        """Count one more stream. False, without counting, if `check` would refuse."""
        if self.closed:
            return False
        # Counted first: another process may do the same at this moment.
        workers.streams.add(workers.place, user_id)
        if workers.streams.count(user_id) > STREAMS_PER_USER:
            workers.streams.remove(workers.place, user_id)
            return False
        return True

    def release(self, user_id: int) -> None:
        """Count one stream less."""
        workers.streams.remove(workers.place, user_id)


async def in_thread(work: Callable[[], Result]) -> Result:
    """Run database work in one of the `READERS`, and return its connection at once."""

    def run() -> Result:
        try:
            return work()
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(READERS, run)


class Hub:
    """Reads the log while there are subscribers. Only the event loop may call its methods."""

    def __init__(self) -> None:
        self.connections = ConnectionLimit()
        self._last = 0
        self.present: set[Subscriber] = set()
        self.joined: set[Subscriber] = set()
        self._by_key: defaultdict[Key, set[Subscriber]] = defaultdict(set)
        self._unchecked: set[int] = set()
        """The ids of people whose access a wake-up asks to check."""
        self._checks = 0
        """The number of these wake-ups so far."""
        self._task: asyncio.Task[None] | None = None

    @property
    def last(self) -> int:
        """The id of the last event that was read for the joined subscribers."""
        return self._last

    @last.setter
    def last(self, event_id: int) -> None:
        self._last = workers.hubs[workers.place] = event_id

    @property
    def state(self) -> tuple[int, int]:
        """Changes with every event that is read, and with every wake-up that asks for a check."""
        return self.last, self._checks

    def enter(self, subscriber: Subscriber, state_before: tuple[int, int]) -> bool:
        """Add a stream; False if its user has too many, or the process stops.

        `state_before`: the state from before its access was checked. If it is unchanged, and the
        subscriber misses no event, the subscriber joins at once. The first subscriber starts the
        reading.
        """
        if not self.connections.take(subscriber.user_id):
            return False
        self.present.add(subscriber)
        if self._task is None:
            self.last = subscriber.newest
            self._task = asyncio.create_task(self._run(), name="hub")
        elif self.state == state_before and self.last <= subscriber.position:
            self.join(subscriber)
        return True

    def join(self, subscriber: Subscriber) -> None:
        """Send new events to this subscriber, whose position has reached `last`."""
        self.joined.add(subscriber)
        for event_scope in subscriber.selection.event_scopes:
            self._by_key[event_scope.key].add(subscriber)

    def leave(self, subscriber: Subscriber) -> None:
        """Remove a stream that has entered."""
        self.present.discard(subscriber)
        self._unjoin(subscriber)
        self.connections.release(subscriber.user_id)

    def narrow(self, subscriber: Subscriber, allowed: Selection | None) -> None:
        """Remove the event scopes that are no longer allowed; end a stream without any left.

        An open stream never gets an event scope back.
        """
        if allowed is None:
            self._unjoin(subscriber)  # at once, as it takes a moment until the stream has ended
            subscriber.end()
            return
        before = subscriber.selection.event_scopes
        after = tuple(scope for scope in before if scope in allowed.event_scopes)
        if not after:
            subscriber.end()
        for event_scope in before:
            if event_scope not in after:
                self._remove_key(subscriber, event_scope.key)
        subscriber.selection = replace(
            subscriber.selection, principal=allowed.principal, event_scopes=after
        )

    def close(self) -> None:
        """Accept no stream any more, and end the open streams one after the other."""
        self.connections.closed = True
        loop = asyncio.get_running_loop()
        for number, subscriber in enumerate(self.present):
            loop.call_later(number / CLOSES_PER_SECOND, subscriber.end)

    def _unjoin(self, subscriber: Subscriber) -> None:
        """Send nothing more to this subscriber, unless it joins again."""
        self.joined.discard(subscriber)
        for event_scope in subscriber.selection.event_scopes:
            self._remove_key(subscriber, event_scope.key)

    def _remove_key(self, subscriber: Subscriber, key: Key) -> None:
        subscribers = self._by_key.get(key, set())
        subscribers.discard(subscriber)
        if not subscribers:
            self._by_key.pop(key, None)

    async def _run(self) -> None:
        """Read at each wake-up, and every second without one, until no subscriber is left."""
        woken = asyncio.Event()
        try:
            async with wake.watching(partial(self._wake, woken)):
                await self._follow(woken)
                self._task = None  # from here on, a new subscriber starts another task
                workers.hubs[workers.place] = 0
        except Exception:
            logger.exception("The hub of the live stream failed; its streams are closed")
        finally:
            if self._task is asyncio.current_task():
                self._task, workers.hubs[workers.place] = None, 0
                for subscriber in self.present:
                    subscriber.end()

    def _wake(self, woken: asyncio.Event, person: int | None) -> None:
        if person is not None:
            self._unchecked.add(person)
            self._checks += 1
        woken.set()

    async def _follow(self, woken: asyncio.Event) -> None:
        checked = time.monotonic()
        while self.present:
            try:
                await self._check_people()
                await self._read()
                if time.monotonic() - checked >= CHECK_SECONDS:
                    checked = time.monotonic()
                    await self._check_access(self.joined)
            except DatabaseError as error:
                logger.warning("The live stream cannot read the log: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await woken.wait()
            woken.clear()

    async def _read(self) -> None:
        """Read and send all new events."""
        size = READ_SIZE
        while size == READ_SIZE:
            sent = self.last
            batch = await in_thread(partial(read_after, sent))
            size = len(batch)
            if not batch:
                return
            # A subscriber that joins from here on has read this batch itself: see its position.
            self.last = batch[-1].event.id
            try:
                visible, bodies = await self._visible(batch), await self._bodies(batch)
                for frames in batch:
                    await self._send(frames, visible, bodies)
                    sent = frames.event.id
            except DatabaseError:
                self.last = sent  # the next reading begins with the event that failed
                raise

    async def _send(
        self,
        frames: EventFrames,
        visible: dict[Principal, set[int]],
        bodies: Mapping[Principal, Bodies],
    ) -> None:
        """Queue an event for all who follow it and may still read it after it has happened."""
        event = frames.event
        if can_end_access(event):
            await self._check_access(
                [subscriber for subscriber in self.joined if subscriber.may_lose_access_by(event)]
            )
        for subscriber in self._audience(frames, visible):
            bodies_of_reader = bodies.get(subscriber.selection.principal, {})
            if not subscriber.put(frames, bodies_of_reader.get(event.id)):
                self._unjoin(subscriber)

    async def _check_people(self) -> None:
        """Check the access of the people that wake-ups named, also while they catch up."""
        people = set(self._unchecked)
        await self._check_access(
            [subscriber for subscriber in self.present if subscriber.user_id in people]
        )
        self._unchecked -= people

    async def _check_access(self, subscribers: Iterable[Subscriber]) -> None:
        """Check the access of these subscribers again, once for each distinct selection."""
        before = [(subscriber, subscriber.selection) for subscriber in subscribers]
        selections = {selection for _, selection in before}
        if not selections:
            return
        renewed = await in_thread(
            lambda: {selection: selection.renewed() for selection in selections}
        )
        for subscriber, selection in before:
            self.narrow(subscriber, renewed[selection])

    async def _visible(self, batch: Sequence[EventFrames]) -> dict[Principal, set[int]]:
        """The ids of these events that each follower of a personal key may read; one query for
        each follower.
        """
        ids: defaultdict[Principal, set[int]] = defaultdict(set)
        for frames in batch:
            for key in frames.keys:
                for subscriber in self._by_key.get(key, ()) if key.is_personal else ():
                    ids[subscriber.selection.principal].add(frames.event.id)
        return await in_thread(partial(visible_ids, ids)) if ids else {}

    async def _bodies(self, batch: Sequence[EventFrames]) -> Mapping[Principal, Bodies]:
        """The bodies of these events, for the subscribers that follow one of them as HTML."""
        events, readers = list[EventRow](), set[Principal]()
        for frames in batch:
            principals = {
                subscriber.selection.principal
                for key in frames.keys
                for subscriber in self._by_key.get(key, ())
                if subscriber.html and subscriber.wants(frames.event)
            }
            if principals:
                events.append(frames.event)
                readers |= principals
        return await in_thread(partial(bodies_for, events, readers, renew=True)) if readers else {}

    def _audience(self, frames: EventFrames, visible: dict[Principal, set[int]]) -> set[Subscriber]:
        """The subscribers that get this event, each once even if several event scopes match."""
        event = frames.event
        audience = set()
        for key in frames.keys:
            for subscriber in self._by_key.get(key, ()):
                principal = subscriber.selection.principal
                if subscriber.wants(event) and (
                    not key.is_personal or event.id in visible.get(principal, ())
                ):
                    audience.add(subscriber)
        return audience


def read_after(last: int) -> list[EventFrames]:
    """The next events of the log, at most `READ_SIZE`, except those of deleted repositories: a
    change that was under way during the deletion may have recorded one after it.
    """
    rows = Event.objects.filter(id__gt=last).exclude(repo_id__in=gone_repos())
    events = rows.order_by("id")[:READ_SIZE].rows()
    return frames_of(events, Ping.objects.all().people_of([event.id for event in events]))


def visible_ids(ids: dict[Principal, set[int]]) -> dict[Principal, set[int]]:
    """The ids among these that each principal may read now.

    Reads the principals again first, as one of the events may have reduced what they may read.
    """
    visible = {}
    for principal, ids_of_principal in ids.items():
        now = principal.renewed()
        events = Event.objects.none() if now is None else Event.objects.visible_to(now)
        events = events.filter(pk__in=ids_of_principal)
        visible[principal] = set(events.values_list("pk", flat=True))
    return visible


hub = Hub()

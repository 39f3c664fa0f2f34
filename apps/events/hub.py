"""The hub of the live stream: reads the log once for all subscribers of this process.

It lives in the event loop of the process and knows nothing of HTTP. What it reads goes to those who
have joined it; whoever is new or has fallen behind reads the log by itself until it has caught up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from django.db import Error as DatabaseError
from django.db import close_old_connections

from apps.core.access import Principal
from apps.core.threads import DaemonExecutor
from apps.events import wake
from apps.events.bodies import Bodies, bodies_for
from apps.events.models import Event, EventRow, Key, Ping
from apps.events.scopes import Selection
from apps.events.subscribers import (
    ConnectionLimit,
    Rendered,
    Subscriber,
    can_end_access,
    render,
)

READERS = DaemonExecutor("stream", 6)
"""The threads that read for all streams: so many clients catch up at a time, more wait."""
READ_SIZE = 200
"""Events in one reading of the log."""
LOOK_EVERY = 1.0
"""Seconds between two looks at the log when no wake-up comes."""
CHECK_EVERY = 60.0
"""Seconds between two looks at everybody's access."""
CLOSES_PER_SECOND = 2000
"""How fast streams are closed at the end, so that their clients do not all return at once."""

Result = TypeVar("Result")
logger = logging.getLogger(__name__)


async def in_thread(work: Callable[[], Result]) -> Result:
    """Do database work beside the loop, and give its connection back at once."""

    def run() -> Result:
        try:
            return work()
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(READERS, run)


class Hub:
    """Reads while there are subscribers. Only the event loop may call its methods."""

    def __init__(self, check_every: float = CHECK_EVERY) -> None:
        self.connections = ConnectionLimit()
        self.last = 0
        """Every event up to here has been read, for those who had joined by then."""
        self.present: set[Subscriber] = set()
        self.joined: set[Subscriber] = set()
        self._by_key: defaultdict[Key, set[Subscriber]] = defaultdict(set)
        self._unchecked: set[int] = set()
        """The ids of people whose streams have to be checked, because of a wake-up."""
        self._checks = 0
        """How many wake-ups have asked for that."""
        self._task: asyncio.Task[None] | None = None
        self.check_every = check_every

    @property
    def state(self) -> tuple[int, int]:
        """Changes with every event that is read, and when somebody's access has to be checked."""
        return self.last, self._checks

    def enter(self, subscriber: Subscriber, seen: tuple[int, int]) -> bool:
        """Let a stream begin; False when its user has no connection left, or the process ends.

        It joins when it has caught up: at once where the state is still `seen`, that from before
        its access was looked at. The first subscriber starts the reading.
        """
        if not self.connections.take(subscriber.user_id):
            return False
        self.present.add(subscriber)
        if self._task is None:
            self.last = subscriber.newest
            self._task = asyncio.create_task(self._run(), name="hub")
        elif self.state == seen and self.last <= subscriber.position:
            self.join(subscriber)
        return True

    def join(self, subscriber: Subscriber) -> None:
        """From here on it gets every event after its position, which is at or past `last`."""
        self.joined.add(subscriber)
        for event_scope in subscriber.selection.event_scopes:
            self._by_key[event_scope.key].add(subscriber)

    def leave(self, subscriber: Subscriber) -> None:
        """Remove a stream that has entered."""
        self.present.discard(subscriber)
        self._part(subscriber)
        self.connections.release(subscriber.user_id)

    def narrow(self, subscriber: Subscriber, allowed: Selection | None) -> None:
        """Take away what is no longer allowed, and end a stream of which nothing is left. Nothing
        is ever given back to an open stream.
        """
        if allowed is None:
            self._part(subscriber)  # its end takes a moment, in which more may be handed out
            subscriber.end()
            return
        kept = [one for one in subscriber.selection.event_scopes if one in allowed.event_scopes]
        if not kept:
            subscriber.end()
        for event_scope in subscriber.selection.event_scopes:
            if event_scope not in kept:
                self._drop(subscriber, event_scope.key)
        subscriber.selection = replace(
            subscriber.selection, principal=allowed.principal, event_scopes=tuple(kept)
        )

    def close(self) -> None:
        """Admit nobody any more and end the streams, one after the other."""
        self.connections.closed = True
        loop = asyncio.get_running_loop()
        for number, subscriber in enumerate(self.present):
            loop.call_later(number / CLOSES_PER_SECOND, subscriber.end)

    def _part(self, subscriber: Subscriber) -> None:
        """It gets nothing more, unless it joins again."""
        self.joined.discard(subscriber)
        for event_scope in subscriber.selection.event_scopes:
            self._drop(subscriber, event_scope.key)

    def _drop(self, subscriber: Subscriber, key: Key) -> None:
        followers = self._by_key.get(key, set())
        followers.discard(subscriber)
        if not followers:
            self._by_key.pop(key, None)

    async def _run(self) -> None:
        """Read at each wake-up, and every second without one, until no subscriber is left."""
        woken = asyncio.Event()
        try:
            async with wake.watching(partial(self._wake, woken)):
                await self._follow(woken)
                self._task = None  # a newcomer starts another one from here on
        except Exception:
            logger.exception("The hub of the live stream failed; its streams are closed")
        finally:
            if self._task is asyncio.current_task():
                self._task = None
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
                if time.monotonic() - checked >= self.check_every:
                    checked = time.monotonic()
                    await self._check(self.joined)
            except DatabaseError as error:
                logger.warning("The live stream cannot read the log: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await woken.wait()
            woken.clear()

    async def _read(self) -> None:
        """Hand out everything that is new."""
        size = READ_SIZE
        while size == READ_SIZE:
            done = self.last
            batch = await in_thread(partial(read_after, done))
            size = len(batch)
            if not batch:
                return
            # Who joins from here on has read this batch by itself; its position says so.
            self.last = batch[-1].event.id
            try:
                visible, bodies = await self._visible(batch), await self._bodies(batch)
                for rendered in batch:
                    await self._hand_out(rendered, visible, bodies)
                    done = rendered.event.id
            except DatabaseError:
                self.last = done  # the rest is read again
                raise

    async def _hand_out(
        self,
        rendered: Rendered,
        visible: dict[Principal, set[int]],
        bodies: Mapping[Principal, Bodies],
    ) -> None:
        """Queue an event for all who ask for it and may still read it now that it has happened."""
        event = rendered.event
        if can_end_access(event):
            await self._check([one for one in self.joined if one.may_lose_by(event)])
        for subscriber in self._audience(rendered, visible):
            seen = bodies.get(subscriber.selection.principal, {})
            if not subscriber.put(rendered, seen.get(event.id)):
                self._part(subscriber)

    async def _check_people(self) -> None:
        """Check the streams of those for whom a wake-up has asked, also while they catch up."""
        people = set(self._unchecked)
        await self._check([one for one in self.present if one.user_id in people])
        self._unchecked -= people

    async def _check(self, subscribers: Iterable[Subscriber]) -> None:
        """Check the access of these again, once for all with the same selection."""
        asked = [(one, one.selection) for one in subscribers]
        questions = {question for _, question in asked}
        if not questions:
            return
        answers = await in_thread(lambda: {question: question.renewed() for question in questions})
        for subscriber, question in asked:
            self.narrow(subscriber, answers[question])

    async def _visible(self, batch: Sequence[Rendered]) -> dict[Principal, set[int]]:
        """Which of these events the followers of a person, or of their own inbox, may read; one
        query for each follower.
        """
        wanted: defaultdict[Principal, set[int]] = defaultdict(set)
        for rendered in batch:
            for key in rendered.keys:
                for subscriber in self._by_key.get(key, ()) if key.is_somebodys else ():
                    wanted[subscriber.selection.principal].add(rendered.event.id)
        return await in_thread(partial(visible_ids, wanted)) if wanted else {}

    async def _bodies(self, batch: Sequence[Rendered]) -> Mapping[Principal, Bodies]:
        """What these events tell of what was written, for those who follow one of them as HTML."""
        events, readers = list[EventRow](), set[Principal]()
        for rendered in batch:
            followers = {one for key in rendered.keys for one in self._by_key.get(key, ())}
            wanted = [one for one in followers if one.html and one.wants(rendered.event)]
            if wanted:
                events.append(rendered.event)
                readers.update(one.selection.principal for one in wanted)
        return await in_thread(partial(bodies_for, events, readers, anew=True)) if readers else {}

    def _audience(self, rendered: Rendered, visible: dict[Principal, set[int]]) -> set[Subscriber]:
        """Who gets this event, each once however many of its event scopes match."""
        event = rendered.event
        found = set()
        for key in rendered.keys:
            for subscriber in self._by_key.get(key, ()):
                principal = subscriber.selection.principal
                if subscriber.wants(event) and (
                    not key.is_somebodys or event.id in visible.get(principal, ())
                ):
                    found.add(subscriber)
        return found


def read_after(last: int) -> list[Rendered]:
    events = Event.objects.filter(id__gt=last).order_by("id")[:READ_SIZE].rows()
    return render(events, Ping.objects.all().people_of([event.id for event in events]))


def visible_ids(wanted: dict[Principal, set[int]]) -> dict[Principal, set[int]]:
    """Which of these each of them may read now: they are read anew, because one of the events may
    have made somebody less than they were.
    """
    found = {}
    for principal, ids in wanted.items():
        now = principal.renewed()
        visible = Event.objects.none() if now is None else Event.objects.visible_to(now)
        found[principal] = set(visible.filter(pk__in=ids).values_list("pk", flat=True))
    return found


hub = Hub()

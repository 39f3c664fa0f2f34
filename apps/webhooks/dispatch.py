"""The dispatcher: an event loop in a thread of the worker that sends events to webhooks.

It follows the log like the hub of the live stream, and asks the database only about webhooks that a
new event concerns, that are due again, or that a dead worker has left. Several may run at once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import TypeAlias, TypeVar

from django.db import DatabaseError, close_old_connections

from apps.core import metrics
from apps.core.threads import DaemonExecutor
from apps.events import wake
from apps.events.models import Event
from apps.webhooks import events, queue
from apps.webhooks.queue import Admission, Sent, Step
from apps.webhooks.sending import DEADLINE, Sender

LOOK_SECONDS = 2.0
"""Seconds between two looks for webhooks that are due again."""
SWEEP_SECONDS = 60.0
"""Seconds between two looks at all webhooks, for events that a worker has read before it died."""
GAP_SECONDS = 0.1
"""Least time between two readings of the log, which then has several new events."""
PLACES = 400
"""Webhooks that one worker sends to at once."""
RECOVERING = 200
"""How many of these may recover from failures. They may take the whole deadline each."""
TURN = 5.0
"""Seconds after which a webhook gives its place to one that waits. Its receiver may be slow."""
CLAIMS = 50
"""Maximum number of webhooks that are looked at together."""
BATCH_SIZE = 50
"""Maximum number of outcomes that are stored together."""
RECOVERING_PAUSE = 0.1
"""Seconds between two events for a webhook that catches up after failures."""
DATABASE = DaemonExecutor("webhook-database", 2)
"""The threads for all database work of the dispatcher."""
NAME = "webhooks"
"""The name of the dispatcher's thread."""

Result = TypeVar("Result")
Stored: TypeAlias = tuple[Sent, "asyncio.Future[Step | None]"]
"""An outcome, and the next step, which is set when it is stored."""
logger = logging.getLogger(__name__)


async def in_thread(work: Callable[[], Result]) -> Result:
    """Run database work in one of the threads, and return its connection at once."""

    def run() -> Result:
        try:
            return work()
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(DATABASE, run)


class Dispatcher:
    """Sends events until `stop` is called. Only its event loop changes its attributes."""

    def __init__(self) -> None:
        self.waiting: dict[int, None] = {}
        """Webhooks that may have an event to send, those first that have waited longest."""
        self.running: dict[int, asyncio.Task[None]] = {}
        """Webhooks whose lease this dispatcher holds."""
        self.hosts: dict[int, str] = {}
        """The hosts of those among them that recover from failures."""
        self.again: set[int] = set()
        """Webhooks that an event has concerned while they were running."""
        self.skipped: Counter[int] = Counter()
        """Events that webhooks have not sent, by webhook."""
        self.outcomes: list[Stored] = []
        """Outcomes that are not stored yet."""
        self.settling: asyncio.Task[None] | None = None
        """Stores them."""
        self.last: int | None = None
        """The id of the last event that was read. Webhooks with earlier ones are found by a sweep.
        """
        self.is_stopping = False
        self.woken = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.looked = self.swept = float("-inf")
        """When it last looked for webhooks that are due, and at all webhooks."""

    def stop(self) -> None:
        """Begin no further attempt; `run` returns after those that are in flight. Thread-safe."""
        with suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self.is_stopping = True
        self.woken.set()

    async def run(self) -> None:
        async with wake.watching(lambda _: self.woken.set()):
            while not self.is_stopping:
                self.woken.clear()
                try:
                    await self.follow()
                    await self.start()
                except DatabaseError as error:
                    logger.info("Webhooks are waiting for the database: %s", error)
                    # `waiting` may lack those that were being claimed: look at all again.
                    self.swept = float("-inf")
                await self.pause()
        if self.running:
            await asyncio.wait(self.running.values(), timeout=2 * DEADLINE)

    async def pause(self) -> None:
        """Wait for a wake-up, or until webhooks may be due again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self.woken.wait()
        if not self.is_stopping:
            await asyncio.sleep(GAP_SECONDS)

    async def follow(self) -> None:
        """Collect the webhooks that may have an event to send."""
        now, is_full = monotonic(), True
        if self.last is None:
            self.last = await in_thread(Event.objects.newest_id)
        while is_full:
            news = await in_thread(partial(events.read_news, self.last))
            self.last, is_full = news.last, news.is_full
            self.note(news.webhooks)
            self.skipped.update(news.skipped)
            if news.has_changes:
                self.swept = float("-inf")
        self.skip()
        if now - self.looked >= LOOK_SECONDS:
            self.looked = now
            self.note(set(await in_thread(events.overdue)))
        if now - self.swept >= SWEEP_SECONDS:
            self.swept = now
            self.note(set(await in_thread(events.behind)))

    def note(self, webhooks: set[int]) -> None:
        self.waiting |= dict.fromkeys(webhooks)
        self.again |= webhooks & self.running.keys()

    def skip(self) -> None:
        """Look at webhooks that have skipped many events: their cursor then moves."""
        many = {pk for pk, count in self.skipped.items() if count >= queue.SKIP}
        self.note(many)
        for pk in many:
            del self.skipped[pk]

    async def start(self) -> None:
        """Take the leases of waiting webhooks, and send to each in a task of its own."""
        left = [pk for pk in self.waiting if pk not in self.running]
        self.waiting.clear()
        postponed = list[int]()
        while left and not self.is_stopping and not self.is_full():
            some, left = left[:CLAIMS], left[CLAIMS:]
            admission = Admission(
                PLACES - len(self.running),
                RECOVERING - len(self.hosts),
                Counter(self.hosts.values()),
            )
            steps, without_place = await in_thread(partial(queue.claim, some, admission))
            postponed += without_place
            for step in steps:
                self.begin(step)
        # Before those that have begun to wait meanwhile.
        self.waiting = dict.fromkeys([*postponed, *left]) | self.waiting

    def is_full(self) -> bool:
        return len(self.running) >= PLACES

    def begin(self, step: Step) -> None:
        pk = step.webhook.pk
        if step.is_recovering:
            self.hosts[pk] = step.attempt.message.address.host
        self.running[pk] = asyncio.create_task(self.send_events(step))
        self.running[pk].add_done_callback(partial(self.end, pk))

    def end(self, pk: int, task: asyncio.Task[None]) -> None:
        """Forget a task that has ended. Its webhook is looked at again if it missed an event."""
        del self.running[pk]
        self.hosts.pop(pk, None)
        if pk in self.again:
            self.again.discard(pk)
            self.waiting[pk] = None
        if self.waiting:
            self.woken.set()
        error = None if task.cancelled() else task.exception()
        if isinstance(error, DatabaseError):
            logger.warning("A delivery could not be stored, and is sent again: %s", error)
        elif error is not None:
            logger.error("A delivery failed", exc_info=error)

    async def send_events(self, step: Step) -> None:
        """Send the next events of a webhook, one after the other, until none is left or one fails.

        The next event is read with the outcome of the last one: access counts at this moment.
        """
        current: Step | None = step
        end_of_turn = monotonic() + TURN
        async with Sender() as sender:
            while current is not None:
                outcome = await sender.send(current.attempt.message)
                is_last = monotonic() >= end_of_turn and bool(self.waiting) and self.is_full()
                if is_last:
                    self.again.add(step.webhook.pk)
                current = await self.settle(Sent(current, outcome, is_last=is_last))
                if current is not None and current.is_recovering:
                    await asyncio.sleep(RECOVERING_PAUSE)

    async def settle(self, sent: Sent) -> Step | None:
        """Store an outcome, together with others that wait meanwhile: each commit takes long."""
        metrics.webhook_deliveries.add("succeeded" if sent.outcome.has_succeeded else "failed")
        future: asyncio.Future[Step | None] = self.loop.create_future()
        self.outcomes.append((sent, future))
        if self.settling is None:
            self.settling = asyncio.create_task(self.settle_waiting())
        return await future

    async def settle_waiting(self) -> None:
        """Store outcomes until none waits."""
        while self.outcomes:
            batch, self.outcomes = self.outcomes[:BATCH_SIZE], self.outcomes[BATCH_SIZE:]
            await self.store(batch)
        self.settling = None

    async def store(self, batch: Sequence[Stored]) -> None:
        """Store outcomes in one transaction; if it fails, each in one of its own."""
        call = partial(queue.settle, [sent for sent, _ in batch], goes_on=not self.is_stopping)
        [steps] = await asyncio.gather(in_thread(call), return_exceptions=True)
        if not isinstance(steps, BaseException):
            for (_, future), step in zip(batch, steps, strict=True):
                future.set_result(step)
        elif len(batch) == 1:
            batch[0][1].set_exception(steps)
        else:
            for one in batch:
                await self.store([one])


@contextmanager
def dispatching() -> Iterator[None]:
    """Send events from a thread of this process, as long as the block runs."""
    ended, current = threading.Event(), list[Dispatcher]()

    async def run_once() -> None:
        current[:] = [Dispatcher()]
        if not ended.is_set():
            await current[0].run()

    def run() -> None:
        while not ended.is_set():
            try:
                asyncio.run(run_once())
            except Exception:
                logger.exception("The dispatcher of webhooks failed; it begins again")
                ended.wait(LOOK_SECONDS)

    thread = threading.Thread(target=run, name=NAME, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        for dispatcher in current:
            dispatcher.stop()
        thread.join()

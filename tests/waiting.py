"""Waiting for another thread, process or task, in tests."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

Value = TypeVar("Value")
PAUSE = 0.02
"""Seconds between two checks."""


def eventually(
    condition: Callable[[], Value], within: float = 60, *, pause_for: float = PAUSE
) -> Value:
    """Call the condition until its result is true, and return that. Fails after `within` seconds
    with the last result. It is called at least once, and again after `pause_for` seconds.
    """
    ends, pause = time.monotonic() + within, Event()
    while not (value := condition()):
        assert time.monotonic() < ends, f"after {within} seconds still {value!r}"
        pause.wait(pause_for)
    return value


async def eventually_in_loop(condition: Callable[[], object], within: float = 60) -> None:
    """The same while the event loop runs; the condition may return an awaitable."""
    async with asyncio.timeout(within):
        while True:
            value = condition()
            if await value if inspect.isawaitable(value) else value:
                return
            await asyncio.sleep(0)

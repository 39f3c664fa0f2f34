"""Waiting in tests for something that another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

Value = TypeVar("Value")
PAUSE = 0.02
"""Seconds between two looks."""


def eventually(condition: Callable[[], Value], within: float = 60) -> Value:
    """Ask until the condition gives something true, and return that.

    Fails after `within` seconds, with what it gave last. It is asked at least once.
    """
    ends, pause = time.monotonic() + within, Event()
    while not (value := condition()):
        assert time.monotonic() < ends, f"after {within} seconds still {value!r}"
        pause.wait(PAUSE)
    return value

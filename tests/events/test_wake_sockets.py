"""Wake-ups between processes on SQLite."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from apps.events import wake_sockets
from tests.waiting import eventually_in_loop

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Path:
    """A folder whose path is longer than an address of a socket may be."""
    settings.DATA_DIR = tmp_path / ("d" * 120)
    settings.DATA_DIR.mkdir()
    return wake_sockets.folder()


def test_a_wake_up_reaches_all_that_receive_with_its_person() -> None:
    async def story() -> None:
        first: list[int | None] = []
        second: list[int | None] = []
        with wake_sockets.receiving(first.append), wake_sockets.receiving(second.append):
            threading.Thread(target=wake_sockets.send, args=[None]).start()
            await eventually_in_loop(lambda: first == second == [None])
            threading.Thread(target=wake_sockets.send, args=[7]).start()
            await eventually_in_loop(lambda: first == second == [None, 7])

    asyncio.run(story())


def test_nothing_is_left_behind(folder: Path) -> None:
    async def story() -> None:
        with wake_sockets.receiving(lambda _: None):
            assert len(list(folder.iterdir())) == 1
        assert not list(folder.iterdir())

    asyncio.run(story())
    wake_sockets.send(None)


def test_the_socket_of_a_killed_process_is_removed(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(wake_sockets.address_of("left"))
    wake_sockets.send(7)
    assert not list(folder.iterdir())


def test_a_process_that_reads_nothing_delays_no_event(monkeypatch: Any) -> None:
    monkeypatch.setattr(wake_sockets, "PATIENCE", 0.05)
    woken: list[int | None] = []

    async def story() -> None:
        with wake_sockets.receiving(woken.append):
            for _ in range(3000):
                wake_sockets.send(None)
            wake_sockets.send(7)
            await eventually_in_loop(lambda: None in woken)

    asyncio.run(story())

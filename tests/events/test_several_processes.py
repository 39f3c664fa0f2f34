"""`bin/serve` with several processes counts, tells and refuses as one does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.events.conftest import make_followed_team
from tests.server import Server
from tests.tail import opened
from tests.waiting import eventually

pytestmark = pytest.mark.once

MOST = 60


@pytest.fixture(scope="module")
def several(
    new_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of two processes."""
    with new_server(tmp_path_factory.mktemp("several"), WEB_CONCURRENCY="2") as server:
        yield server


def test_two_processes_admit_as_many_requests_as_one(several: Server) -> None:
    """Each request has a connection of its own, and these go to both processes in turns."""
    several.api("sam").post(
        "/rate-limits", scope="user:carol", max_requests=MOST, window_seconds=86400, is_enabled=True
    ).gives(201)
    counted: list[int] = []

    def is_known_everywhere() -> bool:
        """A process that knows the limit names it; another learns of it within two seconds."""
        named = [several.api("carol").get("/users/carol") for _ in range(2)]
        limited = [each for each in named if each.header("X-RateLimit-Limit") == str(MOST)]
        counted.extend(each.status for each in limited)
        return len(limited) == 2

    eventually(is_known_everywhere, pause_for=0.2)
    for _ in range(MOST + 5):
        counted.append(several.api("carol").get("/users/carol").status)
    assert counted == [200] * MOST + [429] * (len(counted) - MOST)


def test_an_event_reaches_the_streams_of_all_processes(several: Server) -> None:
    team = make_followed_team(several)
    with ExitStack() as streams:
        followers = [streams.enter_context(opened(several, "bob", team.scope)) for _ in range(8)]
        several.api("alice").post(
            f"{team.path}/repos/api/threads", kind="question", title="Slow", body=""
        ).gives(201)
        assert {follower.take(1)[0].kind for follower in followers} == {"thread-created"}


def test_a_killed_process_takes_no_streams_along(several: Server) -> None:
    """Its streams end, and are not counted any more; another process takes its place."""
    team = make_followed_team(several)
    with ExitStack() as streams:
        for _ in range(20):
            streams.enter_context(opened(several, "bob", team.scope))
        workers = several.children()
        os.kill(workers[0], signal.SIGKILL)
        eventually(lambda: len(set(several.children()) - {workers[0]}) == 2)
        for _ in range(5):
            streams.enter_context(opened(several, "bob", team.scope))

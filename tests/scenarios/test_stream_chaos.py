"""Streams that are cut and resumed while people write and processes are killed.

`CHAOS_SECONDS=600` runs it for ten minutes. `CHAOS_SEED` varies it.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest

from tests.events.conftest import FollowedTeam, make_followed_team
from tests.server import Server
from tests.tail import follow
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.once]

SECONDS = float(os.environ.get("CHAOS_SECONDS", "15"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
FOLLOWERS, WRITERS = 12, 4
LOST = (OSError, HTTPException, AssertionError, ValueError)
"""Errors of a client whose server was killed, or refuses it for a moment."""


class Writer(Thread):
    """Opens threads and replies to them; `acknowledged` are the titles that were answered."""

    def __init__(self, team: FollowedTeam, number: int, stop: Event) -> None:
        super().__init__(daemon=True)
        self.team, self.number, self.stop = team, number, stop
        self.acknowledged: list[str] = []

    def run(self) -> None:
        api, path = self.team.server.api("alice"), f"{self.team.path}/repos/api/threads"
        count = 0
        while not self.stop.is_set():
            count += 1
            title = f"{self.number}-{count}"
            with suppress(*LOST):
                api.post(path, kind="question", title=title, body="").gives(201)
                self.acknowledged.append(title)


class Follower(Thread):
    """Follows the team from its beginning, and resumes after random numbers of events."""

    def __init__(self, team: FollowedTeam, number: int, ended: Event) -> None:
        super().__init__(daemon=True)
        self.team, self.ended = team, ended
        self.random = Random(f"{SEED} {number}")  # noqa: S311 - to be repeated
        self.ids: list[int] = []
        self.last = 0

    def run(self) -> None:
        while not self.ended.is_set():
            with suppress(*LOST):
                self.read(self.random.randint(1, 60))

    def read(self, count: int) -> None:
        query = f"{self.team.scope}&last_event_id={self.last}"
        with follow(self.team.server, "bob", query) as stream, closing(stream):
            stream.opened()
            for _ in range(count):
                frame = stream.next()
                if frame is None:
                    return
                self.ids.append(frame.id)
                self.last = frame.id


def listed(team: FollowedTeam) -> list[dict[str, Any]]:
    """All events of the team, oldest first."""
    events: list[dict[str, Any]] = []
    api, address = team.server.api("bob"), f"/events?{team.scope}&after=0&per_page=100"
    while address:
        page = api.get(address).gives()
        events += page["results"]
        address = (page["next"] or "").removeprefix(team.server.url)
    return sorted(events, key=lambda event: int(event["id"]))


@pytest.mark.parametrize("kind", ["serve", "gunicorn-asgi"])
def test_each_follower_gets_each_event_once_and_in_order(new_server, tmp_path: Path, kind: str):
    random = Random(SEED)  # noqa: S311 - to be repeated
    with new_server(tmp_path, kind, WEB_CONCURRENCY="2") as server:
        team = make_followed_team(server)
        stop, ended = Event(), Event()
        writers = [Writer(team, number, stop) for number in range(WRITERS)]
        followers = [Follower(team, number, ended) for number in range(FOLLOWERS)]
        for thread in [*writers, *followers]:
            thread.start()
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            stop.wait(random.uniform(1, 4))
            kill_one(server, random)
        stop.set()
        for writer in writers:
            writer.join()
        events = eventually(lambda: attempt(team))
        ids = [int(event["id"]) for event in events]
        eventually(lambda: all(follower.last == ids[-1] for follower in followers))
        ended.set()
    titles = {event["summary"]["thread_title"] for event in events}
    acknowledged = {title for writer in writers for title in writer.acknowledged}
    print(f"{len(ids)} events, {len(acknowledged)} acknowledged threads")
    assert acknowledged <= titles
    for follower in followers:
        assert follower.ids == ids


def kill_one(server: Server, random: Random) -> None:
    with suppress(ProcessLookupError):
        os.kill(random.choice(server.pids), signal.SIGKILL)


def attempt(team: FollowedTeam) -> list[dict[str, Any]]:
    with suppress(*LOST):
        return listed(team)
    return []

"""Streams get every event once and in order, also with concurrent writers and readers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.events.conftest import ON_SERVE, FollowedTeam, make_followed_team
from tests.tail import Stream, opened

pytestmark = ON_SERVE

FLOOD = """
from django.db import transaction
from apps.accounts.models import User
from apps.events.kinds import Kind
from apps.events.record import record
from apps.teams.models import Team
alice, team = User.objects.get(username="alice"), Team.objects.get(slug="{team}")
with transaction.atomic():
    for _ in range({count}):
        record(Kind.TEAM_UPDATED, actor=alice, about=team, data={{"text": "x" * {size}}})
"""


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Run these functions concurrently, each in a thread; all threads start together."""
    gate = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        gate.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def recorded(followed: FollowedTeam) -> list[int]:
    """The ids of all events of a team, oldest first, from the list."""
    alice, ids = followed.server.api("alice"), []
    page: str | None = f"/events?{followed.scope}&per_page=100"
    while page:
        answer = alice.get(page.removeprefix(followed.server.url)).gives()
        ids += [event["id"] for event in answer["results"]]
        page = answer["next"]
    return ids[::-1]


def test_two_who_arrive_together_get_each_event_once_and_in_order(live, shared):
    followed = shared.on(live)
    with ExitStack() as streams:

        def arrive() -> Stream:
            return streams.enter_context(opened(live, "alice", followed.scope))

        both = at_once(arrive, arrive)
        for name in ("One", "Two", "Three"):
            followed.rename(name)
        written = recorded(followed)[-3:]
        assert [stream.ids(3) for stream in both] == [written, written]


def test_nothing_is_missed_or_doubled_while_many_write(live):
    followed = make_followed_team(live)
    whole = f"{followed.scope}&last_event_id=0"

    def write(name: str) -> None:
        for number in range(12):
            followed.rename(f"{name} {number}", by="alice")

    def come_and_go() -> list[int]:
        """Reconnects after every third event."""
        received: list[int] = []
        while len(received) < 39:
            last = str(received[-1]) if received else "0"
            with opened(live, "bob", followed.scope, Last_Event_ID=last) as stream:
                received += stream.ids(3)
        return received

    with ExitStack() as streams:
        early = streams.enter_context(opened(live, "alice", whole))
        *_, resumed, late = at_once(
            *(lambda name=name: write(name) for name in ("a", "b", "c")),
            come_and_go,
            lambda: streams.enter_context(opened(live, "alice", whole)),
        )
        written = recorded(followed)
        assert len(written) == 3 + 36
        assert resumed == written
        assert early.ids(39) == written
        assert late.ids(39) == written


@pytest.mark.slow
def test_a_long_past_is_caught_up_with_page_by_page(server):
    followed = make_followed_team(server)
    server.run(FLOOD.format(team=followed.team, count=450, size=1))
    with opened(server, "alice", f"{followed.scope}&last_event_id=0") as stream:
        followed.rename("Meanwhile")
        assert stream.ids(454) == recorded(followed)


@pytest.mark.slow
def test_whoever_reads_late_holds_nobody_up_and_misses_nothing(server, asgi):
    followed = make_followed_team(server)
    query = f"{followed.scope}&kind=team-updated"
    with (
        opened(server, "bob", query, buffer=4096) as late,
        opened(asgi, "bob", query, buffer=4096) as late_too,
        opened(server, "alice", query) as quick,
    ):
        server.run(FLOOD.format(team=followed.team, count=80, size=60_000))
        got = quick.ids(80)
        assert got == recorded(followed)[-80:]
        assert late.ids(80) == late_too.ids(80) == got


def test_a_client_that_sends_on_does_not_disturb_its_stream(shared):
    with opened(shared.server, "alice", shared.scope) as stream:
        sending: socket.socket = stream.connection.sock
        sending.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        shared.rename("One")
        assert stream.kinds(1) == ["team-updated"]

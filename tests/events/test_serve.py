"""`manage.py serve` as an operator meets it, and how servers end."""

from __future__ import annotations

import os
import re
import shlex
import signal
import stat
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.events.conftest import ON_SERVE, make_place
from tests.server import Server
from tests.tail import opened


def test_the_first_start_shows_a_way_in_and_the_second_nothing(tmp_path):
    with Server(tmp_path) as first:
        command = re.search(r"curl .*", first.log)
        assert command is not None
        shown = subprocess.run(shlex.split(command[0]), check=True, capture_output=True)
        assert shown.stdout == b'{"results":[],"next":null,"previous":null}'
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
        assert first.stop(signal.SIGINT) < 2
        assert first.process.returncode == 0
        with Server(tmp_path, beside=first) as second:
            assert second.log == f"Guildhall is at {second.url} (Ctrl-C ends it)\n"


@ON_SERVE
def test_a_taken_port_is_one_line_that_names_the_way_out(server, tmp_path):
    port = server.url.rpartition(":")[2]
    with pytest.raises(AssertionError) as refused, Server(tmp_path, PORT=port):
        pass
    [line] = str(refused.value).splitlines()
    assert f"127.0.0.1:{port}" in line and "PORT=" in line and "in use" in line
    assert not (tmp_path / "data" / "guildhall.db").exists()


@ON_SERVE
@pytest.mark.parametrize(("kind", "most"), [("daphne", 2.0), ("gunicorn-asgi", 5.0)])
def test_a_server_ends_at_once_though_streams_are_open(server, tmp_path, kind, most):
    with Server(tmp_path, kind, beside=server) as ending, ExitStack() as streams:
        place = make_place(server)
        found = [streams.enter_context(opened(ending, "alice", place.scope)) for _ in range(3)]
        assert ending.stop(signal.SIGTERM) < most
        assert ending.process.returncode == 0
        if kind == "gunicorn-asgi":
            assert [stream.next() for stream in found] == [None, None, None]
            assert "Error" not in ending.log and "ERROR" not in ending.log


@ON_SERVE
def test_descriptors_stay_as_many_as_they_were(live):
    place = make_place(live)

    def open_now() -> int:
        return len(os.listdir(f"/proc/{live.pid}/fd"))

    def visit(requests: int, streams: int) -> None:
        for _ in range(requests):
            live.api("alice").get(place.path).gives()
        for _ in range(streams):
            with opened(live, "alice", place.scope):
                pass

    visit(20, 10)
    before = open_now()
    visit(100, 50)
    for _ in range(200):
        if open_now() <= before:
            return
        visit(1, 0)  # gives the server time to see who has left
    raise AssertionError(f"{open_now()} descriptors, {before} before")


@ON_SERVE
def test_idle_streams_hold_no_database_connection(live):
    place = make_place(live)

    def connections() -> int:
        if "DATABASE_URL" in live.environment:
            count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            return int(live.sql(count))
        folder = Path(f"/proc/{live.pid}/fd")
        return sum("guildhall.db" in os.readlink(file) for file in folder.iterdir())

    with ExitStack() as streams:
        streams.enter_context(opened(live, "alice", place.scope))
        before = connections()
        for _ in range(15):
            streams.enter_context(opened(live, "alice", place.scope))
        assert any(connections() <= before + 1 for _ in range(200))

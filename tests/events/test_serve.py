"""`manage.py serve` as an operator meets it, and how servers end."""

from __future__ import annotations

import os
import re
import shlex
import signal
import stat
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.events.conftest import ON_SERVE, make_place
from tests.server import Server
from tests.tail import opened


@ON_SERVE
def test_the_first_start_shows_a_way_in(server):
    command = re.search(r"curl .*", server.log)
    assert command is not None
    shown = subprocess.run(shlex.split(command[0]), check=True, capture_output=True)
    assert shown.stdout == b'{"results":[],"next":null,"previous":null}'
    folder = Path(server.environment["DATA_DIR"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@ON_SERVE
def test_a_taken_port_is_one_line_that_names_the_way_out(server, tmp_path):
    port = server.url.rpartition(":")[2]
    with pytest.raises(AssertionError) as refused, Server(tmp_path, PORT=port):
        pass
    [line] = str(refused.value).splitlines()
    assert f"127.0.0.1:{port}" in line and "PORT=" in line and "in use" in line
    assert not (tmp_path / "data" / "guildhall.db").exists()


@ON_SERVE
def test_a_second_start_shows_no_secret_and_ends_at_once_though_streams_are_open(server, tmp_path):
    with Server(tmp_path, beside=server) as second, ExitStack() as streams:
        unfinished = streams.enter_context(closing(second.connect()))
        unfinished.connect()
        unfinished.sock.sendall(b"GET /healthz HTTP/1.1\r\n")
        for _ in range(3):
            streams.enter_context(opened(second, "alice", "scope=self"))
        assert second.stop(signal.SIGTERM) < 2
        assert second.log == f"Guildhall is at {second.url} (Ctrl-C ends it)\n"
        assert second.process.returncode == 0


@ON_SERVE
@pytest.mark.slow
def test_gunicorn_ends_its_streams_before_it_ends_itself(server, tmp_path):
    with Server(tmp_path, "gunicorn-asgi", beside=server) as ending, ExitStack() as streams:
        found = [streams.enter_context(opened(ending, "alice", "scope=self")) for _ in range(3)]
        assert ending.stop(signal.SIGTERM) < 5
        assert [stream.next() for stream in found] == [None, None, None]
        assert "error" not in ending.log.lower()
        assert ending.process.returncode == 0


@pytest.mark.slow
@ON_SERVE
def test_descriptors_stay_as_many_as_they_were(server):
    place = make_place(server)

    def open_now() -> int:
        return len(os.listdir(f"/proc/{server.pid}/fd"))

    def visit(requests: int, streams: int) -> None:
        for _ in range(requests):
            server.api("alice").get(place.path).gives()
        for _ in range(streams):
            with opened(server, "alice", place.scope):
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
    """The pool of PostgreSQL keeps the few that were needed at once, and one listens."""
    place = make_place(live)
    pooled = 10 if "DATABASE_URL" in live.environment else 0

    def connections() -> int:
        if pooled:
            count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            return int(live.sql(count))
        found = subprocess.run(["ls", "-l", f"/proc/{live.pid}/fd"], capture_output=True, text=True)
        return found.stdout.count("guildhall.db")

    with ExitStack() as streams:
        for _ in range(19):
            streams.enter_context(opened(live, "alice", place.scope))
        assert any(connections() <= pooled for _ in range(200))

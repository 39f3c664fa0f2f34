"""`manage.py serve` for an operator, and the shutdown of servers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

import psycopg
import pytest

from apps.core.slugs import PREFIX
from config.request_threads import AT_WORK
from tests.events.conftest import ON_SERVE, make_followed_team
from tests.server import PATIENCE, ROOT, Server
from tests.tail import opened
from tests.waiting import eventually

AT_ONCE = 10
"""Seconds. A database lock is waited for twice as long, and gunicorn waits three times as long for
open connections.
"""


@contextmanager
def no_team_is_made(server: Server) -> Iterator[None]:
    """Hold the lock, for which creating a repository waits up to 20 seconds."""
    if url := server.environment.get("DATABASE_URL"):
        with psycopg.connect(url) as holding:
            holding.execute("LOCK TABLE teams_team")
            yield
        return
    with closing(sqlite3.connect(server.file)) as holding:
        holding.execute("BEGIN IMMEDIATE")
        yield


@pytest.mark.once
def test_the_first_start_shows_a_way_in_and_it_ends_at_once_whatever_is_under_way(tmp_path):
    """The only server of the default run that starts with an empty folder."""
    with Server(tmp_path) as first, ExitStack() as streams:
        [command] = re.findall(r"curl .*", first.log)
        output = subprocess.run(shlex.split(command), check=True, capture_output=True)
        assert output.stdout == b'{"results":[],"next":null,"previous":null}'
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
        first.tokens["admin"] = re.findall(r"Bearer (ght_\w+)", command)[0]
        unfinished = streams.enter_context(closing(first.connect()))
        unfinished.connect()
        unfinished.sock.sendall(b"GET /healthz HTTP/1.1\r\n")
        for _ in range(3):
            streams.enter_context(opened(first, "admin", "scope=self"))
        first.api("admin").post("/users/admin/repos", name="R", slug="r").gives(201)
        pushing = streams.enter_context(closing(first.connect()))
        begin_push(pushing, headers(first))
        streams.enter_context(no_team_is_made(first))
        waiting = streams.enter_context(closing(first.connect()))
        waiting.request("POST", f"{PREFIX}/teams", '{"name": "A", "slug": "a"}', headers(first))
        first.api("admin").get("/users/self").gives()
        assert first.stop(signal.SIGTERM) < AT_ONCE
        assert first.log.endswith(f"\nGuildhall is at {first.url} (Ctrl-C ends it)\n")
        assert first.process.returncode == 0


def begin_push(connection: HTTPConnection, sent: dict[str, str]) -> None:
    """Send the beginning of a push, so that git waits for the rest."""
    command = f"{'0' * 40} {'1' * 40} refs/heads/x\0report-status".encode()
    connection.putrequest("POST", "/users/admin/r.git/git-receive-pack")
    connection.putheader("Authorization", sent["Authorization"])
    connection.putheader("Content-Type", "application/x-git-receive-pack-request")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders(b"%04x%b0000PACK" % (len(command) + 4, command))


@contextmanager
def in_a_terminal(folder: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Python in its own process group, which Ctrl-C signals. Kills all its processes at the end."""
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(folder / "data"), "PORT": "0"}
    started = subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, *command],
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


def wait_for(started: subprocess.Popen[str], words: str) -> None:
    """Wait for a line of its output with these words."""
    assert started.stdout is not None
    while words not in started.stdout.readline():
        assert started.poll() is None


def ctrl_c(started: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit status and the remaining output."""
    os.killpg(started.pid, signal.SIGINT)
    rest, _ = started.communicate(timeout=PATIENCE)
    return started.returncode, rest


@pytest.mark.once
@pytest.mark.parametrize("processes", [1, 2])
def test_ctrl_c_while_it_starts_ends_it(tmp_path, tables, processes):
    """A terminal signals all processes of the group.

    Shells make background processes ignore Ctrl-C, and child processes of the tests inherit this.
    """
    (tmp_path / "data").mkdir()
    shutil.copy(tables, tmp_path / "data" / "guildhall.db")
    with in_a_terminal(tmp_path, "manage.py", "serve") as starting:
        wait_for(starting, "Guildhall is at")
        children = Path(f"/proc/{starting.pid}/task/{starting.pid}/children")
        if processes > 1:
            eventually(children.read_text)
        assert ctrl_c(starting) == (0, "")


LOADED_FOR_A_MINUTE = """
import time
from config.server import Server, end_at_once, listen

def load():
    print("loading", flush=True)
    time.sleep(60)

end_at_once()
Server(listen("127.0.0.1", 0), 1, load).run()
"""


@pytest.mark.once
def test_ctrl_c_while_a_worker_loads_ends_it_however_long_that_takes(tmp_path):
    """gunicorn waits ten seconds for a worker, then kills it and reports that."""
    with in_a_terminal(
        tmp_path, "manage.py", "shell", "-v0", "-c", LOADED_FOR_A_MINUTE
    ) as starting:
        wait_for(starting, "loading")
        assert ctrl_c(starting) == (0, "")


def headers(server: Server) -> dict[str, str]:
    token = server.token("admin")
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


@ON_SERVE
def test_a_start_among_people_shows_no_secret(server):
    assert server.log.startswith(f"Guildhall is at {server.url} (Ctrl-C ends it)\n")


@ON_SERVE
@pytest.mark.once
def test_a_taken_port_is_one_line_on_standard_error_that_names_the_way_out(server, tmp_path):
    """A command that fails writes one line to standard error and exits with a status."""
    port = server.url.rpartition(":")[2]
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path / "data"), "PORT": port}
    # The checks would load every view.
    command = [sys.executable, "manage.py", "serve", "--skip-checks"]
    refused = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    [line] = refused.stderr.splitlines()
    assert f"127.0.0.1:{port}" in line and "PORT=" in line and "in use" in line
    assert not (tmp_path / "data" / "guildhall.db").exists()


@ON_SERVE
@pytest.mark.slow
def test_gunicorn_ends_its_streams_before_it_ends_itself(server, tmp_path):
    with Server(tmp_path, "gunicorn-asgi", beside=server) as ending, ExitStack() as streams:
        opened_streams = [
            streams.enter_context(opened(ending, "alice", "scope=self")) for _ in range(3)
        ]
        assert ending.stop(signal.SIGTERM) < AT_ONCE
        assert [stream.next() for stream in opened_streams] == [None, None, None]
        assert "error" not in ending.log.lower()
        assert ending.process.returncode == 0


@pytest.mark.slow
@pytest.mark.once
def test_a_stopped_server_leaves_its_rows_in_one_file(tmp_path, new_server):
    """On SQLite, although threads, such as those of a stream, have the file open until the end."""
    with new_server(tmp_path) as ending, opened(ending, "alice", "scope=self"):
        for number in range(5):
            ending.api("alice").post("/teams", name="A", slug=f"a{number}").gives(201)
        ending.stop(signal.SIGTERM)
    copy = shutil.copy(tmp_path / "data" / "guildhall.db", tmp_path)
    with closing(sqlite3.connect(copy)) as database:
        assert database.execute("SELECT count(*) FROM teams_team").fetchone() == (5,)


@pytest.mark.slow
@ON_SERVE
def test_descriptors_do_not_grow_with_requests_and_streams(server):
    """Threads that wait for a request keep a connection to SQLite, which has three open files."""
    followed = make_followed_team(server)

    def open_now() -> int:
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in server.pids)

    def visit(requests: int, streams: int) -> None:
        for _ in range(requests):
            server.api("alice").get(followed.path).gives()
        for _ in range(streams):
            with opened(server, "alice", followed.scope):
                pass

    visit(20, 10)
    most = open_now() + 3 * AT_WORK * len(server.pids)
    visit(100, 100)
    eventually(lambda: open_now() <= most)


def connections(server: Server) -> int:
    """The connections to the server's database; on SQLite, the open files of the process."""
    if "DATABASE_URL" in server.environment:
        count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        return int(server.sql(count))
    folders = [f"/proc/{pid}/fd" for pid in server.pids]
    listing = subprocess.run(["ls", "-l", *folders], capture_output=True, text=True)
    return listing.stdout.count("guildhall.db\n")


@ON_SERVE
def test_idle_streams_hold_no_database_connection(live):
    """The streams outnumber the connections that PostgreSQL allows, and the threads of the server.

    Connections that were in use at the same time stay open, one for the listener among them; their
    number depends on timing.
    """
    most = connections(live) + 25
    with ExitStack() as streams:
        for name in ("alice", "bob", "carol") * 13:
            streams.enter_context(opened(live, name, "scope=self"))
        live.api("alice").get("/users/self").gives()
        eventually(lambda: 0 < connections(live) <= most)

"""A node that vanishes from the network while it holds the event lock, and PostgreSQL restarted.

The node is in a network namespace, and PostgreSQL is the test's own, at an address that the
namespace can reach. Both need root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.db import connection

from tests.events.conftest import make_followed_team
from tests.server import PATIENCE, ROOT, Server
from tests.tail import opened
from tests.waiting import eventually

PROGRAMS = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one node"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root makes network namespaces"),
    pytest.mark.skipif(not shutil.which("ip"), reason="iproute2 is not installed"),
    pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL's programs are not Debian's"),
]
NAME = f"gh{os.getpid()}"
NETWORK = f"10.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
"""Addresses of this test run alone: 1 is the machine, 2 the node."""
HOLD = """
import sys
from django.db import transaction
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.teams.actions import create_team
with transaction.atomic():
    alice = Principal(User.objects.get(username="alice"))
    create_team(principal=alice, name="Lost", slug="lost")
    print("held", flush=True)
    sys.stdin.readline()
"""
PROMISED = 60
"""Seconds after which other nodes write again (docs/deploy.md)."""


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def cable() -> Iterator[None]:
    """A namespace of the network, and a pair of interfaces between it and the machine."""
    try:
        run("ip", "netns", "add", NAME)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine allows no network namespaces: {error.stderr}")
    try:
        run("ip", "link", "add", NAME, "type", "veth", "peer", "name", "eth0", "netns", NAME)
        run("ip", "address", "add", f"{NETWORK}.1/30", "dev", NAME)
        run("ip", "link", "set", NAME, "up")
        run("ip", "-netns", NAME, "address", "add", f"{NETWORK}.2/30", "dev", "eth0")
        plug("up")
        yield
    finally:
        run("ip", "netns", "delete", NAME)


def plug(state: str) -> None:
    """Plug the node in (`up`), or unplug it (`down`)."""
    run("ip", "-netns", NAME, "link", "set", "eth0", state)


class Postgres:
    """A cluster that listens at the machine's end of the cable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.chown(folder, "postgres", "postgres")
        self._run("initdb", "-D", ".", "-U", "postgres", "--auth=trust", "--no-sync")
        with (folder / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {NETWORK}.0/30 trust\n")
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        assert PROGRAMS is not None
        command = [str(PROGRAMS / program), *arguments]
        subprocess.run(
            command, cwd=self.folder, user="postgres", check=True, capture_output=True, env={}
        )

    def start(self) -> None:
        options = f"-h {NETWORK}.1 -k {self.folder} -c fsync=off"
        self._run("pg_ctl", "start", "-D", ".", "-w", "-l", "log", "-o", options)

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "-D", ".", "-m", "immediate")


@pytest.fixture(scope="module")
def postgres(cable: None) -> Iterator[Postgres]:
    # TMPDIR may be closed to the user of PostgreSQL.
    with TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        (home := Path(folder, "cluster")).mkdir()
        cluster = Postgres(home)
        try:
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="module")
def server(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    url = f"postgres://postgres@{NETWORK}.1/postgres"
    with Server(tmp_path_factory.mktemp("node"), "gunicorn-asgi", DATABASE_URL=url) as running:
        yield running


@contextmanager
def node(server: Server) -> Iterator[subprocess.Popen[str]]:
    """A process in the namespace that has recorded an event and does not commit."""
    command = ["ip", "netns", "exec", NAME, sys.executable, "manage.py", "shell", "--command", HOLD]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(
        command, cwd=ROOT, env=server.environment, text=True, stderr=subprocess.STDOUT, **pipes
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_other_nodes_write_within_a_minute_after_one_has_vanished_with_the_lock(server):
    alice = server.api("alice")
    with node(server) as holder:
        output: Any = holder.stdout
        eventually(lambda: "held" in output.readline())
        plug("down")
        eventually(
            lambda: alice.post("/teams", name="Other", slug="other").status == 201, within=PROMISED
        )
        plug("up")
        said = holder.communicate("\n", timeout=PATIENCE)[0]
        assert holder.returncode != 0 and "OperationalError" in said
    alice.get("/teams/lost").fails(404, "not_found")


def test_a_restart_of_postgresql_ends_neither_server_nor_stream(server, postgres):
    team = make_followed_team(server)
    with opened(server, "bob", team.scope) as stream:
        team.thread("Before")
        assert stream.kinds(1) == ["thread-created"]
        postgres.stop()
        postgres.start()
        eventually(lambda: server.api("alice").get(team.path).status == 200)
        team.thread("After")
        assert stream.kinds(1) == ["thread-created"]

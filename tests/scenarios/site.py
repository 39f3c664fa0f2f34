"""A server with the processes of a deployment, which can be killed and started again.

On SQLite it is `bin/serve` with two processes. On PostgreSQL it is gunicorn with the command lines
of the units of deploy/systemd, for the API and for the stream, and a worker.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from random import Random
from select import POLLIN, poll
from threading import Event
from typing import Self

from tests.processes import STAYS, git_processes, proportional_memory
from tests.server import PATIENCE, ROOT, Server
from tests.waiting import eventually

LEFTOVERS = ("**/*.lock", "**/tmp_*", "??/??/*.tmp-*")
"""Temporary files in the folders of repositories and of uploads."""
TIME_PASSES = (
    "UPDATE repos_fork SET lease_until = created_at WHERE lease_until IS NOT NULL RETURNING 1"
)
"""Ends the leases of forks, as if the minute had passed after which others take them over."""
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
PAUSE = Event()


@dataclass(frozen=True)
class Footprint:
    """The resources of all processes of a site together, without those of gits that stay."""

    megabytes: float
    """Of memory; a page that processes share counts in parts (PSS)."""
    threads: int
    sockets: int
    files: int
    pipes: int
    children: int
    connections: int
    """To PostgreSQL."""
    leftovers: int
    """Temporary files in DATA_DIR."""


class Site:
    """`with Site(folder) as site:` runs the server, and what `kill` and `start` end and begin."""

    def __init__(self, folder: Path, make: Callable[..., Server] = Server) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        self.is_deployed = bool(os.environ.get("DATABASE_URL"))
        kind = "gunicorn-deployed" if self.is_deployed else "serve"
        self.server = self.stream = make(
            folder, kind, TMPDIR=str(self.temporary), WEB_CONCURRENCY="2"
        )
        self.data = folder / "data"
        self.worker: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.server.__enter__()
        if self.is_deployed:
            self.stream = Server(self.data.parent, "gunicorn-asgi", beside=self.server)
            self.stream.start()
        self.start_worker()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_worker()
        if self.stream is not self.server:
            self.stream.__exit__()
        self.server.__exit__()

    def start_worker(self) -> None:
        if self.is_deployed:
            command = [sys.executable, "manage.py", "run_jobs"]
            self.worker = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self.server.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def kill_worker(self) -> None:
        if self.worker is not None:
            self.worker.kill()
            self.worker.wait(PATIENCE)

    def kill_all(self) -> None:
        self.server.kill()
        if self.stream is not self.server:
            self.stream.kill()
        self.kill_worker()

    def start(self) -> None:
        self.server.start()
        if self.stream is not self.server:
            self.stream.start()
        self.start_worker()

    def kill(self, random: Random) -> str:
        """Kill all processes, or one that answers requests, streams or works; returns which."""
        kinds = (
            ["all", "serving", "streaming", "worker"] if self.is_deployed else ["all", "serving"]
        )
        what = random.choice(kinds)
        if what == "all":
            self.kill_all()
        elif what == "worker":
            self.kill_worker()
        else:  # the master process starts another
            pids = (self.server if what == "serving" else self.stream).pids
            with suppress(ProcessLookupError):
                os.kill(random.choice(pids), 9)
        return what

    def start_again(self, what: str) -> None:
        """Start what `kill` has killed, if no master process does."""
        if what == "all":
            self.start()
        elif what == "worker":
            self.start_worker()

    def wait_for_a_move(self, uuid: str, is_over: Callable[[], bool]) -> None:
        """Wait until git has just locked a branch: its rows have not been written yet."""
        store = self.data / "repositories" / uuid[:2] / uuid[2:4] / f"{uuid}.git"
        heads = store / "refs" / "heads"
        before = heads.stat().st_mtime_ns
        eventually(lambda: heads.stat().st_mtime_ns != before or is_over(), pause_for=0.002)
        PAUSE.wait(0.01)  # from git's lock to the update

    def let_time_pass(self) -> None:
        if self.is_deployed:
            self.server.sql(TIME_PASSES)
            return
        connection = sqlite3.connect(self.data / "guildhall.db", timeout=PATIENCE)
        with connection:
            connection.execute(TIME_PASSES).fetchall()
        connection.close()

    def wait_for_orphans(self) -> None:
        """Wait for the git processes of a killed server, which may still update refs."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                line = (folder / "cmdline").read_bytes()
                handle = os.pidfd_open(int(folder.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
            if f"--git-dir={self.data}".encode() in line:
                waiting = poll()
                waiting.register(handle, POLLIN)
                assert waiting.poll(PATIENCE * 1000), f"this git does not end: {line!r}"
            os.close(handle)

    @property
    def log(self) -> str:
        """Everything that the servers have written so far."""
        return "".join(server.log for server in {self.server, self.stream})

    @property
    def pids(self) -> list[int]:
        """All processes but gits."""
        servers = {self.server, self.stream}
        pids = [pid for server in servers for pid in (server.process.pid, *server.pids)]
        return [*pids, self.worker.pid] if self.worker else pids

    def footprint(self) -> Footprint:
        """The footprint once no git runs that will end by itself."""
        pids = self.pids
        eventually(lambda: not git_processes(*pids))
        children = [child for pid in pids for child in children_of(pid) if child not in pids]
        staying = [child for child in children if stays(child)]
        links = [link for pid in pids for link in open_files(pid)]
        sockets = sum(link.startswith("socket:") for link in links)
        pipes = sum(link.startswith("pipe:") for link in links)
        return Footprint(
            megabytes=proportional_memory(*pids),
            threads=sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in pids),
            sockets=sockets,
            files=len(links) - sockets - pipes,
            pipes=max(0, pipes - 3 * len(staying)),
            children=len(children) - len(staying),
            connections=self.server.sql(CONNECTIONS) if self.is_deployed else 0,
            leftovers=len(self.leftovers()),
        )

    def leftovers(self) -> set[str]:
        """Temporary files that stay for two seconds: the worker makes some of its own."""
        before = self.temporary_files()
        PAUSE.wait(2)
        return before & self.temporary_files()

    def temporary_files(self) -> set[str]:
        """`os.walk` skips folders that are removed meanwhile."""
        walked = chain(*(os.walk(self.data / name) for name in ("repositories", "uploads")))
        return {
            os.path.join(folder, name)
            for folder, folders, files in walked
            for name in (*folders, *files)
            if name.startswith("tmp_") or name.endswith(".lock") or ".tmp-" in name
        }


RESOURCES = [field.name for field in fields(Footprint)]


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def stays(pid: int) -> bool:
    """Whether this child is kept for further work: a git, or the process of the lexers, of which
    each server process has at most one.
    """
    with suppress(FileNotFoundError, ProcessLookupError):
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        return STAYS in line or "lexer_process.py" in line
    return False


def open_files(pid: int) -> list[str]:
    """The targets of the process's file descriptors."""
    links = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            links.append(str(link.readlink()))
    return links

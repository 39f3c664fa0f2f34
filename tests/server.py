"""Real server processes for tests, each with a data folder and a database of its own.

With `DATABASE_URL` the database is created on that PostgreSQL server, and dropped at the end.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from queue import Queue
from typing import Any, Self
from urllib.parse import urlsplit

import orjson
import psycopg

from apps.core.slugs import PREFIX
from tests.api import Answer, Api
from tests.databases import Tables, create_database, drop_database
from tests.people import NAMES, begin
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parent.parent
READY = re.compile(r"Guildhall is at (http://\S+)")
PATIENCE = 60.0
"""Seconds after which an expected event has failed. The machine may be busy, and the first answer
of a server waits for its start.
"""
PRINT_TOKENS = """
from tests.people import tokens_of
for pair in tokens_of({names!r}).items():
    print(*pair)
"""


def deployed(service: str) -> list[str]:
    """The arguments of gunicorn in a unit of deploy/systemd, without those of its socket."""
    unit = (ROOT / "deploy" / "systemd" / f"guildhall-{service}.service").read_text()
    [arguments] = re.findall(r"/gunicorn --no-control-socket --bind \S+ (.+)", unit)
    return str(arguments).split()


GUNICORN = {
    "gunicorn": ["--workers", "1", "-k", "gthread", "--threads", "8", "config.wsgi:application"],
    "gunicorn-deployed": ["--workers", "2", *deployed("api")],
    "gunicorn-asgi": deployed("stream"),
}


class Server:
    """`with Server(tmp_path) as server:` runs `manage.py serve`, or gunicorn with `kind`.

    With `tables` it begins with a copy of these and with the people, else empty. `beside` is
    another server with the same folder, database and people. `root` is another checkout, with a
    `.venv` of its own. `environment` extends that of the process.
    """

    def __init__(
        self,
        folder: Path,
        kind: str = "serve",
        *,
        beside: Server | None = None,
        tables: Tables | None = None,
        root: Path | str = ROOT,
        **environment: str,
    ) -> None:
        self.kind, self.root = kind, Path(root)
        own = self.root == ROOT
        self.python = sys.executable if own else str(self.root / ".venv" / "bin" / "python")
        self.fresh = beside is None and tables is None
        self.url = ""
        self.listens_at = ("127.0.0.1", 0)
        """The address of gunicorn."""
        self.lines: list[str] = []
        self.tokens: dict[str, str] = beside.tokens if beside else {}
        self.database = "" if beside else create_database(tables)
        self.environment: dict[str, str] = {
            "PATH": os.environ["PATH"],
            "DATA_DIR": str(folder / "data"),
            "PORT": "0",
            "PYTHONUNBUFFERED": "1",
            **({"DATABASE_URL": self.database} if self.database else {}),
            **(beside.environment if beside else {}),
            **environment,
        }
        if tables:
            self.tokens.update(begin(tables, self.file, self.database))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self) -> None:
        """Start the server, also after `kill`: with the same data, at another address, unless
        `listens_at` has a port.
        """
        if self.kind == "serve":
            self._start([self.python, "manage.py", "serve"])
            self.url = self.address.get(timeout=PATIENCE)
            assert self.url, self.log
        else:
            self._start_gunicorn()

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "process"):
            self.stop(signal.SIGKILL)
        if self.database:
            drop_database(self.database)

    @property
    def file(self) -> Path:
        """Its SQLite database."""
        return Path(self.environment["DATA_DIR"], "guildhall.db")

    @property
    def log(self) -> str:
        """Everything that the process has written so far."""
        return "".join(self.lines)

    @property
    def pids(self) -> list[int]:
        """The serving processes: gunicorn's workers, not its master, which may be about to start
        another one.
        """

        def workers() -> list[int]:
            assert self.process.poll() is None, self.log
            return self.children()

        return eventually(workers)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> float:
        """End the process; returns the seconds until then."""
        begin = time.monotonic()
        self.process.send_signal(how)
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.reader.join()
        return time.monotonic() - begin

    def kill(self) -> None:
        """Kill the serving process without warning; its git processes survive."""
        workers = self.children()
        self.process.kill()
        for worker in workers:
            with suppress(ProcessLookupError):  # its master has just found it dead
                os.kill(worker, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.reader.join()

    def children(self) -> list[int]:
        """The child processes of the started process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(child) for child in children.read_text().split()]

    def manage(self, *arguments: str) -> str:
        """Run `manage.py` on the server's data; returns what it prints."""
        done = subprocess.run(
            [self.python, "manage.py", *arguments],
            cwd=self.root,
            env=self.environment,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def run(self, code: str) -> str:
        """Run Python on the server's data; returns what it prints."""
        return self.manage("shell", "--verbosity", "0", "--command", code)

    def sql(self, query: str) -> Any:
        """The single value of a query, on PostgreSQL."""
        with psycopg.connect(self.environment["DATABASE_URL"]) as connection:
            row = connection.execute(query.encode()).fetchone()
        return row and row[0]

    def token(self, name: str) -> str:
        """A token of this person, who is created if missing; sam is staff."""
        if name not in self.tokens:
            names = {name, *NAMES} - set(self.tokens)
            made = self.run(PRINT_TOKENS.format(names=sorted(names)))
            self.tokens.update(dict(line.split() for line in made.splitlines()))
        return self.tokens[name]

    def api(self, name: str | None = None) -> Remote:
        """A client for this person, or an anonymous one."""
        return Remote(self, self.token(name) if name else None)

    def connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        return http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE)

    def _start_gunicorn(self) -> None:
        """The socket belongs to the test: its address is known, and the first client can wait on
        it.
        """
        if self.fresh:
            self.manage("migrate", "--verbosity", "0")
            self.fresh = False
        with socket.create_server(self.listens_at) as listening:
            self.url = "http://{}:{}".format(*listening.getsockname())
            self.environment["BASE_URL"] = self.url
            bind = ["--no-control-socket", "--bind", f"fd://{listening.fileno()}"]
            command = [self.python, "-m", "gunicorn", *bind, *GUNICORN[self.kind]]
            self._start(command, pass_fds=[listening.fileno()])
        with closing(self.connect()) as connection:
            connection.request("GET", "/healthz")
            assert connection.getresponse().status == 200, self.log

    def _start(self, command: list[str], **options: Any) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=self.root,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **options,
        )
        self.address: Queue[str] = Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line)
                if found := READY.search(line):
                    self.address.put(found[1])
        self.address.put("")


class Remote(Api):
    """Speaks to a server for one person; paths are relative to /api/v1."""

    def __init__(self, server: Server, token: str | None) -> None:
        super().__init__(token)
        self.server = server

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, None, **headers)

    def send(  # type: ignore[override] # takes headers by name
        self, method: str, path: str, body: Any = None, **headers: Any
    ) -> Answer:
        raw = body if isinstance(body, bytes | None) else orjson.dumps(body)
        sent = {**self.headers, "Content-Type": "application/json", **headers}
        with closing(self.server.connect()) as connection:
            connection.request(method, PREFIX + path.removeprefix(PREFIX), raw, sent)
            response: Any = connection.getresponse()
            response.status_code, response.content = response.status, response.read()
            return Answer(response)

"""Whether this process can serve requests, part by part, for `/readyz`."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from threading import Lock
from time import monotonic
from typing import Any

from django.conf import settings
from django.db import connection

from apps.core.threads import DaemonExecutor
from apps.jobs import worker
from config.installation import folder_problem, missing_migrations

OK = "ok"
PATIENCE = 2.0
"""Seconds to wait for all parts."""
LASTS = 1.0
"""Seconds for which a result is used again."""
FREE_MIN = 1 << 30
"""Bytes of DATA_DIR that must be free: SQLite, its journal, and several pushes and uploads at once
have room until somebody acts. PostgreSQL and git stop half way on a full disk.
"""
OPTIONAL = {"redis", "worker"}
"""Parts without which requests are served: each process then counts rate limits for itself; forks,
mail and repairs wait for a worker, and no load balancer should drop all servers for that.
"""
DRAINING = "draining"

logger = logging.getLogger(__name__)


def database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return OK


def migrations() -> str:
    missing = missing_migrations()
    return f'{len(missing)} missing: run "manage.py migrate"' if missing else OK


def installation() -> str:
    return folder_problem() or OK


def repositories() -> str:
    """The file has no name, and nothing is left of it."""
    with TemporaryFile(dir=settings.REPOSITORIES_DIR) as file:
        file.write(b"\n")
    return OK


def disk() -> str:
    free = shutil.disk_usage(settings.DATA_DIR).free
    return OK if free >= FREE_MIN else f"{free >> 20} MiB free, {FREE_MIN >> 20} needed"


def jobs() -> str:
    return OK if worker.is_running() else "no worker was seen lately"


def redis() -> str:
    if settings.REDIS_URL:
        from apps.site.shared import connect

        with closing(connect(settings.REDIS_URL)) as client:
            client.ping()
    return OK


PARTS: dict[str, Callable[[], str]] = {
    "database": database,
    "migrations": migrations,
    "installation": installation,
    "repositories": repositories,
    "disk": disk,
    "worker": jobs,
    "redis": redis,
}


def examine(parts: dict[str, str]) -> None:
    """Fill in the state of each part in turn; a part that fails is described by its error."""
    try:
        for name, part in PARTS.items():
            try:
                parts[name] = part()
            except Exception as error:
                parts[name] = f"{type(error).__name__}: {error}".strip()
    finally:
        connection.close()


@dataclass(frozen=True)
class State:
    """The state of each part: `ok`, or a text for the operator."""

    parts: dict[str, str]
    is_draining: bool

    @property
    def word(self) -> str:
        """`draining`, `unready`, `degraded` or `ready`."""
        bad = {name for name, text in self.parts.items() if text != OK}
        if self.is_draining:
            return DRAINING
        if bad - OPTIONAL:
            return "unready"
        return "degraded" if bad else "ready"

    @property
    def public_word(self) -> str:
        """Load balancers may compare it: a degraded server is ready."""
        return "ready" if self.word == "degraded" else self.word

    @property
    def status(self) -> int:
        return 200 if self.public_word == "ready" else 503

    @property
    def database_answers(self) -> bool:
        return self.parts["database"] == OK

    def record(self) -> dict[str, Any]:
        return {"status": self.word, "parts": self.parts}


class Readiness:
    """Examines the parts at most once a second, however many ask.

    A thread of its own does it: a disk or a database that hangs holds this thread only.
    """

    def __init__(self) -> None:
        self.executor = DaemonExecutor("readiness")
        self.lock = Lock()
        self.begun = 0.0
        self.run: Future[None] | None = None
        self.parts: dict[str, str] = {}
        self.is_draining = False
        self.logged: dict[str, str] = {}

    def drain(self) -> None:
        """From now on the process is not ready. Signal handlers call it."""
        self.is_draining = True

    def state(self) -> State:
        """The state now or up to a second ago; waits for `PATIENCE` seconds at most."""
        run, parts, begun = self._latest()
        with suppress(TimeoutError):
            run.result(max(0.0, begun + PATIENCE - monotonic()))
        late = f"no answer within {PATIENCE:.0f} s"
        state = State({name: parts.get(name, late) for name in PARTS}, self.is_draining)
        self._log(state)
        return state

    def _latest(self) -> tuple[Future[None], dict[str, str], float]:
        with self.lock:
            if self.run is None or (self.run.done() and monotonic() - self.begun >= LASTS):
                self.parts, self.begun = {}, monotonic()
                self.run = self.executor.submit(examine, self.parts)
            return self.run, self.parts, self.begun

    def _log(self, state: State) -> None:
        """Log parts that have become bad: nobody can be staff without a database."""
        bad = {name: text for name, text in state.parts.items() if text != OK}
        if bad.keys() - self.logged.keys():
            logger.warning("Not ready: %s", "; ".join(f"{name}: {bad[name]}" for name in bad))
        self.logged = bad


readiness = Readiness()

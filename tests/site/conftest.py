"""A Redis for tests: that of `REDIS_URL`, or one that is started here if it is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from redis import Redis
from redis.exceptions import RedisError

from apps.site import shared as shared_module
from apps.site.shared import RedisCounters, SharedCounters
from tests.server import PATIENCE
from tests.waiting import eventually

PROGRAM = shutil.which("redis-server") or shutil.which("valkey-server")


class RedisServer:
    """`with RedisServer(folder) as server:` a Redis of the test's own, which may be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        bound = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        self.process = subprocess.Popen(
            [str(PROGRAM), *bound, "--save", "", "--appendonly", "no"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self.answers)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def answers(self) -> bool:
        assert self.process.poll() is None, "Redis does not start"
        client = Redis.from_url(self.url, protocol=2)
        try:
            return bool(client.ping())
        except RedisError:
            return False
        finally:
            client.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


def no_redis() -> None:
    """Skip, or fail in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail("CI needs Redis: REDIS_URL, or an installed redis-server")
    pytest.skip("needs Redis: REDIS_URL, or an installed redis-server")


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis for this test alone."""
    if not PROGRAM:
        no_redis()
    with RedisServer(tmp_path) as server:
        yield server


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Redis that other tests may use."""
    if os.environ.get("REDIS_URL"):
        yield os.environ["REDIS_URL"]
    elif PROGRAM:
        with RedisServer(tmp_path_factory.mktemp("redis")) as server:
            yield server.url
    else:
        no_redis()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers pause a Redis that answers slowly, as on a busy machine. Here they wait for it."""
    monkeypatch.setattr(shared_module, "PATIENCE", PATIENCE)


@pytest.fixture
def redis(redis_url: str, patient: None) -> Iterator[RedisCounters]:
    """Counters with keys of their own, which expire."""
    counters = RedisCounters(redis_url, prefix=f"guildhall-test-{uuid.uuid4().hex}")
    yield counters
    counters.close()


@pytest.fixture
def shared(own_redis: RedisServer, patient: None) -> Iterator[SharedCounters]:
    """Counters on a Redis for this test alone."""
    counters = SharedCounters(RedisCounters(own_redis.url))
    yield counters
    counters.shared.close()


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads switch after a microsecond instead of five milliseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)

"""Transfers in which no bytes are sent."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from config.server import SILENCE, end_silent
from tests.gitclient import Git
from tests.repos.test_git_slots import fill, gits, status, unread_clone
from tests.server import PATIENCE, Server
from tests.waiting import eventually


@pytest.fixture
def pair():
    """Both ends of a connection whose server closes silent ones after a second."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        end_silent(listening, 1)
        with socket.create_connection(listening.getsockname()) as theirs:
            ours, _ = listening.accept()
            with ours:
                yield ours, theirs


def test_a_client_that_takes_nothing_is_cut_off(pair):
    ours, _ = pair
    with pytest.raises(TimeoutError):
        ours.sendall(bytes(64 * 1024 * 1024))


def test_a_thread_waits_for_bytes_no_longer_than_that(pair):
    ours, _ = pair
    with pytest.raises(BlockingIOError):
        ours.recv(1)


@pytest.fixture
def few_files() -> Iterator[int]:
    """Lower the limit of open files by one; processes may raise it to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.once
def test_silent_clients_are_cut_off_and_a_clone_ends_with_its_git(
    tmp_path_factory, new_server, few_files
):
    """The clients send nothing, send half a request, or do not read the answer. All servers run at
    once, because each takes a minute.
    """
    kinds = ["serve", "gunicorn", "gunicorn-asgi"]
    folders = [tmp_path_factory.mktemp(kind) for kind in kinds]
    servers = [new_server(folder, kind) for folder, kind in zip(folders, kinds, strict=True)]
    with ExitStack() as running:
        lines = []
        for server in servers:
            running.enter_context(server)
            for pid in server.pids:
                assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (few_files, few_files)
            idle = [opened(server, sent) for sent in (b"", b"GET / HTTP/1.1\r\n")]
            lines += [running.enter_context(line) for line in idle]
            running.enter_context(
                closing(begin_clone(server, tmp_path_factory.mktemp("clone") / "a"))
            )
            assert gits(server)
        for server in servers:
            eventually(partial(has_no_git, server), within=SILENCE + 2 * PATIENCE)
        for line in lines:
            line.settimeout(SILENCE + 2 * PATIENCE)
            assert line.recv(1) == b""


def begin_clone(server: Server, folder: Path) -> socket.socket:
    """A connection with the answer to a clone that nobody reads."""
    server.api("alice").post("/users/alice/repos", name="Api", slug="api").gives(201)
    url = f"{server.url}/users/alice/api.git"
    head = fill(server, "users/alice/api", Git(folder, url, server.token("alice")))
    clone = unread_clone(server, "users/alice/api", head)
    assert status(clone) == 200
    return clone


def has_no_git(server: Server) -> bool:
    return not gits(server)


def opened(server: Server, sent: bytes) -> socket.socket:
    """A connection on which only these bytes are sent."""
    parts = urlsplit(server.url)
    line = socket.create_connection((str(parts.hostname), parts.port), PATIENCE)
    line.sendall(sent)
    return line

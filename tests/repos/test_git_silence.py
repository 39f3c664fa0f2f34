"""Transfers in which no byte moves."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from config.server import SILENCE, end_silent
from tests.gitclient import Git
from tests.repos.test_git_slots import fill, gits, status, unread_clone
from tests.server import PATIENCE, Server
from tests.waiting import eventually


@pytest.fixture
def pair():
    """Both ends of a connection to a socket that ends silent ones after a second: ours, theirs."""
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


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("kind", ["serve", "gunicorn", "gunicorn-asgi"])
def test_a_silent_clone_ends_with_its_git(tmp_path, tables, django_db_blocker, kind):
    server = Server(tmp_path, kind)
    with django_db_blocker.unblock():
        server.prepare(tables)
    with server:
        server.api("alice").post("/users/alice/repos", name="Api", slug="api").gives(201)
        url = f"{server.url}/users/alice/api.git"
        head = fill(server, "users/alice/api", Git(tmp_path / "a", url, server.token("alice")))
        with closing(unread_clone(server, "users/alice/api", head)) as clone:
            assert status(clone) == 200
            assert gits(server)
            eventually(lambda: not gits(server), within=SILENCE + 2 * PATIENCE)

"""Off-boarding while a push of the person arrives slowly, by real git on a real server."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from tests.gitclient import Git
from tests.server import Server
from tests.tail import opened
from tests.waiting import eventually

HELD_AFTER = 100_000
"""Bytes of the pack that arrive before the rest is held back."""
STATE = """
from apps.events.models import Event
from apps.repos.models import PushJournal, Repo
repo = Repo.objects.get(slug={slug!r})
events = Event.objects.filter(repo_id=repo.pk, kind__startswith="branch-")
print(repo.git.refs() == dict(repo.refs.values_list("full_name", "sha")))
print(PushJournal.objects.filter(repo=repo).exists())
print(*sorted(event.target["name"] for event in events))
"""

# gunicorn has no stream in the process of the API.
pytestmark = pytest.mark.parametrize("server", ["serve"], indirect=True)


class Relay:
    """Passes connections on to a server, and holds back large requests until `release` is set."""

    def __init__(self, server: Server) -> None:
        parts = urlsplit(server.url)
        self.to = (str(parts.hostname), int(parts.port or 80))
        self.release, self.is_held = threading.Event(), threading.Event()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = "http://{}:{}".format(*self.listening.getsockname())
        self.sockets = [self.listening]
        self.threads: list[threading.Thread] = []

    def serve(self) -> None:
        with suppress(OSError):  # `close` ends `accept`
            while True:
                client, _ = self.listening.accept()
                self.sockets.append(client)
                upstream = socket.create_connection(self.to)
                self.sockets.append(upstream)
                self.start(self.upload, client, upstream)
                self.start(self.copy, upstream, client)

    def start(self, work: Any, *sockets: Any) -> None:
        self.threads.append(threading.Thread(target=work, args=sockets))
        self.threads[-1].start()

    def copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def upload(self, client: socket.socket, upstream: socket.socket) -> None:
        passed = 0
        with suppress(OSError):
            while piece := client.recv(16384):
                upstream.sendall(piece)
                passed += len(piece)
                if passed > HELD_AFTER:
                    self.is_held.set()
                    self.release.wait(600)
            upstream.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.release.set()
        for each in self.sockets:
            with suppress(OSError):  # it may be disconnected
                each.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for each in self.sockets:
            each.close()


@contextmanager
def relay(server: Server) -> Iterator[Relay]:
    made = Relay(server)
    made.start(made.serve)
    with closing(made):
        yield made


@pytest.fixture
def leaver(server: Server) -> str:
    """A person who is a member of a team of alice, which has a repository of the same name."""
    name = f"leaver{uuid4().hex[:8]}"
    server.token(name)
    alice = server.api("alice")
    alice.post("/teams", name=name, slug=name).gives(201)
    alice.post(f"/teams/{name}/repos", name=name, slug=name).gives(201)
    alice.post(f"/teams/{name}/members", username=name, role="member").gives(201)
    return name


def work_tree(folder: Path, url: str, server: Server, name: str) -> Git:
    tree = Git(folder, f"{url}/teams/{name}/{name}.git", server.token(name))
    tree.commit("small.txt")
    return tree


def push_slowly(tree: Git) -> Future[CompletedProcess[str]]:
    """Push a commit of a megabyte to the branch `large`."""
    (tree.folder / "large.bin").write_bytes(os.urandom(1_000_000))
    tree.commit("other.txt")
    pool = ThreadPoolExecutor(1)
    return pool.submit(tree.run, "push", tree.url, "HEAD:refs/heads/large")


def quarantines(server: Server) -> list[Path]:
    """The folders of objects of pushes that are under way."""
    return [*server.file.parent.glob("**/tmp_objdir-incoming-*")]


def off_board(server: Server, name: str) -> None:
    server.api("sam").put(f"/users/{name}/offboard", confirm=name).gives()


def state(server: Server, name: str) -> list[str]:
    """The names of branches by their events. Refs, rows and journal have to agree."""
    agree, has_journal, *names = server.run(STATE.format(slug=name)).split()
    assert (agree, has_journal) == ("True", "False")
    return names


def test_a_push_that_arrives_slowly_ends_with_the_account_and_loses_nothing(
    server, leaver, tmp_path
):
    with relay(server) as slow:
        tree = work_tree(tmp_path / "tree", slow.url, server, leaver)
        tree("push", "--quiet", tree.url, "HEAD:refs/heads/small")
        with opened(server, leaver, "scope=self") as stream:
            push = push_slowly(tree)
            assert slow.is_held.wait(60)
            eventually(lambda: quarantines(server))
            off_board(server, leaver)
            while stream.next():
                pass
        # Sooner than the server gives up a client that sends nothing.
        eventually(lambda: not quarantines(server), within=15)
        assert not slow.release.is_set()
        slow.release.set()
        assert push.result(60).returncode != 0
        assert "Authentication failed" in tree.fails("fetch", tree.url)
    assert state(server, leaver) == ["small"]
    branches = server.api("alice").get(f"/teams/{leaver}/repos/{leaver}/branches").gives()
    assert [branch["name"] for branch in branches["results"]] == ["small"]


@pytest.mark.parametrize("first", ["the push", "the off-boarding", "neither"])
def test_a_push_that_ends_as_the_account_is_closed_is_done_or_refused(
    server, leaver, tmp_path, first
):
    """Whichever comes first: git, rows and events agree, and with them the answer of git."""
    with relay(server) as slow:
        tree = work_tree(tmp_path / "tree", slow.url, server, leaver)
        push = push_slowly(tree)
        assert slow.is_held.wait(60)
        if first == "the off-boarding":
            off_board(server, leaver)
        slow.release.set()
        if first == "the push":
            push.result(60)
        if first != "the off-boarding":
            off_board(server, leaver)
        done = push.result(60).returncode == 0
    names = state(server, leaver)
    assert names == (["large"] if done else [])
    assert done or first != "the push"

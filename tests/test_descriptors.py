"""A server that has no file descriptors left refuses requests, loses nothing, and recovers."""

from __future__ import annotations

import errno
import os
import resource
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from subprocess import PIPE

import pytest

from apps.core.errors import as_api_error
from apps.git.run import open_process
from tests.gitclient import Git
from tests.server import Server
from tests.waiting import eventually

pytestmark = pytest.mark.once
HOME = "/users/alice/repos/api"
PEOPLE, ROUNDS = 6, 3
FEW = 12
"""Descriptors that are left to the server, fewer than its people need at once."""


def open_files(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.pids[0]}/fd"))


@contextmanager
def few_files(server: Server) -> Iterator[None]:
    """The server may open `FEW` more files than it has open."""
    pid = server.pids[0]
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_files(server) + FEW, before[1]))
    yield
    if pid in server.children():
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


class Person:
    """Pushes to a branch of their own and opens threads. `pushed` is the last acknowledged head."""

    def __init__(self, server: Server, folder: Path, number: int) -> None:
        self.server, self.name = server, f"b{number}"
        address = f"{server.url}/users/alice/api.git"
        self.git = Git(folder / self.name, address, server.token("alice"))
        self.threads = dict[str, int]()
        """The status of each thread; 0 without an answer."""
        self.refused = 0
        self.push()

    def push(self) -> None:
        head = self.git.commit()
        if self.git.run("push", "--quiet", self.git.url, f"HEAD:{self.name}").returncode:
            self.refused += 1
        else:
            self.pushed = head

    def open_thread(self) -> int:
        title = f"{self.name} {len(self.threads)}"
        self.threads[title] = 0
        with suppress(OSError, HTTPException):
            body = {"title": title, "body": "", "kind": "issue"}
            self.threads[title] = self.server.api("alice").post(f"{HOME}/threads", **body).status
        return self.threads[title]

    def work(self) -> None:
        for _ in range(ROUNDS):
            self.push()
            self.open_thread()

    def check(self) -> None:
        """The branch has everything that was acknowledged, and the server works again."""
        branch = self.server.api("alice").get(f"{HOME}/branches/{self.name}").gives()
        self.git("merge-base", "--is-ancestor", self.pushed, branch["sha"])
        refused = self.refused
        self.push()
        assert (self.refused, self.open_thread()) == (refused, 201)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_file_that_cannot_be_opened_is_503(number):
    refusal = as_api_error(OSError(number, "Too many open files"))
    assert refusal is not None and (refusal.status, refusal.code) == (503, "unavailable")


def test_a_process_that_cannot_be_started_leaves_no_pipe_open():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    used = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 4, hard))
    try:
        with suppress(OSError):
            while True:
                used.append(os.dup(0))
        for _ in range(3):  # one pipe and a half
            os.close(used.pop())
        with pytest.raises(OSError, match="Too many open files"):
            open_process(["true"], stderr=PIPE)
        used += [os.dup(0) for _ in range(3)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in used:
            os.close(number)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["serve", "gunicorn"])
def test_a_server_without_descriptors_loses_nothing_and_recovers(tmp_path, new_server, kind):
    with new_server(tmp_path, kind, WEB_CONCURRENCY="1") as server:
        server.api("alice").post("/users/alice/repos", name="Api", slug="api").gives(201)
        people = [Person(server, tmp_path, number) for number in range(PEOPLE)]
        open_before = open_files(server)
        with few_files(server), ThreadPoolExecutor(PEOPLE) as pool:
            list(pool.map(Person.work, people))
        assert "Too many open files" in server.log
        assert any(person.refused for person in people)
        for person in people:
            person.check()
        check_threads(server, people)
        eventually(lambda: open_files(server) <= open_before + FEW)
        assert ", 0 moves recorded" in server.manage("reconcile")
        assert " 0 differences" in server.manage("check_repos")


def check_threads(server: Server, people: list[Person]) -> None:
    """Acknowledged threads are there, refused ones are not."""
    statuses = {title: status for person in people for title, status in person.threads.items()}
    assert set(statuses.values()) <= {0, 201, 503}
    stored = Counter[str]()
    page = f"{HOME}/threads?per_page=100"
    while page:
        shown = server.api("alice").get(page.removeprefix(server.url)).gives()
        stored += Counter(row["title"] for row in shown["results"])
        page = shown["next"]
    unknown = {title for title, status in statuses.items() if status == 0}
    expected = Counter(title for title, status in statuses.items() if status == 201)
    assert Counter({title: n for title, n in stored.items() if title not in unknown}) == expected

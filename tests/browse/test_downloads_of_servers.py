"""Comparisons, blame and archives of hostile or large repositories, from real servers."""

from __future__ import annotations

import http.client
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from apps.core.slugs import PREFIX
from tests.browse.code import Code
from tests.processes import peak_memory
from tests.repos.test_git_http import api_path
from tests.waiting import eventually

pytestmark = pytest.mark.once
MIB = 1024 * 1024
GROWTH = 64 * MIB
"""Bytes by which the memory of a server may grow."""
PATIENCE = 60.0
"""Seconds. git has ten, but the machine may be busy."""


@pytest.fixture
def code(served_code: Code) -> Code:
    return served_code


class Answer:
    """A server's answer to alice, read while it arrives."""

    def __init__(self, server: Any, address: str) -> None:
        self.connection = server.connect()
        token = {"Authorization": f"Bearer {server.token('alice')}"}
        self.connection.request("GET", f"{PREFIX}{address}", headers=token)
        self.response = self.connection.getresponse()

    def size(self) -> int:
        """The number of bytes that arrive; an error if the answer is incomplete."""
        size = 0
        try:
            while piece := self.response.read(MIB):
                size += len(piece)
        finally:
            self.connection.close()
        return size


def status_of(server: Any, address: str) -> int:
    """The status of an answer, which is read to its end."""
    answer = Answer(server, address)
    answer.size()
    return int(answer.response.status)


def forget_peak(*pids: int) -> None:
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def many_files(code: Code, count: int) -> str:
    """Write a tree of `count` files with the same content."""
    blob = bytes.fromhex(code.store("blob", [b"x\n"], 2))
    return code.store(
        "tree", [body := b"".join(b"100644 %06d\0%b" % (n, blob) for n in range(count))], len(body)
    )


QUESTIONS = [
    "compare/{old}...{new}",
    "compare/{old}...{new}?patch=true&direct=true",
    "compare/{old}...{new}?format=diff",
    "compare/{old}...{new}?format=patch",
    "blame/f?ref={new}",
    "archive?ref={new}",
    "archive?ref={new}&format=zip",
    "archive?ref={new}&format=tar&path=d",
]


HOSTILE = [("serve", "zeros"), ("gunicorn", "zeros"), ("serve", "many"), ("gunicorn", "bomb")]
"""Streamed answers are read from both servers. Bombs and many files are read from one server each:
they are refused only after git has used ten seconds of processor time, several times.
"""


@contextmanager
def stays_small(server: Any) -> Iterator[Callable[[], int]]:
    """Check that the memory of the server grows little. Yields a function of the bytes."""
    forget_peak(*server.pids)
    before = peak_memory(*server.pids)
    yield lambda: peak_memory(*server.pids) - before
    assert peak_memory(*server.pids) - before < GROWTH


@pytest.mark.slow
@pytest.mark.parametrize(("server", "kind"), HOSTILE, indirect=["server"])
def test_what_is_hostile_ends_in_time_and_leaves_the_server_small(server, path, code, kind) -> None:
    old = code.commit_with({b"f": b"1\n"})
    trees = {"bomb": code.tree_bomb, "zeros": lambda: code.tree("100644", {"z": code.zeros(150)})}
    tree = trees[kind]() if kind in trees else many_files(code, 200_000)
    blob = bytes.fromhex(code.store("blob", [b"2\n"], 2))
    body = b"40000 d\0%b100644 f\0%b" % (bytes.fromhex(tree), blob)
    new = code.commit_of(code.store("tree", [body], len(body)), old)
    Answer(server, f"{api_path(path)}/compare/{old}...{old}").size()
    Answer(server, f"{api_path(path)}/archive?ref={old}").size()
    with stays_small(server) as grown:
        for question in QUESTIONS:
            begin = time.monotonic()
            answer = Answer(server, f"{api_path(path)}/{question.format(old=old, new=new)}")
            status, size = answer.response.status, answer.size()
            took = time.monotonic() - begin
            print(f"{kind}: {question}: {status}, {size} bytes, {took:.1f} s, grown by {grown()}")
            assert status in {200, 422}
            assert took < PATIENCE
            assert grown() < GROWTH
    server.api("alice").get(api_path(path)).gives()


@pytest.mark.slow
def test_others_are_answered_while_git_compares_a_bomb(server, path, code) -> None:
    old = code.commit_with({b"f": b"1\n"})
    new = code.commit_of(code.tree_bomb(), old)
    address = f"{api_path(path)}/compare/{old}...{new}"
    Answer(server, f"{api_path(path)}/compare/{old}...{old}").size()
    with stays_small(server), ThreadPoolExecutor() as pool:
        bombs = [pool.submit(status_of, server, address) for _ in range(3)]
        answered = 0
        while not all(bomb.done() for bomb in bombs):
            server.api("alice").get(api_path(path)).gives()
            answered += not all(bomb.done() for bomb in bombs)
    assert {bomb.result() for bomb in bombs} <= {200, 422, 503}
    assert answered > 3


def test_an_archive_comes_whole_and_in_pieces(server, path, code, tmp_path) -> None:
    content = os.urandom(3 * MIB)
    new = code.commit_with({b"a": content, b"b/c": b"x"})
    for form in ("tar", "tar.gz"):
        answer = Answer(server, f"{api_path(path)}/archive?ref={new}&format={form}")
        assert answer.response.status == 200
        (tmp_path / form).write_bytes(answer.response.read())
        answer.connection.close()
        with tarfile.open(tmp_path / form) as opened:
            name = f"{path.rpartition('/')[2]}-{new[:12]}"
            assert {entry.name for entry in opened if entry.isfile()} == {
                f"{name}/a",
                f"{name}/b/c",
            }
            member = opened.extractfile(f"{name}/a")
            assert member is not None and member.read() == content


@pytest.mark.parametrize("form", ["tar", "tar.gz"])
def test_an_archive_that_git_cannot_end_is_broken_off(server, path, code, form) -> None:
    """The client notices that the answer is incomplete, because its end is missing."""
    lost = code.store("blob", [b"lost"], 4)
    new = code.commit_with({b"a": os.urandom(2 * MIB), b"b": b"lost"})
    (code.path / "objects" / lost[:2] / lost[2:]).unlink()
    answer = Answer(server, f"{api_path(path)}/archive?ref={new}&format={form}")
    assert answer.response.status == 200
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer.size()


@pytest.mark.parametrize("form", ["tar", "tar.gz"])
def test_an_archive_that_git_cannot_begin_is_not_begun(server, path, code, form) -> None:
    """503 with `Retry-After`, like other answers for which git fails. Only a zip has begun before
    git reads its first file.
    """
    lost = code.store("blob", [b"lost"], 4)
    new = code.commit_with({b"a": b"lost"})
    (code.path / "objects" / lost[:2] / lost[2:]).unlink()
    before = server.log.count("git failed")
    answer = Answer(server, f"{api_path(path)}/archive?ref={new}&format={form}")
    assert (answer.response.status, answer.response.headers["Retry-After"]) == (503, "1")
    assert answer.response.headers["Content-Type"] == "application/json"
    answer.size()
    eventually(lambda: server.log.count("git failed") > before)  # for the operators


def test_a_large_diff_comes_whole(server, path, code) -> None:
    content = os.urandom(MIB).hex().encode()
    old, new = code.commit_with({}), code.commit_with({b"a": content})
    answer = Answer(server, f"{api_path(path)}/compare/{old}...{new}?format=diff&direct=true")
    assert answer.response.status == 200
    length = int(answer.response.headers["Content-Length"])
    assert answer.size() == length > len(content)

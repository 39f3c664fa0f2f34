"""Reads from real servers while others push, pack, rename, write or disconnect."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psycopg
import pytest

from apps.core.slugs import PREFIX
from apps.git.protocol import FLUSH, ZERO, pkt
from tests.browse.code import Code
from tests.processes import git_processes
from tests.repos.test_git_http import api_path
from tests.server import Server
from tests.waiting import eventually

AT_ONCE = 10
"""Seconds. Waiting for the lock of the database would take twice as long."""
ROUNDS = 6
READS = (
    "compare/{old}...{new}",
    "compare/main...topic",
    "compare/main...topic?format=diff",
    "raw/a?ref=topic",
    "tree?ref=topic",
    "commits?ref=topic",
    "commits/{old}",
    "blame/a",
    "contents/a?ref={old}",
    "archive?format=tar&ref=topic",
    "branches/topic",
)


@pytest.fixture
def code(served_code: Code) -> Code:
    return served_code


@contextmanager
def nobody_writes(server: Server) -> Iterator[None]:
    """Lock the cache, so that storing an answer would wait up to 20 seconds."""
    if url := server.environment.get("DATABASE_URL"):
        with psycopg.connect(url) as holding:
            holding.execute("LOCK TABLE browse_gitcache IN SHARE MODE")
            yield
        return
    with closing(sqlite3.connect(Path(server.environment["DATA_DIR"], "guildhall.db"))) as holding:
        holding.execute("BEGIN IMMEDIATE")
        yield


def test_who_reads_waits_for_nobody_who_writes(server, path, code):
    """An answer that cannot be cached is sent without waiting, and cached the next time."""
    old = code.commit_with({b"a": b"1\n"})
    new = code.commit_with({b"a": b"2\n"}, old)
    alice = server.api("alice")
    ends = [f"compare/{old}...{new}", f"commits?ref={new}", f"blame/a?ref={new}", f"commits/{new}"]
    alice.get(f"{api_path(path)}/tree?ref={new}").gives()  # sets `last_used_at` of the token
    with nobody_writes(server):
        for end in ends:
            began = time.monotonic()
            alice.get(f"{api_path(path)}/{end}").gives()
            assert time.monotonic() - began < AT_ONCE, end
    for end in ends:
        alice.get(f"{api_path(path)}/{end}").gives()
    for sha in (old, new):
        (code.path / "objects" / sha[:2] / sha[2:]).unlink()
    for end in ends:
        alice.get(f"{api_path(path)}/{end}").gives()


@pytest.mark.once
def test_a_path_that_is_no_text_is_told_how_to_send_it(server, path, code):
    """The path is not mistaken for a file whose name contains U+FFFD."""
    sha = code.commit_with(
        {b"\xff": b"1", b"%FF": b"2", "\ufffd".encode(): b"3", b"\xc3\xa9": b"4"}
    )
    alice = server.api("alice")
    for end in ("raw", "contents", "tree", "blame"):
        said = alice.get(f"{api_path(path)}/{end}/%FF?ref={sha}").fails(422, "invalid_path")
        assert "path_base64" in said
    for name, size in (("%25FF", 1), ("%EF%BF%BD", 1), ("%C3%A9", 1)):
        record = alice.get(f"{api_path(path)}/contents/{name}?ref={sha}").gives()
        assert (record["size"], record["path"]) == (size, unquote(name))
    by_bytes = alice.get(f"{api_path(path)}/contents/%FF?path_base64=_w&ref={sha}").gives()
    assert by_bytes["content"] == "MQ=="


@pytest.mark.once
def test_no_protocol_shows_the_refs_that_keep_commits(server, path, git, code):
    """Clients of protocol v0 cannot fetch objects of hidden refs. With protocol v2 they can fetch
    any object by its full name, but only people who could read it know the name.
    """
    ours = git()
    old, new = code.commit_with({b"a": b"1\n"}), code.commit_with({b"a": b"2\n"})
    code.update_ref("refs/heads/main", new, ZERO)
    hidden = {f"refs/versions/1/{n}" for n in (1, 2)} | {f"refs/approved/1/{old}"}
    for name in hidden:
        code.update_ref(name, old, ZERO)
    code.update_ref("refs/pull/1/head", new, ZERO)
    for version in "012":
        speaking = ("-c", f"protocol.version={version}")
        lines = ours(*speaking, "ls-remote", ours.url).splitlines()
        assert {line.split()[1] for line in lines} <= {
            "HEAD",
            "refs/heads/main",
            "refs/pull/1/head",
        }
        for name in hidden:
            assert "couldn't find remote ref" in ours.fails(*speaking, "fetch", ours.url, name)
        assert ours(*speaking, "ls-remote", ours.url, "refs/versions/*", "refs/approved/*") == ""
        if version == "2":
            ours(*speaking, "fetch", "--quiet", ours.url, old)
        else:
            assert "unadvertised" in ours.fails(*speaking, "fetch", ours.url, old)
    assert b"not our ref" in wanting(server, path, old), "whatever the client asks"
    assert b"not our ref" not in wanting(server, path, new)


def wanting(server: Any, path: str, sha: str) -> bytes:
    """The answer of protocol v0 to a client that wants this commit."""
    body = pkt(f"want {sha} ofs-delta\n".encode()) + FLUSH + pkt(b"done\n")
    headers = {"Authorization": f"Bearer {server.token('alice')}"}
    headers["Content-Type"] = "application/x-git-upload-pack-request"
    with closing(server.connect()) as connection:
        connection.request("POST", f"/{path}.git/git-upload-pack", body, headers)
        said: bytes = connection.getresponse().read()
    return said


class Reader(threading.Thread):
    """Reads one URL after the other, and counts the statuses."""

    def __init__(self, server: Any, address: list[str], old: str, new: str) -> None:
        super().__init__(daemon=True)
        self.server, self.address = server, address
        self.ends = [end.format(old=old, new=new) for end in READS]
        self.headers = {"Authorization": f"Bearer {server.token('alice')}"}
        self.statuses = Counter[tuple[str, int]]()
        self.stop, self.problems = threading.Event(), list[str]()

    def run(self) -> None:
        while not self.stop.is_set():
            for end in self.ends:
                try:
                    self.ask(end)
                except (HTTPException, OSError) as error:
                    self.problems.append(f"{end}: {error!r}")

    def ask(self, end: str) -> None:
        with closing(self.server.connect()) as connection:
            path = f"{PREFIX}{self.address[0]}/{end}"
            connection.request("GET", path, headers=self.headers)
            answer = connection.getresponse()
            self.statuses[end, answer.status] += 1
            if answer.status >= 500 and not answer.headers.get("Retry-After"):
                self.problems.append(f"{end}: {answer.status}")
            # An archive ends early if its commit is removed while it is sent.
            with suppress(IncompleteRead) if end.startswith("archive") else nullcontext():
                answer.read()


@pytest.mark.slow
@pytest.mark.once
def test_reads_go_on_while_a_branch_is_forced_packed_and_renamed(server, path, git, code):
    """Commits that the branch had before may be removed at any moment: 404, or 503."""
    ours, alice = git(), server.api("alice")
    ours.commit("a", "0\n")
    ours("push", "--quiet", ours.url, "main")
    old = ours("rev-parse", "main").strip()
    ours("push", "--quiet", ours.url, "main:topic")
    address = [api_path(path)]
    readers = [Reader(server, address, old, old) for _ in range(2)]
    for reader in readers:
        reader.start()
    slug = path.rpartition("/")[2]
    for number in range(ROUNDS):
        ours("commit", "--quiet", "--amend", "--allow-empty", "-m", f"Change {number}")
        ours("push", "--quiet", "--force", ours.url, "main:topic")
        pack(code.path)
        alice.put(address[0], name="Api", slug=f"{slug}-{number}").gives()
        address[0] = f"{address[0].rpartition('/')[0]}/{slug}-{number}"
        ours.url = f"{ours.url.rpartition('/')[0]}/{slug}-{number}.git"
    for reader in readers:
        reader.stop.set()
    for reader in readers:
        reader.join(60)
    assert not [problem for reader in readers for problem in reader.problems]
    statuses = sum((reader.statuses for reader in readers), Counter[tuple[str, int]]())
    assert {status for _, status in statuses} <= {200, 301, 404, 422, 503}, statuses
    assert {end for end, status in statuses if status == 200} >= {"blame/a", f"commits/{old}"}
    assert "Internal Server Error" not in server.log


def pack(store: Path) -> None:
    """Let git remove all objects that no ref reaches."""
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null"}
    command = ["git", f"--git-dir={store}", "gc", "--quiet", "--prune=now"]
    subprocess.run(command, env=env, check=True)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("kind", ["serve", "gunicorn", "gunicorn-asgi"])
def test_who_leaves_in_the_middle_leaves_no_git_and_no_place(new_server, tmp_path, kind):
    """Each caller has one archive slot, so the next archive waits for it."""
    with new_server(tmp_path, kind) as server:
        made = server.api("alice").post("/users/alice/repos", name="Big", slug="big").gives(201)
        [store] = (Path(server.environment["DATA_DIR"]) / "repositories").glob(
            f"*/*/{made['uuid']}.git"
        )
        large = Code(store)
        sha = large.commit_with({b"%d" % n: os.urandom(1 << 20) for n in range(24)})
        headers = {"Authorization": f"Bearer {server.token('alice')}"}
        repo = f"{PREFIX}/users/alice/repos/big"
        for end in ("archive?format=tar", "archive?format=zip", "archive") * 2:
            path = f"{repo}/{end}{'&' if '?' in end else '?'}ref={sha}"
            for _ in range(2):
                with closing(server.connect()) as leaving:
                    leaving.request("GET", path, headers=headers)
                    answer = leaving.getresponse()
                    assert (answer.status, len(answer.read(1000))) == (200, 1000), answer.status
            eventually(lambda: not git_processes(*server.pids))
        with closing(server.connect()) as leaving:
            leaving.request("GET", f"{repo}/blame/0?ref={sha}", headers=headers)
        eventually(lambda: not git_processes(*server.pids))
        for end in (f"compare/{sha}...{sha}", f"commits/{sha}", f"tree?ref={sha}"):
            server.api("alice").get(f"/users/alice/repos/big/{end}").gives()

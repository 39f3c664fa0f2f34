"""apps/git/run.py: every git process runs within its limits."""

from __future__ import annotations

import os
import resource
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from threading import Event, Thread
from typing import IO, Any, cast

import pytest

from apps.git import run
from apps.git.protocol import FLUSH, ZERO, Command, Service, pkt
from apps.git.repo import EMPTY_TREE
from apps.git.run import (
    LIMITS,
    GitError,
    GitProcess,
    GitTooLarge,
    Limits,
    kill_group,
    run_git,
    spawn_service,
    start_git,
)
from tests.git.scratch import Scratch, push_body
from tests.server import PATIENCE
from tests.waiting import eventually

pytestmark = pytest.mark.once

MIB = 1024 * 1024
SMALL_FILES = {"core.bigFileThreshold": "512m"}
NO_MEMORY = "(?i)out of memory|cannot allocate memory"


@contextmanager
def running(process: GitProcess) -> Iterator[tuple[GitProcess, IO[bytes], IO[bytes]]]:
    """A running service with its pipes. It is killed at the end of the block."""
    with process:
        try:
            yield process, cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)
        finally:
            kill_group(process)


def children(process: GitProcess) -> list[int]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in path.read_text().split()]


@contextmanager
def dies(pid: int) -> Iterator[None]:
    """Check that this process, a child of git, has ended soon after the block."""
    handle = os.pidfd_open(pid)
    try:
        yield
        assert select.select([handle], [], [], PATIENCE)[0], f"{pid} is still there"
    finally:
        os.close(handle)


@contextmanager
def half_a_push(repo: Scratch, other: Scratch) -> Iterator[tuple[GitProcess, int]]:
    """A push whose client stopped in the middle of the pack. git and its child are waiting."""
    new = other.commit({"a": os.urandom(1000)})
    body = push_body(other, [Command(ZERO, new, "refs/heads/x")])
    with running(spawn_service(repo.path, Service.RECEIVE_PACK)) as (process, stdin, _):
        stdin.write(body[:-100])
        stdin.flush()
        yield process, eventually(lambda: children(process))[0]


def test_a_subcommand_outside_the_table_is_refused(repo: Scratch) -> None:
    before = run.spawned
    with pytest.raises(KeyError):
        run_git(repo.path, "config", "--list")
    assert run.spawned == before


def test_a_failure_is_typed_and_tells_what_git_said(repo: Scratch) -> None:
    with pytest.raises(GitError, match="cat-file ended with 128: fatal: Not a valid object"):
        run_git(repo.path, "cat-file", "-p", "1" * 40)
    assert run_git(repo.path, "cat-file", "-p", "1" * 40, ok=(128,)).code == 128


def test_git_that_cannot_start_is_a_git_error(repo: Scratch) -> None:
    with pytest.raises(GitError, match="could not start"):
        run_git(repo.path, "rev-list", "x" * 300_000)


def test_the_deadline_counts_from_the_input(repo: Scratch) -> None:
    with start_git(repo.path, "update-ref", "--stdin", stdin=None) as git:
        fed = time.monotonic()
        assert git.feed(b"").ends >= fed + LIMITS["update-ref"].deadline
        git.result()


@pytest.mark.parametrize("command", [("hash-object", "-t", "commit", "-w"), ("update-ref", "-z")])
def test_a_git_whose_input_only_ends_writes_nothing(repo: Scratch, command: list[str]) -> None:
    """This is the end of the server, while git waits."""
    before = [*repo.path.rglob("*")]
    run_git(repo.path, *command, "--stdin", ok=(0, 128))
    assert [*repo.path.rglob("*")] == before


def test_each_process_is_counted(repo: Scratch) -> None:
    before = run.spawned
    repo.refs()
    assert run.spawned == before + 1


def test_a_blob_of_zeros_meets_the_memory_limit(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = repo.tree("100644", {"zeros": repo.zeros(32)})
    assert run_git(repo.path, "diff-tree", "-p", EMPTY_TREE, tree, config=SMALL_FILES).out

    monkeypatch.setitem(LIMITS, "diff-tree", Limits(memory=16 * MIB))
    with pytest.raises(GitTooLarge, match=NO_MEMORY):
        run_git(repo.path, "diff-tree", "-p", EMPTY_TREE, tree, config=SMALL_FILES)


def test_the_memory_limit_holds_from_the_start_on_a_busy_server(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = repo.tree("100644", {"zeros": repo.zeros(32)})
    monkeypatch.setitem(LIMITS, "diff-tree", Limits(memory=16 * MIB))
    done = Event()
    busy = [Thread(target=lambda: all(not done.is_set() for _ in count())) for _ in range(3)]
    for thread in busy:
        thread.start()
    try:
        for _ in range(2):
            with pytest.raises(GitTooLarge, match=NO_MEMORY):
                run_git(repo.path, "diff-tree", "-p", EMPTY_TREE, tree, config=SMALL_FILES)
    finally:
        done.set()
        for thread in busy:
            thread.join()


@pytest.mark.parametrize("prlimit", [resource.prlimit, None], ids=["prlimit", "shell"])
def test_git_gets_its_input_within_its_limits_on_a_busy_server(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch, prlimit: Any
) -> None:
    """The shell sets the limits, or `prlimit` does while git waits for its input."""
    large = repo.store("commit", (bytes(MIB) for _ in range(24)), 24 * MIB)  # read as a whole
    ask = partial(run_git, repo.path, "cat-file", "--batch", stdin=f"{large}\n".encode())
    assert len(ask().out) > 24 * MIB
    done = Event()
    monkeypatch.setattr(run, "_prlimit", prlimit)
    monkeypatch.setitem(LIMITS, "cat-file", Limits(memory=16 * MIB))
    busy = [Thread(target=lambda: all(not done.is_set() for _ in count())) for _ in range(3)]
    for thread in busy:
        thread.start()
    try:
        for _ in range(3):
            with pytest.raises(GitTooLarge, match=NO_MEMORY):
                ask()
    finally:
        done.set()
        for thread in busy:
            thread.join()


@pytest.mark.parametrize(
    ("subcommand", "options"),
    [
        ("cat-file", ["--batch"]),
        ("cat-file", ["--batch-check"]),
        ("cat-file", ["--batch-check=%(objectsize)"]),
        ("cat-file", ["--batch-command", "-z"]),
        ("log", ["-z", "--format=%H", "--max-count=3", "--stdin", "--", "a"]),
        ("rev-list", ["--left-right", "--count", "--stdin"]),
        ("hash-object", ["-t", "commit", "-w", "--stdin"]),
        ("merge-tree", ["--stdin", "--name-only"]),
        ("update-ref", ["--stdin", "-z"]),
    ],
)
def test_what_is_bounded_from_here_does_nothing_before_its_input(
    repo: Scratch, subcommand: str, options: list[str]
) -> None:
    """A waiting git keeps its limits and opens no file of the repository."""
    limits = Limits(memory=123 * MIB, processor=77)
    with running(run._spawn(repo.path, subcommand, options, limits, DEVNULL, None)) as (
        process,
        _,
        _,
    ):
        eventually(lambda: sleeps(process.pid))
        assert {file.name for file in Path(f"/proc/{process.pid}/fd").iterdir()} == {"0", "1", "2"}
        assert str(repo.path) not in Path(f"/proc/{process.pid}/maps").read_text()
        assert resource.prlimit(process.pid, resource.RLIMIT_DATA) == (123 * MIB, 123 * MIB)
        assert resource.prlimit(process.pid, resource.RLIMIT_CPU) == (77, 77)
        assert Path(f"/proc/{process.pid}/comm").read_text() == "git\n"  # no shell in between
        assert not children(process)


def sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_git_that_cannot_be_bounded_is_ended(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def refuse(pid: int, *_: object) -> None:
        started.append(pid)
        raise PermissionError("not here")

    monkeypatch.setattr(run, "_prlimit", refuse)
    with pytest.raises(GitError, match="limits of git could not be set: not here"):
        run_git(repo.path, "cat-file", "--batch", stdin=b"x")
    [pid] = started
    assert not Path(f"/proc/{pid}").exists()


def test_a_tree_bomb_meets_the_memory_limit(repo: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIMITS, "diff-tree", Limits(memory=16 * MIB))
    with pytest.raises(GitTooLarge, match=NO_MEMORY):
        run_git(repo.path, "diff-tree", "--shortstat", EMPTY_TREE, repo.tree_bomb())


def test_a_tree_bomb_meets_the_deadline(repo: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIMITS, "diff-tree", Limits(deadline=0.1))
    with pytest.raises(GitError, match=r"more than 0\.1 s"):
        run_git(repo.path, "diff-tree", "--shortstat", EMPTY_TREE, repo.tree_bomb())


def test_endless_output_meets_the_cap(repo: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = repo.zeros(16)
    assert len(run_git(repo.path, "cat-file", "blob", blob).out) == 16 * MIB

    monkeypatch.setitem(LIMITS, "cat-file", Limits(output=MIB))
    with pytest.raises(GitTooLarge, match="more than 1048576 bytes"):
        run_git(repo.path, "cat-file", "blob", blob)


def test_much_input_and_much_output_do_not_wait_for_each_other(repo: Scratch) -> None:
    stdin = f"{EMPTY_TREE}\n".encode() * 50_000
    assert run_git(repo.path, "cat-file", "--batch-check", stdin=stdin).out.count(b"tree") == 50_000


def test_input_that_git_does_not_read_is_dropped(repo: Scratch) -> None:
    assert run_git(repo.path, "symbolic-ref", "HEAD", stdin=bytes(MIB)).word == "refs/heads/main"


def test_a_client_that_goes_away_takes_the_whole_group_with_it(
    repo: Scratch, other: Scratch
) -> None:
    with half_a_push(repo, other) as (process, child), dies(child):
        kill_group(process)
        assert process.returncode < 0
        kill_group(process)
    assert repo.refs() == {}


class Held(Thread):
    """Starts only when the test says so."""

    def __init__(self, all_held: list[Held], **options: Any) -> None:
        super().__init__(**options)
        all_held.append(self)

    def start(self) -> None:
        pass

    def begin(self) -> None:
        super().start()


def test_a_service_meets_its_deadline_and_so_do_its_children(
    repo: Scratch, other: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test starts the deadline once the child runs, because starting it may take longer."""
    watches: list[Held] = []
    monkeypatch.setattr(run, "SERVICE_LIMITS", Limits(deadline=0.3))
    monkeypatch.setattr(run, "Thread", lambda **options: Held(watches, **options))
    with half_a_push(repo, other) as (process, child), dies(child):
        watches[0].begin()
        assert process.wait(timeout=PATIENCE) < 0


def test_git_that_is_ended_leaves_no_branch_locked(repo: Scratch) -> None:
    head = repo.commit({"a": b"1"})
    lock = repo.path / "refs" / "heads" / "x.lock"
    command = ["git", f"--git-dir={repo.path}", "update-ref", "--stdin"]
    waiting = Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True)
    with running(waiting) as (process, stdin, stdout):
        stdin.write(f"start\ncreate refs/heads/x {head}\nprepare\n".encode())
        stdin.flush()
        assert [stdout.readline(), stdout.readline()] == [b"start: ok\n", b"prepare: ok\n"]
        assert lock.exists()
        kill_group(process)
    assert not lock.exists()


def test_a_service_and_its_children_run_in_one_box(repo: Scratch, other: Scratch) -> None:
    with half_a_push(repo, other) as (process, child):
        for pid in (process.pid, child):
            limits = resource.prlimit(pid, resource.RLIMIT_DATA)
            assert limits == (run.SERVICE_LIMITS.memory, run.SERVICE_LIMITS.memory)
            assert os.getsid(pid) == os.getpgid(pid) == process.pid


def test_a_fetch_may_use_so_much_of_the_processor(repo: Scratch) -> None:
    """A small request can make git walk through all of history many times."""
    seconds = run.FETCH_LIMITS.processor
    assert seconds < run.FETCH_LIMITS.deadline
    with running(spawn_service(repo.path, Service.UPLOAD_PACK)) as (process, _, _):
        limit = partial(resource.prlimit, process.pid, resource.RLIMIT_CPU)
        eventually(lambda: limit() == (seconds, seconds))


def test_nothing_of_the_server_environment_reaches_git(repo: Scratch, other: Scratch) -> None:
    with half_a_push(repo, other) as (process, _):
        pairs = Path(f"/proc/{process.pid}/environ").read_bytes().decode().split("\0")
    seen = dict(pair.split("=", 1) for pair in pairs if pair)
    assert seen["HOME"] == "/nonexistent"
    assert seen["GIT_CONFIG_GLOBAL"] == "/dev/null"
    assert set(seen) <= set(run._ENVIRONMENT) | {"PWD", "OLDPWD", "SHLVL", "_"}
    assert not [name for name in run._ENVIRONMENT if "SECRET" in name or "DATABASE" in name]


@pytest.mark.parametrize(
    ("header", "second"),
    [("", False), ("version=1", False), ("x; rm -rf", False), ("version=2", True)],
)
def test_only_version_2_of_the_protocol_is_passed_on(
    repo: Scratch, header: str, second: bool
) -> None:
    service = spawn_service(repo.path, Service.UPLOAD_PACK, advertise=True, protocol=header)
    with running(service) as (_, _, stdout):
        assert stdout.read().startswith(pkt(b"version 2\n")) == second


def test_a_fetch_streams_what_it_asked_for(repo: Scratch) -> None:
    head = repo.commit({"a": b"1"})
    wants = pkt(f"want {head} ofs-delta\n".encode()) + FLUSH + pkt(b"done\n")
    repo.update_ref("refs/heads/main", head, ZERO)
    with running(spawn_service(repo.path, Service.UPLOAD_PACK)) as (process, stdin, stdout):
        stdin.write(wants)
        stdin.close()
        assert stdout.read().startswith(pkt(b"NAK\n") + b"PACK")
        assert process.wait() == 0

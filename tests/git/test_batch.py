"""apps/git/batch.py: gits that stay answer like gits that end, and never a question of another."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL, SIGSTOP
from threading import Barrier, Thread
from typing import Any

import pytest

from apps.git import batch, run
from apps.git.batch import CONTENT_MAX, Batch, Header, ask
from apps.git.run import LIMITS, GitError, GitTimeout, GitTooLarge, Limits
from apps.git.tree import commits_of, list_tree, parse_entry, read_blob
from tests.browse.code import Code
from tests.git.scratch import Scratch, git, git_bytes
from tests.waiting import eventually

pytestmark = pytest.mark.once
MIB = 1024 * 1024
ROOT = Path(__file__).resolve().parents[2]


def header_of(repo: Scratch, sha: str) -> Header | None:
    [header] = ask(repo.path, lambda git: git.info(sha.encode()))
    return header


def content_of(repo: Scratch, header: Header) -> bytes:
    return ask(repo.path, lambda git: git.contents(header))[0]


def kind_of(repo: Scratch, sha: str) -> str:
    return git(repo.path, "cat-file", "-t", sha).decode()


def blob_in(repo: Scratch, content: bytes = b"1\n") -> str:
    return repo.store("blob", [content], len(content))


def staying() -> list[int]:
    """The process ids of the gits that have no question."""
    return [one.process.pid for one in batch._pool.idle]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ended before or while it was read
        return False


def warm(repo: Scratch) -> int:
    """The process id of a git that stays for this repository."""
    assert header_of(repo, "1" * 40) is None
    [pid] = staying()
    return pid


# Answers


def test_what_is_asked_is_answered_as_by_git(repo: Scratch) -> None:
    commit = repo.commit({"a": b"1\n", "b b": b"\0\n\n"})
    [tree, blob] = git(repo.path, "rev-parse", f"{commit}^{{tree}}", f"{commit}:a").decode().split()
    for sha in (commit, tree, blob):
        header = Header(sha, kind_of(repo, sha), int(git(repo.path, "cat-file", "-s", sha)))
        assert header_of(repo, sha) == header
        content = content_of(repo, header)
        assert content == git_bytes(repo.path, "cat-file", header.kind, sha)
        assert len(content) == header.size
    names = [f"{commit}^{{commit}}", f"{commit}:", f"{commit}:a", f"{commit}:b b", f"{commit}:c\n"]
    headers = ask(repo.path, lambda git: git.info(*(name.encode() for name in names)))
    kinds = ["commit", "tree", "blob", "blob", None]
    assert [header and header.kind for header in headers] == kinds
    assert len(staying()) == 1


def test_a_second_question_starts_no_git(repo: Scratch) -> None:
    sha, before = blob_in(repo), run.spawned
    for _ in range(5):
        assert header_of(repo, sha) == Header(sha, "blob", 2)
    assert run.spawned == before + 1


def test_a_long_question_and_a_long_answer_do_not_wait_for_each_other(repo: Scratch) -> None:
    sha = blob_in(repo).encode()
    headers = ask(repo.path, lambda git: git.info(*[sha] * 20_000))
    assert headers == [Header(sha.decode(), "blob", 2)] * 20_000


def test_a_name_with_nul_and_a_large_object_are_refused(repo: Scratch) -> None:
    sha = blob_in(repo)
    with pytest.raises(ValueError, match="NUL"):
        ask(repo.path, lambda git: git.info(b"%b\0contents x" % sha.encode()))
    with pytest.raises(ValueError, match="too large"):
        ask(repo.path, lambda git: git.contents(Header(sha, "blob", CONTENT_MAX + 1)))


def test_a_larger_file_is_read_by_a_git_that_ends(repo: Scratch) -> None:
    content, pid = os.urandom(CONTENT_MAX + 1), warm(repo)
    sha, before = blob_in(repo, content), run.spawned
    assert read_blob(repo, sha) == content
    assert (run.spawned, staying()) == (before + 1, [pid])


def test_a_damaged_object_is_an_error_each_time(repo: Scratch) -> None:
    sha = blob_in(repo, os.urandom(1000))
    file = repo.path / "objects" / sha[:2] / sha[2:]
    file.write_bytes(file.read_bytes()[:500])
    for _ in range(2):
        with pytest.raises(GitError):
            read_blob(repo, sha)
    good = blob_in(repo)
    assert read_blob(repo, good) == b"1\n"


def test_objects_of_a_dry_run_or_another_repository_are_read_by_a_git_that_ends(
    repo: Scratch, other: Scratch
) -> None:
    sha, before = other.commit({"a": b"1"}), run.spawned
    assert not repo.has_commit(sha)
    assert type(repo)(repo.path, others=other.path).has_commit(sha)
    assert not repo.has_commit(sha)
    assert (run.spawned, len(staying())) == (before + 2, 1)


# One question at a time


def test_two_threads_never_share_a_git(repo: Scratch) -> None:
    sha, together, pids = blob_in(repo).encode(), Barrier(2), []

    def question(git: Batch) -> None:
        pids.append(git.process.pid)
        together.wait(timeout=60)
        assert git.info(sha) == [Header(sha.decode(), "blob", 2)]

    threads = [Thread(target=ask, args=(repo.path, question)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*pids}) == 2
    assert {*staying()} == {*pids}, "both have answered completely"


@pytest.mark.parametrize("error", [GitError, ValueError, KeyboardInterrupt])
def test_after_an_error_a_git_is_ended(repo: Scratch, error: type[BaseException]) -> None:
    pid = warm(repo)

    def question(git: Batch) -> None:
        git.info(b"1" * 40)
        raise error

    with pytest.raises(error):
        ask(repo.path, question)
    assert not lives(pid)
    assert pid not in staying()


def test_a_git_with_an_answer_that_was_read_by_half_is_ended(repo: Scratch) -> None:
    sha, pid = blob_in(repo, b"x" * 200_000).encode(), warm(repo)

    def question(git: Batch) -> Header | None:
        git._send(b"contents", [sha])
        return git._header(sha)

    assert ask(repo.path, question) == Header(sha.decode(), "blob", 200_000)
    assert not lives(pid)
    assert header_of(repo, sha.decode()) == Header(sha.decode(), "blob", 200_000)


def test_a_git_whose_answer_has_not_come_is_ended(repo: Scratch) -> None:
    sha, another, pid = blob_in(repo), blob_in(repo, b"another"), warm(repo)
    os.kill(pid, SIGSTOP)
    ask(repo.path, lambda git: git._send(b"info", [another.encode()]))
    assert not lives(pid)
    assert header_of(repo, sha) == Header(sha, "blob", 2)


def test_a_git_that_wrote_what_nobody_asked_for_is_ended(repo: Scratch) -> None:
    sha, another, pid = blob_in(repo), blob_in(repo, b"another"), warm(repo)
    [one] = batch._pool.idle
    os.write(one.stdin.fileno(), b"info %b\0flush\0" % another.encode())
    eventually(lambda: one.pipes.poll(0))
    assert header_of(repo, sha) == Header(sha, "blob", 2)
    assert not lives(pid)


def test_an_answer_to_another_question_is_an_error(repo: Scratch) -> None:
    def question(git: Batch) -> None:
        git._send(b"info", [b"2" * 40])
        git._header(b"1" * 40)

    with pytest.raises(GitError, match="unexpected"):
        ask(repo.path, question)
    assert not staying()


# Deadlines and limits


def test_a_git_that_does_not_answer_in_time_is_killed(repo: Scratch) -> None:
    pid, calls = warm(repo), []
    os.kill(pid, SIGSTOP)

    def question(git: Batch) -> None:
        calls.append(git)
        git.info(b"1" * 40)

    with pytest.raises(GitTimeout):
        ask(repo.path, question, ends=time.monotonic() + 0.1)
    assert not lives(pid)
    assert len(calls) == 1, "it is not asked again"
    assert header_of(repo, "1" * 40) is None


def test_the_deadline_is_that_of_cat_file(repo: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    os.kill(warm(repo), SIGSTOP)
    monkeypatch.setitem(LIMITS, "cat-file", Limits(deadline=0.1))
    with pytest.raises(GitTimeout):
        header_of(repo, "1" * 40)


def test_a_git_that_stays_is_limited_like_others(repo: Scratch) -> None:
    pid, memory = warm(repo), LIMITS["cat-file"].memory
    assert resource.prlimit(pid, resource.RLIMIT_DATA) == (memory, memory)
    seconds = run.BATCH_PROCESSOR
    assert resource.prlimit(pid, resource.RLIMIT_CPU) == (seconds, seconds)
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    assert {pair for pair in pairs if pair} == {f"{a}={b}" for a, b in run._ENVIRONMENT.items()}
    assert os.getpgid(pid) == os.getsid(pid) == pid


def test_an_object_that_needs_too_much_memory_ends_its_git_alone(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = repo.store("commit", (bytes(MIB) for _ in range(24)), 24 * MIB)  # read as a whole
    monkeypatch.setitem(LIMITS, "cat-file", Limits(memory=16 * MIB))
    warm(repo)
    with pytest.raises(GitTooLarge):
        commits_of(repo, large)
    assert header_of(repo, large) == Header(large, "commit", 24 * MIB)


def test_a_git_that_has_grown_is_ended(repo: Scratch) -> None:
    begin, pid = repo.show(repo.commit({"a": b"1"})).encode(), warm(repo)
    pieces = [begin + b"\n", *[b"x" * MIB] * 40]
    large = repo.store("commit", pieces, sum(map(len, pieces)))
    assert commits_of(repo, large) == [large]  # git keeps a commit that it has parsed
    assert not lives(pid)
    assert commits_of(repo, large) == [large]


# Which gits stay


def test_the_one_that_was_idle_longest_is_ended_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MOST", 2)
    repos = [Scratch(tmp_path / f"{number}.git") for number in range(3)]
    for repo in repos:
        repo.create()
    first = warm(repos[0])
    header_of(repos[1], "1" * 40)
    second = next(pid for pid in staying() if pid != first)
    header_of(repos[0], "1" * 40)
    header_of(repos[2], "1" * 40)
    assert first in staying()
    assert len(staying()) == len(batch._pool.all) == 2
    assert not lives(second)


def test_an_old_git_is_ended(repo: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = warm(repo)
    monkeypatch.setattr(batch, "AGE", 0)
    assert header_of(repo, "1" * 40) is None
    assert not lives(pid)
    assert not staying()


def test_an_idle_git_is_ended_without_a_further_question(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    eventually(lambda: not batch._pool.is_reaping)
    monkeypatch.setattr(batch, "IDLE", 0.05)
    header_of(repo, "1" * 40)
    eventually(lambda: not batch._pool.all)
    eventually(lambda: not batch._pool.is_reaping)


# A git that has gone, or is out of date


def test_a_git_that_was_killed_is_replaced(repo: Scratch) -> None:
    sha, pid = blob_in(repo), warm(repo)
    os.kill(pid, SIGKILL)
    eventually(lambda: not lives(pid))
    assert header_of(repo, sha) == Header(sha, "blob", 2)


def test_a_question_whose_git_dies_is_asked_once_more_and_not_twice(repo: Scratch) -> None:
    sha, calls = blob_in(repo).encode(), []

    def question(git: Batch, deaths: int) -> list[Header | None]:
        calls.append(git.process.pid)
        if len(calls) <= deaths:
            os.kill(git.process.pid, SIGKILL)
        return git.info(sha)

    warm(repo)
    assert ask(repo.path, lambda git: question(git, 1)) == [Header(sha.decode(), "blob", 2)]
    assert len({*calls}) == 2
    calls.clear()
    with pytest.raises(GitError, match="ended with -9"):
        ask(repo.path, lambda git: question(git, 9))
    assert len({*calls}) == 2


def test_what_is_pushed_later_is_found_by_the_same_git(repo: Scratch) -> None:
    pid = warm(repo)
    sha = blob_in(repo)
    assert header_of(repo, sha) == Header(sha, "blob", 2)
    assert staying() == [pid]


@pytest.mark.parametrize("already_asked", [True, False])
def test_what_is_pushed_later_as_a_pack_is_found(
    repo: Scratch, other: Scratch, already_asked: bool
) -> None:
    sha, pid = other.commit({"a": b"1"}), warm(repo)
    if already_asked:
        assert header_of(repo, sha) is None
    repo.fetch_objects(other, sha)
    assert [*(repo.path / "objects" / "pack").glob("*.pack")]
    assert repo.has_commit(sha)
    assert not lives(pid)


def test_a_pack_that_arrives_while_a_git_is_asked_is_found(repo: Scratch, other: Scratch) -> None:
    sha = other.commit({"a": b"1"}).encode()

    def question(git: Batch) -> list[Header | None]:
        assert git.info(sha) == [None]
        repo.fetch_objects(other, sha.decode())
        return git.info(sha)

    [header] = ask(repo.path, question)
    assert header is not None and header.kind == "commit"


@pytest.mark.parametrize("is_packed", [True, False])
def test_what_was_removed_for_good_is_not_found_by_an_old_git(
    repo: Scratch, is_packed: bool
) -> None:
    stays, secret = repo.commit({"a": b"1"}), repo.commit({"a": b"secret"})
    blob = git(repo.path, "rev-parse", f"{secret}:a").decode()
    for name, sha in (("main", stays), ("x", secret)):
        repo.update_ref(f"refs/heads/{name}", sha, "0" * 40)
    if is_packed:
        git(repo.path, "gc", "--quiet")
    assert commits_of(repo, secret, stays) == [secret, stays]
    assert read_blob(repo, blob) == b"secret"
    repo.update_ref("refs/heads/x", "0" * 40, secret)
    git(repo.path, "gc", "--quiet", "--prune=now") if is_packed else git(repo.path, "prune")
    assert commits_of(repo, secret, stays) == [None, stays]
    with pytest.raises(GitError):
        read_blob(repo, blob)


def test_after_upkeep_another_git_answers(repo: Scratch) -> None:
    sha = repo.commit({"a": b"1"})
    repo.update_ref("refs/heads/main", sha, "0" * 40)
    pid = warm(repo)
    git(repo.path, "gc", "--quiet")
    assert repo.has_commit(sha)
    assert not lives(pid)
    [one] = batch._pool.idle
    packs = [os.readlink(file) for file in Path(f"/proc/{one.process.pid}/fd").iterdir()]
    assert not [name for name in packs if "(deleted)" in name]


def test_another_repository_under_the_same_path_is_read_by_another_git(repo: Scratch) -> None:
    old = blob_in(repo, b"old")
    assert read_blob(repo, old) == b"old"
    shutil.rmtree(repo.path)
    with pytest.raises(GitError):
        header_of(repo, old)
    repo.create()
    new = blob_in(repo, b"new")
    assert header_of(repo, old) is None
    assert read_blob(repo, new) == b"new"


# Other processes


def test_a_git_inherits_no_sockets(repo: Scratch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.set_inheritable(True)
        pid = warm(repo)
        assert {file.name for file in Path(f"/proc/{pid}/fd").iterdir()} == {"0", "1", "2"}


FORKS = """
import os, sys
from pathlib import Path
from apps.git import batch
path = Path(sys.argv[1])
batch.ask(path, lambda git: git.info(b"1" * 40))
[old] = batch._pool.idle
pipes = [one.fileno() for one in (old.stdin, old.stdout, old.stderr)]
if not (child := os.fork()):
    assert not batch._pool.all
    open_pipes = {int(name) for name in os.listdir("/proc/self/fd")}
    assert open_pipes.isdisjoint(pipes)
    batch.ask(path, lambda git: print(git.info(b"1" * 40), git is not old, flush=True))
    [own] = batch._pool.idle
    print(own.process.pid, flush=True)
    sys.stdin.read()
    sys.exit()
batch.ask(path, lambda git: print(git is old, file=sys.stderr, flush=True))
print(old.process.pid, file=sys.stderr, flush=True)
os.waitpid(child, 0)
"""


@contextmanager
def forked(repo: Scratch) -> Iterator[Any]:
    command = [sys.executable, "-c", FORKS, str(repo.path)]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_forked_process_has_gits_of_its_own(repo: Scratch) -> None:
    with forked(repo) as process:
        assert process.stderr.readline() == "True\n"
        parents = int(process.stderr.readline())
        assert process.stdout.readline() == "[None] True\n"
        childs = int(process.stdout.readline())
        assert parents != childs
        assert lives(parents) and lives(childs)
        process.kill()  # the child still lives, and waits for its input
        eventually(lambda: not lives(parents))
        assert lives(childs)
        process.stdin.close()
    eventually(lambda: not lives(childs))


@pytest.mark.parametrize("kill", [True, False])
def test_a_git_ends_with_its_process(repo: Scratch, kill: bool) -> None:
    script = FORKS.partition("if not (child")[0] + "print(old.process.pid, flush=True)\n"
    command = [sys.executable, "-c", script + "sys.stdin.read()", str(repo.path)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        assert lives(pid)
        if kill:
            process.kill()
    eventually(lambda: not lives(pid))


# Trees that git reads in another way


@pytest.mark.parametrize(
    "body",
    [
        b"100644 a\0" + b"1" * 19,
        b"x 100644 a\0" + b"1" * 20,
        b"100644 \0" + b"1" * 20,
        b"100844 a\0" + b"1" * 20,
        b"100644 a\0" + b"1" * 20 + b"1",
    ],
)
def test_a_malformed_tree_is_left_to_git(repo: Scratch, body: bytes) -> None:
    tree = repo.store("tree", [body], len(body))
    with pytest.raises(GitError):
        list_tree(repo, tree, start=0, stop=9)


def test_a_folder_is_listed_as_by_ls_tree(tmp_path: Path) -> None:
    code = Code(tmp_path / "code.git")
    code.create()
    modes = ["100644", "0100755", "100664", "120000", "102644", "160000", "40000"]
    blob, folder = blob_in(code), code.tree_with({b"a": b"1"})
    body = b"".join(
        b"%b %d\n\0%b" % (mode.encode(), at, bytes.fromhex(folder if mode == "40000" else blob))
        for at, mode in enumerate(modes)
    )
    tree = code.store("tree", [body], len(body))
    lines = git(code.path, "ls-tree", "-z", tree).split(b"\0")[:-1]
    entries = list_tree(code, tree, start=0, stop=99, sizes=True).entries
    assert [replace(entry, size=None) for entry in entries] == [*map(parse_entry, lines)]
    sizes = [entry.size for entry in entries]
    assert sizes == [2, 2, 2, 2, 2, None, None]

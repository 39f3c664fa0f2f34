"""Pushes with the real git: its output, and the refs that the repository accepts."""

import shlex
import sys
from pathlib import Path
from subprocess import run as run_command
from typing import IO, cast

import pytest

from apps.git import run
from apps.git.protocol import ZERO, Command, PushParser, Service, with_refusals
from apps.git.repo import GitRepo, pull_ref
from apps.git.run import Limits
from tests.git.scratch import Scratch, git, push_body

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[3]
MAIN, SIDE = "refs/heads/main", "refs/heads/side"

REFUSE_ALL = """
import sys
from pathlib import Path
from apps.git.protocol import PushParser, Service, report
from apps.git.run import spawn_service

with spawn_service(Path(sys.argv[2]), Service.RECEIVE_PACK, advertise=True) as git:
    sys.stdout.buffer.write(git.stdout.read())
    sys.stdout.flush()
parser = PushParser()
while not parser.feed(sys.stdin.buffer.read1(7)):
    pass
refused = [(command.ref, sys.argv[1]) for command in parser.request.commands]
sys.stdout.buffer.write(report(refused, sideband=parser.request.sideband))
"""


def push(source: Scratch, target: GitRepo, reason: str, *refspecs: str) -> str:
    """Run `git push` to a receiver that refuses everything; return its output."""
    receiver = f"{shlex.join([sys.executable, '-c', REFUSE_ALL, reason])}"
    command = ["git", f"--git-dir={source.path}", "push", f"--receive-pack={receiver}"]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "LC_ALL": "C"}
    done = run_command(
        [*command, str(target.path), *refspecs], env=env, capture_output=True, check=False
    )
    assert done.returncode != 0
    return done.stderr.decode()


def receive(target: GitRepo, body: bytes) -> bytes:
    """Run receive-pack on a push; return its answer."""
    with target.serve(Service.RECEIVE_PACK) as process:
        return process.communicate(body)[0]


@pytest.fixture
def head(other: Scratch) -> str:
    """A commit in the pusher's repository, with the branches `main` and `side`."""
    sha = other.commit({"a": b"1"})
    for name in (MAIN, SIDE):
        other.update_ref(name, sha, ZERO)
    return sha


@pytest.mark.usefixtures("head")
def test_git_push_prints_the_reason_beside_the_ref(repo: Scratch, other: Scratch) -> None:
    report = push(other, repo, "protected branch", "main", "side")
    assert "! [remote rejected] main -> main (protected branch)" in report
    assert "! [remote rejected] side -> side (protected branch)" in report


def test_of_a_push_git_hears_only_of_the_refs_that_may_move(
    repo: Scratch, other: Scratch, head: str
) -> None:
    body = push_body(other, [Command(ZERO, head, MAIN), Command(ZERO, head, SIDE)])
    parser = PushParser()
    parser.feed(body)
    rest = parser.request.without({MAIN})
    answer = receive(repo, rest + parser.rest)
    report = with_refusals(answer, [(MAIN, "protected branch")], sideband=parser.request.sideband)

    assert repo.refs() == {SIDE: head}
    assert MAIN.encode() not in answer
    assert f"ok {SIDE}\n".encode() in report
    assert f"ng {MAIN} protected branch\n".encode() in report


def test_a_branch_that_is_there_is_not_created_again(
    repo: Scratch, other: Scratch, head: str
) -> None:
    receive(repo, push_body(other, [Command(ZERO, head, MAIN)]))
    another = other.commit({"b": b"2"})
    answer = receive(repo, push_body(other, [Command(ZERO, another, MAIN)]))
    assert f"ng {MAIN} ".encode() in answer
    assert repo.refs() == {MAIN: head}


def test_a_push_runs_no_hook(repo: Scratch, other: Scratch, head: str, tmp_path: Path) -> None:
    hook = repo.path / "hooks" / "post-receive"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    receive(repo, push_body(other, [Command(ZERO, head, MAIN)]))
    assert repo.refs() == {MAIN: head}
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("ref", [pull_ref(1), "refs/notes/x", "refs/replace/x"])
def test_internal_refs_cannot_be_pushed(repo: Scratch, other: Scratch, head: str, ref: str) -> None:
    answer = receive(repo, push_body(other, [Command(ZERO, head, ref)]))
    assert f"ng {ref} deny updating a hidden ref\n".encode() in answer
    assert repo.refs(pulls=True) == {}


def advertised(repo: GitRepo, service: Service) -> bytes:
    with repo.serve(service, advertise=True) as process:
        return cast(IO[bytes], process.stdout).read()


def test_the_head_of_a_pull_can_be_fetched_but_is_not_offered_for_pushing(repo: Scratch) -> None:
    head = repo.commit({"a": b"1"})
    repo.update_ref(MAIN, head, ZERO)
    repo.update_ref(pull_ref(1), head, ZERO)
    assert f"{head} {pull_ref(1)}\n".encode() in advertised(repo, Service.UPLOAD_PACK)
    assert b"refs/scratch" not in advertised(repo, Service.UPLOAD_PACK)
    assert b"refs/pull" not in advertised(repo, Service.RECEIVE_PACK)


def test_broken_objects_are_not_taken(repo: Scratch, other: Scratch) -> None:
    tree = other.tree("100644", {".git": other.store("blob", [b"x"], 1)})
    broken = other.commit_of(tree)
    answer = receive(repo, push_body(other, [Command(ZERO, broken, MAIN)]))
    assert b"hasDotgit" in answer
    assert repo.refs() == {}
    assert not repo.has_commit(broken)


def test_a_blob_of_zeros_pushes_within_the_box(
    repo: Scratch, other: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SERVICE_LIMITS", Limits(memory=32 << 20))
    head = other.commit_of(other.tree("100644", {"zeros": other.zeros(40)}))
    body = push_body(other, [Command(ZERO, head, MAIN)])
    assert len(body) < 1_000_000
    receive(repo, body)
    assert repo.refs() == {MAIN: head}
    assert git(repo.path, "cat-file", "-s", f"{head}:zeros") == b"%d" % (40 << 20)

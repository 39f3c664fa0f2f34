"""apps/git/graph.py: changed paths in the commit-graph, and the allowance of time for them."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from subprocess import DEVNULL, Popen

import pytest

from apps.git import graph, run
from apps.git.protocol import ZERO
from apps.git.run import GitError, Limits
from tests.git.scratch import Scratch, git

pytestmark = pytest.mark.once
MAIN = "refs/heads/main"
FILTERS = b"BDAT"
"""The id of the chunk with the Bloom filters; see gitformat-commit-graph(5)."""


def with_filters(repo: Scratch) -> list[bool]:
    """For each layer of the graph, whether it has Bloom filters."""
    layers = (repo.path / "objects" / "info" / "commit-graphs").glob("*.graph")
    return [FILTERS in layer.read_bytes() for layer in layers]


def hostile(repo: Scratch, *parents: str) -> str:
    """A commit of nested folders without files, of which git would visit 12 to the power of 9."""
    folder = repo.tree("40000", {})
    for _ in range(9):
        folder = repo.tree("40000", {f"{n:02}": folder for n in range(12)})
    folder = repo.tree("40000", {f"{len(parents)}": folder})
    return repo.commit_of(folder, *parents)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "ALLOWANCE", 0.5)
    monkeypatch.setattr(graph, "FREE", 0.0)
    monkeypatch.setitem(run.LIMITS, "commit-graph", Limits(deadline=1))


def grow(repo: Scratch, count: int, *, begin: str = ZERO) -> str:
    """Add commits to main, each with its own file; return the last."""
    head = begin
    for n in range(count):
        new = repo.commit({f"{head[:6]}{n}": b"1"}, *([head] if head != ZERO else []))
        repo.update_ref(MAIN, new, head)
        head = new
    return head


def test_changed_paths_are_written_and_what_is_new_is_added(repo: Scratch) -> None:
    head = grow(repo, 40)
    repo.upkeep()
    assert with_filters(repo) == [True]
    grow(repo, 1, begin=head)
    repo.upkeep()
    assert with_filters(repo) == [True, True]
    assert graph.seconds_spent(repo.path) < graph.ALLOWANCE


@pytest.mark.usefixtures("short")
def test_a_hostile_repository_costs_its_time_once_and_is_kept_without_changed_paths(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hostile(repo)
    repo.update_ref(MAIN, first, ZERO)
    repo.upkeep()
    assert with_filters(repo) == [False]
    assert graph.seconds_spent(repo.path) >= graph.ALLOWANCE
    os.utime(repo.path / graph.SPENT, (0, 0))  # nor the next day
    monkeypatch.setitem(run.LIMITS, "commit-graph", Limits(deadline=0.5, processor=1))
    repo.update_ref(MAIN, hostile(repo, first), first)
    calls = run.spawned
    graph.write_graph(repo.path)
    assert run.spawned == calls + 1


@pytest.mark.usefixtures("short")
def test_layers_that_have_changed_paths_go_on_without_when_hostile_commits_come(
    repo: Scratch,
) -> None:
    head = grow(repo, 3)
    repo.upkeep()
    assert with_filters(repo) == [True]
    repo.update_ref(MAIN, hostile(repo, head), head)
    repo.upkeep()
    assert not all(with_filters(repo))
    assert len(git(repo.path, "log", "--format=%H", MAIN, "--", "nothing")) == 0
    assert len(git(repo.path, "rev-list", MAIN).splitlines()) == 4


def test_what_a_day_has_cost_is_forgotten_the_next_if_it_was_within_the_allowance(
    repo: Scratch,
) -> None:
    (repo.path / graph.SPENT).write_text("12.5")
    assert graph.seconds_spent(repo.path) == 12.5
    os.utime(repo.path / graph.SPENT, (0, 0))
    assert graph.seconds_spent(repo.path) == 0


def test_what_is_wrong_for_another_reason_is_told_and_no_allowance_is_lost(repo: Scratch) -> None:
    repo.update_ref(MAIN, repo.commit({"a": b"1"}), ZERO)
    lock = repo.path / "objects" / "info" / "commit-graphs" / "commit-graph-chain.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    calls = run.spawned
    with pytest.raises(GitError, match="commit-graph-chain"):
        graph.write_graph(repo.path)
    assert run.spawned == calls + 1  # a second run, without changed paths, might succeed
    assert graph.seconds_spent(repo.path) < 1
    repo.remove_leftovers(0)
    graph.write_graph(repo.path)
    assert with_filters(repo) == [True]


@pytest.mark.slow
def test_pushes_go_on_while_a_repository_is_tidied_again_and_again(repo: Scratch) -> None:
    """Branches are created, moved and deleted meanwhile, and none is lost."""
    first = grow(repo, 1)
    stop, failed = threading.Event(), list[BaseException]()

    def tidy() -> None:
        while not stop.is_set():
            try:
                repo.upkeep()
            except BaseException as error:
                failed.append(error)
                return

    worker = threading.Thread(target=tidy)
    worker.start()
    try:
        head = first
        for n in range(40):
            head = grow(repo, 1, begin=head)
            assert repo.update_ref(f"refs/heads/b{n}", head, ZERO)
            if n % 2:
                assert repo.update_ref(f"refs/heads/b{n - 1}", ZERO, head_of(repo, n - 1))
    finally:
        stop.set()
        worker.join()
    assert failed == []
    assert repo.ref(MAIN) == head
    expected = {f"refs/heads/b{n}" for n in range(1, 40, 2)} | {MAIN}
    assert {*repo.refs()} == expected
    assert len(git(repo.path, "rev-list", MAIN).splitlines()) == 41
    git(repo.path, "fsck", "--strict", "--connectivity-only")


def head_of(repo: Scratch, n: int) -> str:
    head = repo.ref(f"refs/heads/b{n}")
    assert head
    return head


UPKEEP = (
    ("pack-refs", "--all"),
    ("gc", "--quiet"),
    ("commit-graph", "write", "--reachable", "--changed-paths", "--split"),
)


def files(path: Path) -> set[str]:
    names = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
    left = ("lock", "tmp", ".new", "gc.pid")
    return {name for name in names if any(part in name for part in left)}


@pytest.mark.slow
def test_of_a_killed_upkeep_nothing_is_left(repo: Scratch) -> None:
    """Kill each of its git processes at moments spread over its duration."""
    head = grow(repo, 300)
    for step in UPKEEP:
        for n in range(12):
            repo.update_ref(f"refs/heads/{step[0]}{n}", head, ZERO)
            command = ["git", f"--git-dir={repo.path}", *step]
            process = Popen(command, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)
            threading.Event().wait(0.002 * n)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            repo.remove_leftovers(0)
            assert files(repo.path) == set()
    repo.upkeep()
    assert len(git(repo.path, "rev-list", MAIN).splitlines()) == 300
    assert len(repo.refs()) == 1 + 12 * len(UPKEEP)

"""apps/git/merge.py gives the trees and the conflicts of git in a work tree."""

from __future__ import annotations

import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import event, given, settings

from apps.git.merge import (
    Built,
    Conflict,
    FastForwardImpossible,
    NothingToMerge,
    Outcome,
    Strategy,
    StrategyDiffers,
    build,
)
from tests.git.histories import History, branches
from tests.git.scratch import ALICE, Scratch, git

pytestmark = pytest.mark.once

IN_ALL, IN_PLAIN_RUN = 60 if "CI" in os.environ else 200, 15
REBASE = ("rebase", "--quiet", "--no-fork-point", "--reapply-cherry-picks", "--empty=drop", "ours")


class WorkTree:
    """A bare repository with the branches `ours` and `theirs`, with a work tree per merge."""

    def __init__(self, folder: Path, bare: Scratch, history: History) -> None:
        self.folder, self.bare, self.count = folder, bare, 0
        self.begin()
        self.git("init", "--quiet")
        self.git("fast-import", "--quiet", stdin=history.stream())

    def begin(self) -> None:
        self.count += 1
        self.tree = self.folder / f"tree-{self.count}"
        self.tree.mkdir()

    def git(self, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C"}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        env |= {"GIT_DIR": str(self.folder / "git"), "GIT_WORK_TREE": str(self.tree)}
        env |= {"GIT_OBJECT_DIRECTORY": str(self.bare.path / "objects"), "GIT_EDITOR": "true"}
        env |= {"GIT_INDEX_FILE": str(self.folder / f"index-{self.count}")}
        for role in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{role}_NAME": "A", f"GIT_{role}_EMAIL": "a@example.org"}
        return subprocess.run(
            ["git", *args], cwd=self.tree, env=env, input=stdin, capture_output=True, check=False
        )

    def sha(self, name: str) -> str:
        return self.git("rev-parse", "--verify", "--quiet", name).stdout.decode().strip()

    def result(self, at: str, *command: str) -> str | Conflict:
        """Run a command at a commit; return the tree, or the paths in conflict."""
        self.begin()
        assert self.git("checkout", "--quiet", "--force", "--detach", at).returncode == 0
        done = self.git(*command)
        if done.returncode == 0:
            return self.git("write-tree").stdout.decode().strip()
        assert b"CONFLICT" in done.stdout + done.stderr, done
        self.git("rebase", "--quit")
        names = self.git("ls-files", "--unmerged", "-z").stdout.decode("utf-8", "replace")
        # `<mode> <object> <stage>\t<path>`; a path moved aside is `path~HEAD`, or `path~theirs`.
        paths = {
            re.sub(r"~[^/]*", "", entry.partition("\t")[2]) for entry in names.split("\0") if entry
        }
        return Conflict(tuple(sorted(paths)))


def outcome_of(bare: Scratch, strategy: Strategy, ours: str, theirs: str) -> Outcome | str:
    """The outcome of `build`, with the tree if a commit was built."""
    now = datetime.now(UTC)
    outcome = build(
        bare, strategy, ours, theirs, author=ALICE, committer=ALICE, message="m", when=now
    )
    return tree_of(bare, outcome.sha) if isinstance(outcome, Built) else outcome


def tree_of(bare: Scratch, sha: str) -> str:
    return git(bare.path, "rev-parse", f"{sha}^{{tree}}").decode()


def check(history: History) -> None:
    with TemporaryDirectory() as name:
        bare = Scratch(Path(name) / "bare.git")
        bare.create()
        work = WorkTree(Path(name), bare, history)
        ours, theirs = work.sha("ours"), work.sha("theirs")
        expected = expect(work, ours, theirs)
        outcomes = {each: outcome_of(bare, each, ours, theirs) for each in Strategy}
        for strategy, outcome in expected.items():
            event(f"{history.shape}: {strategy} {kind_of(outcome)}")
        assert outcomes == expected


def kind_of(outcome: Outcome | str) -> str:
    """Count outcomes: `bin/test --hypothesis-show-statistics` prints them."""
    if isinstance(outcome, Conflict):
        return "conflict with paths" if outcome.paths else "conflict"
    return "built" if isinstance(outcome, str) else type(outcome).__name__


def expect(work: WorkTree, ours: str, theirs: str) -> dict[Strategy, Outcome | str]:
    """The outcome of git's own merge, as an `Outcome`."""
    base = work.git("merge-base", "ours", "theirs").stdout.decode().strip()
    if base == theirs:
        return dict.fromkeys(Strategy, NothingToMerge())
    forward = work.result(ours, "merge", "--ff-only", "theirs") if base == ours else None
    expected: dict[Strategy, Outcome | str] = {
        Strategy.FAST_FORWARD: forward or FastForwardImpossible()
    }
    combining = (Strategy.MERGE, Strategy.SQUASH, Strategy.REBASE)
    if not base:  # git refuses unrelated histories, and so does `build` for all three strategies
        return expected | dict.fromkeys(combining, Conflict())
    merged = work.result(ours, "merge", "--no-ff", "--no-edit", "theirs")
    if isinstance(merged, Conflict):
        return expected | dict.fromkeys(combining, merged)
    squashed = work.result(ours, "merge", "--squash", "theirs")
    replayed = work.result(theirs, *REBASE)
    rebased = rebase_of(work, replayed, merged, ours) if isinstance(replayed, str) else replayed
    nothing = squashed == tree_of(work.bare, ours)
    return expected | {
        Strategy.MERGE: merged,
        Strategy.SQUASH: NothingToMerge() if nothing else squashed,
        Strategy.REBASE: rebased,
    }


def rebase_of(work: WorkTree, rebased: str, merged: str, ours: str) -> Outcome | str:
    """A rebase with another tree than the merge is refused; a rebase may leave nothing to merge."""
    if rebased != merged:
        return StrategyDiffers()
    return NothingToMerge() if work.sha("HEAD") == ours else rebased


@settings(max_examples=IN_PLAIN_RUN, derandomize=True)
@given(branches())
def test_merges_are_those_of_the_program(history: History) -> None:
    check(history)


@pytest.mark.slow
@settings(max_examples=IN_ALL)
@given(branches())
def test_many_merges_are_those_of_the_program(history: History) -> None:
    check(history)

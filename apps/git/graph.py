"""The commit-graph of a repository, with the paths that each commit changes: Bloom filters, by
which git finds the history of one path several times faster.

To make them git compares trees. It stops at 512 changes, but few kilobytes of folders that hold no
file have none, and take it hours. So each repository has an allowance of time for them.
"""

import time
from pathlib import Path
from typing import Final

from apps.git.run import GitError, GitTooLarge, run_git

ALLOWANCE: Final = 50.0
"""Seconds a day that git may take for the changed paths of a repository. One that needs more is
kept without them from then on; git/git, with 200,000 commits, takes 18 once.
"""
FREE: Final = 1.0
"""Seconds of each run that do not count: a repository may be pushed to each minute of the day."""
SPENT: Final = "changed-paths-spent"
"""A file of the repository: the seconds since it had none. It begins anew when it is a day old and
its allowance is not used up, and when somebody removes it.
"""
_DAY: Final = 24 * 3600
_WRITE: Final = ("write", "--reachable", "--split")


def write_graph(git_dir: Path) -> None:
    """Add what is new to the commit-graph. `GitError` when git cannot read the repository.

    Takes as long as `LIMITS` has it for `commit-graph`; with the changed paths at most once.
    """
    if seconds_spent(git_dir) < ALLOWANCE and _write_changed_paths(git_dir):
        return
    run_git(git_dir, "commit-graph", *_WRITE, "--no-changed-paths")


def _write_changed_paths(git_dir: Path) -> bool:
    """False when there is no time or no memory for them; another `GitError` is the caller's."""
    begun = time.monotonic()
    try:
        run_git(git_dir, "commit-graph", *_WRITE, "--changed-paths")
    except GitTooLarge:
        return False
    except GitError:
        if time.monotonic() - begun < ALLOWANCE:
            raise
        return False
    finally:
        _note(git_dir, time.monotonic() - begun - FREE)
    return True


def replace_graph(git_dir: Path) -> None:
    """Write all of it anew, so that it names no commit that is gone. It has no changed paths
    until the next write adds some.
    """
    run_git(git_dir, "commit-graph", "write", "--reachable", "--split=replace")


def seconds_spent(git_dir: Path) -> float:
    """What this day's runs have taken. Who has come to the end of an allowance stays there."""
    file = git_dir / SPENT
    try:
        spent = float(file.read_text())
        is_over = time.time() - file.stat().st_mtime > _DAY
    except (FileNotFoundError, ValueError):
        return 0.0
    return 0.0 if is_over and spent < ALLOWANCE else spent


def _note(git_dir: Path, seconds: float) -> None:
    if seconds > 0:
        (git_dir / SPENT).write_text(f"{seconds_spent(git_dir) + seconds:.1f}")

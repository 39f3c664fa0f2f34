"""The commit-graph of a repository, with Bloom filters of the paths that each commit changes, with
which git finds the history of a path several times faster. To make them git compares trees. A few
kilobytes of nested folders without files can keep it busy for hours, so each repository has a daily
allowance of time for them.
"""

import time
from pathlib import Path
from typing import Final

from apps.git.run import GitError, GitTooLarge, run_git

ALLOWANCE: Final = 50.0
"""Seconds a day that git may spend on the changed paths of a repository. One that needs more gets
no changed paths from then on. git/git, with 200,000 commits, takes 18 seconds once.
"""
FREE: Final = 1.0
"""Seconds of each run that do not count, for repositories with a push every minute."""
SPENT: Final = "changed-paths-spent"
"""A file in the repository with the seconds spent. The count starts again once the file is a day
old, unless the allowance is used up, or when an operator removes the file.
"""
_DAY: Final = 24 * 3600
_WRITE: Final = ("write", "--reachable", "--split")


def write_graph(git_dir: Path) -> None:
    """Add new commits to the commit-graph. `GitError` if git cannot read the repository.

    Runs git once or twice, each time within the limits of `commit-graph`.
    """
    if seconds_spent(git_dir) < ALLOWANCE and _write_changed_paths(git_dir):
        return
    run_git(git_dir, "commit-graph", *_WRITE, "--no-changed-paths")


def _write_changed_paths(git_dir: Path) -> bool:
    """False if time or memory does not suffice. Other errors are raised."""
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
        _add_seconds(git_dir, time.monotonic() - begun - FREE)
    return True


def replace_graph(git_dir: Path) -> None:
    """Rewrite the whole commit-graph, without commits that no longer exist. It has no changed paths
    until the next `write_graph`.
    """
    run_git(git_dir, "commit-graph", "write", "--reachable", "--split=replace")


def seconds_spent(git_dir: Path) -> float:
    """Seconds spent in the current day. A used-up allowance is not renewed the next day."""
    file = git_dir / SPENT
    try:
        spent = float(file.read_text())
        is_over = time.time() - file.stat().st_mtime > _DAY
    except (FileNotFoundError, ValueError):
        return 0.0
    return 0.0 if is_over and spent < ALLOWANCE else spent


def _add_seconds(git_dir: Path, seconds: float) -> None:
    if seconds > 0:
        (git_dir / SPENT).write_text(f"{seconds_spent(git_dir) + seconds:.1f}")

"""Scripts that replace git."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.git import batch, run
from apps.git.run import LIMITS


@contextmanager
def failing_git(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, status: int = 1
) -> Iterator[None]:
    """Let every git fail in this block, also commands for which status 1 is an answer."""
    with _as_git(f"exit {status}", folder, monkeypatch):
        yield


@contextmanager
def slow_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let git never end in this block, with a deadline of half a second for reading objects."""
    with _as_git("exec sleep 600", folder, monkeypatch), monkeypatch.context() as impatient:
        impatient.setitem(LIMITS, "cat-file", run.Limits(deadline=0.5))
        yield


@contextmanager
def _as_git(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    script = folder / "stand-in" / "git"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!/bin/sh\n{command}\n")
    script.chmod(0o755)
    batch.end_idle()  # they are the real git
    with monkeypatch.context() as patched:
        patched.setitem(run._ENVIRONMENT, "PATH", f"{script.parent}:/usr/bin:/bin")
        yield

"""A git that fails, whatever it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.git import run


@contextmanager
def failing_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside, what the server runs as `git` is a script that fails."""
    script = folder / "failing" / "git"
    script.parent.mkdir(exist_ok=True)
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setitem(run._ENVIRONMENT, "PATH", f"{script.parent}")
        yield

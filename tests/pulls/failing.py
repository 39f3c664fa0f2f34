"""A git that always fails, to show that code does not run git."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.git import run


@contextmanager
def no_git(folder: Path) -> Iterator[None]:
    """Inside this block, `git` is a script that fails."""
    script = folder / "failing" / "git"
    script.parent.mkdir(exist_ok=True)
    script.write_text("#!/bin/sh\necho 'fatal: no git' >&2\nexit 1\n")
    script.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(run._ENVIRONMENT, "PATH", f"{script.parent}:/bin")
        yield

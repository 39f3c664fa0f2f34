"""Upgrades from earlier versions, and earlier versions on today's tables.

`v1.0.0/` has an installation of that version, made by `make.py`: see the README there.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.server import ROOT

COMMITS = {"v1.0.0": "9ea5105e5ec8954d5b23bfba1dca700083e66ddd"}
"""The commit of each version that has no tag."""
PREVIOUS = "v1.0.0"
"""The version before this one."""
FOLDER = Path(__file__).parent
BASE_URL = "http://guildhall.example"
"""The address in stored answers."""


def checkout(version: str, folder: Path) -> Path:
    """The tree of a version, with today's packages. Skips where the history lacks it, but not in
    CI.
    """
    commit = COMMITS.get(version, version)
    command = ["git", "-C", str(ROOT), "archive", commit]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode and "CI" not in os.environ:
        pytest.skip(f"the history of this clone has no {version}; git fetch --unshallow")
    assert archive.returncode == 0, archive.stderr.decode()
    unpack(archive.stdout, folder)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def unpack(archive: bytes, folder: Path) -> None:
    """Write the files of a tar archive into a new folder, readable for this user alone."""
    folder.mkdir(mode=0o700)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)

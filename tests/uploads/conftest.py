"""Fixtures for uploads: a folder for files in each test, an internal repository, a picture."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.repos.models import Repo, Visibility
from tests.api import Answer

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(autouse=True)
def uploads_dir(settings: Any, tmp_path: Path) -> Path:
    settings.UPLOADS_DIR = tmp_path / "uploads"
    return tmp_path / "uploads"


@pytest.fixture
def open_repo(team_repo: Repo) -> Repo:
    """An internal repository, which carol, a stranger, can read."""
    team_repo.visibility = Visibility.INTERNAL
    team_repo.save(update_fields=["visibility"])
    return team_repo


@pytest.fixture
def upload(api: Any, open_repo: Repo) -> Callable[..., Answer]:
    """`upload(carol, "a.txt", b"…")`: the response to this upload by carol."""

    def post(person: Any, filename: Any = "notes.txt", content: bytes = b"Slow.\n") -> Answer:
        text = base64.b64encode(content).decode()
        path = f"{open_repo.api_path}/uploads"
        answer: Answer = api(person).post(path, filename=filename, content_base64=text)
        return answer

    return post


def files(folder: Path) -> list[str]:
    """The names of all files below a folder."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file())

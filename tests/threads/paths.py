"""Addresses of threads and replies below /api/v1."""

from __future__ import annotations

from apps.repos.models import Repo
from apps.threads.models import Reply, Thread


def threads(repo: Repo) -> str:
    return f"{repo.api_path}/threads"


def thread(row: Thread) -> str:
    return f"{threads(row.repo)}/{row.number}"


def replies(row: Thread) -> str:
    return f"{thread(row)}/replies"


def reply(row: Reply) -> str:
    return f"{replies(row.thread)}/{row.number}"


def versions(row: Thread | Reply) -> str:
    return f"{thread(row) if isinstance(row, Thread) else reply(row)}/versions"

"""Addresses of pulls and reviews."""

from __future__ import annotations

from apps.pulls.models import Pull, Review
from apps.repos.models import Repo


def pulls(repo: Repo) -> str:
    return f"{repo.api_path}/pulls"


def pull(row: Pull) -> str:
    return f"{pulls(row.repo)}/{row.number}"


def reviews(row: Pull) -> str:
    return f"{pull(row)}/reviews"


def review(row: Review) -> str:
    return f"{reviews(row.pull)}/{row.uuid}"

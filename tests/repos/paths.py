"""API paths of branch protections and their approvers."""

from __future__ import annotations

from apps.repos.models import Protection, Repo


def protections(repo: Repo) -> str:
    return f"{repo.api_path}/protections"


def protection(row: Protection) -> str:
    return f"{protections(row.repo)}/{row.uuid}"


def approvers(row: Protection) -> str:
    return f"{protection(row)}/approvers"

"""Queries for statuses of commits."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from django.db.models import Q

from apps.core.statements import Statement, padded, parameters
from apps.repos.models import Repo
from apps.statuses.models import NO_STATUS, CommitChecks, CommitStatus, CommitStatusQuerySet

Commit = tuple[int, str]
"""The id of a repository, and a commit in it."""


def list_statuses(repo: Repo, sha: str) -> CommitStatusQuerySet:
    """The statuses of a commit, newest first."""
    return CommitStatus.objects.of_commit(repo, sha).select_related("created_by").order_by("-id")


def latest_statuses(repo: Repo, sha: str) -> CommitStatusQuerySet:
    """The latest status of each context, by context."""
    latest = CommitStatus.objects.of_commit(repo, sha).latest_by("context")
    return latest.select_related("created_by").order_by("context")


def states_of(commits: Collection[Commit]) -> dict[Commit, str]:
    """The combined states of the commits that have statuses; one query, none for no commit."""
    if not commits:
        return {}
    repos = padded({repo for repo, _ in commits})
    shas = padded({sha for _, sha in commits})
    rows = _states(len(repos), len(shas)).all(repos=repos, shas=shas)
    return {(repo, sha): state for repo, sha, state in rows}


@cache
def _states(repos: int, shas: int) -> Statement:
    # `repo__in` accepts only numbers.
    in_repos = Q(*(("repo", repo) for repo in parameters("repos", repos)), _connector=Q.OR)
    rows = CommitChecks.objects.filter(in_repos, sha__in=parameters("shas", shas))
    return Statement(lambda: rows.values_list("repo_id", "sha", "state"))


def checks_record(states: dict[Commit, str], repo: int, sha: str | None) -> dict[str, str | None]:
    """The property `checks` of commits and pulls."""
    return {"state": states.get((repo, sha or ""), NO_STATUS), "sha": sha}

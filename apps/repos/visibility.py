"""Keeps forks from being more visible than their upstream, also when the upstream is hidden later.

Repositories are locked from fork to upstream, in the order of a push to a fork with a pull.
"""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from apps.core.errors import Invalid, unavailable
from apps.core.locks import lock
from apps.repos.access import RepoAccess
from apps.repos.models import RANK, Repo

TRIES = 5
"""Most attempts to lock all forks, if new forks appear each time."""


def check_visibility(repo: Repo, visibility: str) -> None:
    """422 for a fork that would become more visible than its upstream. Locks the upstream."""
    if RANK[visibility] <= RANK[repo.visibility] or repo.upstream is None:
        return
    lock(repo.upstream)
    if RANK[visibility] > RANK[repo.upstream.visibility]:
        text = "A fork may not be more visible than its upstream"
        raise Invalid("validation_failed", f"visibility: {text}: {repo.upstream.visibility}.")


def lock_with_forks(by: RepoAccess, visibility: str | None) -> list[Repo]:
    """Lock the forks that must be hidden too, and then the repository; return the forks, deepest
    first. 503 if new forks keep appearing. The caller checks whether the repository may be changed.

    Forks are locked first, but can be found only while the repository is locked. Therefore its lock
    is released and all locks are taken again, until no new fork is found. Then none can be added:
    creating a fork, or making one more visible, locks its upstream.
    """
    forks: list[Repo] = []
    for _ in range(TRIES):
        point = transaction.savepoint()
        for fork in forks:
            lock(fork)
        repo = by.repo
        lock(repo)
        if visibility is None or RANK[visibility] >= RANK[repo.visibility]:
            return []
        current = _more_visible_forks(repo, visibility)
        if {fork.pk for fork in current} <= {fork.pk for fork in forks}:
            return current
        transaction.savepoint_rollback(point)
        forks = current
    raise unavailable()


def hide(forks: list[Repo], visibility: str) -> None:
    """Set the visibility of these forks."""
    for fork in forks:
        fork.visibility, fork.updated_at = visibility, timezone.now()
        fork.save(update_fields=["visibility", "updated_at"])


def _more_visible_forks(repo: Repo, visibility: str) -> list[Repo]:
    """All direct and indirect forks that are more visible than `visibility`, deepest first."""
    forks: list[Repo] = []
    above = [repo]
    while above := list(Repo.objects.filter(upstream__in=above).order_by("-pk")):
        forks += above
    return [fork for fork in reversed(forks) if RANK[fork.visibility] > RANK[visibility]]

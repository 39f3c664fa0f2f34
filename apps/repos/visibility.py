"""No fork shows more people what its upstream hides from them: also not when the upstream is hidden
later. Repositories are locked from fork to upstream, as a push to a fork with a pull does.
"""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from apps.core.errors import Invalid, unavailable
from apps.core.locks import lock
from apps.repos.access import RepoAccess
from apps.repos.models import RANK, Repo

TRIES = 5
"""How often the forks are looked for, should more of them appear each time."""


def check_visibility(repo: Repo, visibility: str) -> None:
    """422 for a fork that would become more visible than its upstream. Locks the upstream."""
    if RANK[visibility] <= RANK[repo.visibility] or repo.upstream is None:
        return
    lock(repo.upstream)
    if RANK[visibility] > RANK[repo.upstream.visibility]:
        text = "A fork may not be more visible than its upstream"
        raise Invalid("validation_failed", f"visibility: {text}: {repo.upstream.visibility}.")


def lock_with_forks(by: RepoAccess, visibility: str | None) -> list[Repo]:
    """Lock the repository, and before it the forks that are to be hidden with it: those are
    returned, deepest first. 503 when that many are made meanwhile. The caller asks whether the
    repository takes changes.

    Forks come first in the order of locks, but are found under the repository's: so that is given
    back, and all are locked anew, until no further fork is found. With all locks held nobody adds
    to them: who makes a fork, or shows it to more people, locks its upstream.
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
        found = _more_visible_forks(repo, visibility)
        if {fork.pk for fork in found} <= {fork.pk for fork in forks}:
            return found
        transaction.savepoint_rollback(point)
        forks = found
    raise unavailable()


def hide(forks: list[Repo], visibility: str) -> None:
    """Show these forks to no more people than that."""
    for fork in forks:
        fork.visibility, fork.updated_at = visibility, timezone.now()
        fork.save(update_fields=["visibility", "updated_at"])


def _more_visible_forks(repo: Repo, visibility: str) -> list[Repo]:
    """All forks of the repository, and forks of those, that more people may read than that."""
    found: list[Repo] = []
    above = [repo]
    while above := list(Repo.objects.filter(upstream__in=above).order_by("-pk")):
        found += above
    return [fork for fork in reversed(found) if RANK[fork.visibility] > RANK[visibility]]

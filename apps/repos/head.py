"""Keeps git's HEAD, which a clone checks out, at the default branch that the row names."""

from __future__ import annotations

from django.db import transaction

from apps.core.locks import lock
from apps.repos.models import Repo


def point_head_on_commit(repo: Repo) -> None:
    """Arrange that HEAD follows the default branch. The caller saves `head_due` with it.

    After the commit, because git has no part in a rollback. Until it is done the row is marked, so
    that the worker does it where the process died in between, or git failed.
    """
    repo.head_due = True
    # Django names in its log what has failed, and a partial has no name.
    transaction.on_commit(lambda: point_head(repo), robust=True)


@transaction.atomic
def point_head(repo: Repo) -> None:
    """Point HEAD to the default branch as it is under the lock, which this takes."""
    lock(repo)
    repo.git.set_head_branch(repo.default_branch)
    if repo.head_due:
        repo.head_due = False
        repo.save(update_fields=["head_due"])

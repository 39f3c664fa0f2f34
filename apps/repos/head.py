"""Keeps git's HEAD, which a clone checks out, at the row's default branch."""

from __future__ import annotations

from django.db import transaction

from apps.core.locks import lock
from apps.repos.models import Repo


def point_head_on_commit(repo: Repo) -> None:
    """Point HEAD to the default branch once the transaction is committed. The caller saves
    `head_due` together with the branch.

    HEAD moves after the commit, because a rollback does not undo it. Until then `head_due` is True,
    so that the worker moves HEAD if the process dies or git fails.
    """
    repo.head_due = True
    # A lambda, because Django logs the name of a failed callback, and a partial has none.
    transaction.on_commit(lambda: point_head(repo), robust=True)


@transaction.atomic
def point_head(repo: Repo) -> None:
    """Lock the repository, and point HEAD to its current default branch."""
    lock(repo)
    repo.git.set_head_branch(repo.default_branch)
    if repo.head_due:
        repo.head_due = False
        repo.save(update_fields=["head_due"])

"""The door to a pull: one query (engine.md §7)."""

from __future__ import annotations

from apps.accounts.models import User
from apps.core.statements import Statement
from apps.pulls.models import Pull
from apps.repos.models import Repo
from apps.threads.models import Thread

PULL = Statement(
    """
    SELECT {pull}, {thread}, {author}, {merger} FROM "pulls_pull" pull
    JOIN "threads_thread" thread ON thread.id = pull.thread_id
    JOIN "accounts_user" author ON author.id = thread.created_by_id
    LEFT JOIN "accounts_user" merger ON merger.id = pull.merged_by_id
    WHERE pull.repo_id = %s AND pull.number = %s
    """,
    pull=Pull,
    thread=Thread,
    author=User,
    merger=User,
)


def find_pull(repo: Repo, number: int) -> Pull:
    """The pull of this number with its thread, its people and its repository loaded; 404."""
    pull: Pull
    pull, pull.thread, pull.thread.created_by, merger = PULL.one(repo.pk, number)
    pull.merged_by = merger if pull.merged_by_id else None
    pull.repo = repo
    return pull

"""The doors to a thread, and to a reply in it: one query each (engine.md §7)."""

from __future__ import annotations

from django.http import Http404

from apps.accounts.models import User
from apps.core.statements import Statement
from apps.repos.models import Repo
from apps.threads.models import Reply, Thread

THREAD = Statement(
    """
    SELECT {thread}, {person} FROM "threads_thread" thread
    JOIN "accounts_user" person ON person.id = thread.created_by_id
    WHERE thread.repo_id = %s AND thread.number = %s AND thread.deleted_at IS NULL
    """,
    thread=Thread,
    person=User,
)
REPLY = Statement(
    """
    SELECT {reply}, {person} FROM "threads_reply" reply
    JOIN "accounts_user" person ON person.id = reply.created_by_id
    WHERE reply.thread_id = %s AND reply.number = %s
    """,
    reply=Reply,
    person=User,
)


def find_thread(repo: Repo, number: int) -> Thread:
    """The thread of this number, also a pull's, with its author and repository loaded; 404."""
    thread: Thread
    thread, thread.created_by = THREAD.one(repo.pk, number)
    thread.repo = repo
    return thread


def find_reply(thread: Thread, number: int, *, shown: bool) -> Reply:
    """The reply of this number with its author and thread loaded; with `shown` only if readers see
    it. 404.
    """
    reply: Reply
    reply, reply.created_by = REPLY.one(thread.pk, number)
    reply.thread = thread
    if shown and not reply.is_shown:
        raise Http404
    return reply

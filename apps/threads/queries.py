"""What the API, the pages and the event scopes read of threads and replies."""

from __future__ import annotations

from django.http import Http404

from apps.accounts.models import User
from apps.core.statements import Statement
from apps.repos.models import Repo
from apps.threads import rules
from apps.threads.models import (
    LISTED,
    Reply,
    ReplyQuerySet,
    Thread,
    ThreadQuerySet,
)

# Every request below a thread needs these; Django would spend longer on their text than the
# database on their answer (bench/api.py).
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


def get_thread(repo: Repo, number: int) -> Thread:
    """The thread of this number, also a pull's, with its author and repository loaded; 404."""
    thread: Thread
    thread, thread.created_by = THREAD.one(repo.pk, number)
    thread.repo = repo
    return thread


def get_reply(thread: Thread, number: int, *, shown: bool) -> Reply:
    """The reply of this number; with `shown` only if readers see it. 404."""
    reply: Reply
    reply, reply.created_by = REPLY.one(thread.pk, number)
    reply.thread = thread
    if shown and not reply.is_shown:
        raise Http404
    return reply


def list_threads(repo: Repo) -> ThreadQuerySet:
    """A repository's threads but those of pulls, newest first, as what makes a `ThreadRow`."""
    found = Thread.objects.filter(LISTED, repo=repo.pk)
    return found.in_order(rules.ORDERINGS[0]).rows()


def list_replies(thread: Thread) -> ReplyQuerySet:
    """What readers see of a thread's replies, in tree order, as what makes a `ReplyRow`."""
    return Reply.objects.filter(thread=thread.pk).shown().rows()

"""What the API, the pages and the event scopes read of threads and replies."""

from __future__ import annotations

from django.http import Http404

from apps.accounts.models import User
from apps.core.statements import Columns, Statement
from apps.repos.models import Repo
from apps.threads import rules
from apps.threads.models import (
    LISTED,
    Reply,
    ReplyRow,
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
REPLIES = Statement(
    """
    SELECT {reply}, {person} FROM "threads_reply" reply
    JOIN "accounts_user" person ON person.id = reply.created_by_id
    WHERE reply.thread_id = %s AND (reply.deleted_at IS NULL OR reply.live_descendants > 0)
    ORDER BY reply.path LIMIT %s OFFSET %s
    """,
    reply=Columns(Reply, ReplyRow._fields[:-2]),
    person=Columns(User, ["uuid", "username"]),
)


class ReplyRows:
    """What readers see of a thread's replies, in tree order; slices like a queryset."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread

    def __getitem__(self, part: slice) -> list[ReplyRow]:
        rows = REPLIES.rows(self.thread.pk, part.stop - part.start, part.start)
        return [ReplyRow(*row) for row in rows]


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

"""What the API, the pages and the event scopes read of threads and replies."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from itertools import accumulate, takewhile
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, Value

from apps.accounts.models import User
from apps.core.lookup import Missing
from apps.core.statements import Columns, Statement
from apps.repos.models import Repo
from apps.threads import rules
from apps.threads.indexes import LISTED
from apps.threads.models import CREATOR, REPLY_ROW, THREAD_ROW, Reply, Thread
from apps.threads.tree import WIDTH

# Every request below a thread needs these; Django would spend longer on their text than the
# database on their answer (bench/api.py).
THREAD = Statement(
    """
    SELECT {thread}, {person} FROM "threads_thread" thread
    JOIN "accounts_user" person ON person.id = thread.created_by_id
    WHERE thread.repo_id = %s AND thread.number = %s AND thread.deleted_at IS NULL
    """,
    thread=Columns(Thread, without=["body_html"]),
    person=User,
)
REPLY = Statement(
    """
    SELECT {reply}, {person} FROM "threads_reply" reply
    JOIN "accounts_user" person ON person.id = reply.created_by_id
    WHERE reply.thread_id = %s AND reply.number = %s
    """,
    reply=Columns(Reply, without=["body_html"]),
    person=User,
)
REPLY_COLUMNS = Columns(Reply, [name for name in REPLY_ROW if name not in CREATOR])
BODY = [*REPLY_ROW].index("body")
REPLY_PERSON = Columns(User, ["uuid", "username"])
REPLIES = Statement(
    """
    SELECT {reply}, {person} FROM "threads_reply" reply
    JOIN "accounts_user" person ON person.id = reply.created_by_id
    WHERE reply.thread_id = %s AND (reply.deleted_at IS NULL OR reply.live_descendants > 0)
    ORDER BY reply.path LIMIT %s OFFSET %s
    """,
    reply=REPLY_COLUMNS,
    person=REPLY_PERSON,
)

# The same from the first reply on, until their bodies have so many characters; the one that passes
# that is the last. The database keeps the rest of a long thread to itself.
FIRST_REPLIES = Statement(
    """
    SELECT {reply}, {person} FROM (
        SELECT id, SUM(size) OVER (ORDER BY path) - size AS before FROM (
            SELECT id, path, LENGTH(body) AS size FROM "threads_reply"
            WHERE thread_id = %s AND (deleted_at IS NULL OR live_descendants > 0)
            ORDER BY path LIMIT %s
        ) AS sized
    ) AS summed
    JOIN "threads_reply" reply ON reply.id = summed.id
    JOIN "accounts_user" person ON person.id = reply.created_by_id
    WHERE summed.before <= %s ORDER BY reply.path
    """,
    reply=REPLY_COLUMNS,
    person=REPLY_PERSON,
)


def get_thread(repo: Repo, number: int) -> Thread:
    """The thread of this number, also a pull's, with its author and repository loaded; 404."""
    thread: Thread
    row = THREAD.first(repo.pk, number)
    if row is None:
        raise Missing("thread", number, repo.path)
    thread, thread.created_by = row
    thread.repo = repo
    return thread


def get_reply(thread: Thread, number: int, *, shown: bool) -> Reply:
    """The reply of this number; with `shown` only if readers see it. 404."""
    reply: Reply
    row = REPLY.first(thread.pk, number)
    if row is None:
        raise Missing("reply", number, "this thread")
    reply, reply.created_by = row
    reply.thread = thread
    if shown and not reply.is_shown:
        raise Missing("reply", number, "this thread")
    return reply


def list_threads(repo: Repo) -> QuerySet[Any, Any]:
    """A repository's threads but those of pulls, newest first, as the values of `THREAD_ROW`."""
    found = Thread.objects.filter(LISTED, repo=repo.pk).in_order(rules.ORDERINGS[0])
    return found.values_list(*THREAD_ROW.values())


class ReplyRows:
    """What readers see of a thread's replies, in tree order, as the values of `REPLY_ROW`; slices
    like a queryset.
    """

    def __init__(self, thread: Thread) -> None:
        self.thread = thread

    def __getitem__(self, part: slice) -> list[list[Any]]:
        return REPLIES.rows(self.thread.pk, part.stop - part.start, part.start)


def named_replies(numbers: Mapping[int, Collection[int]]) -> Q:
    """The condition of replies that have one of these numbers, by the id of their thread."""
    named = Q(pk=None)
    for thread, wanted in numbers.items():
        named |= Q(thread=thread, number__in=wanted)
    return named


def place_of(reply: Reply) -> int:
    """How many replies readers see before this one, in the order of the tree."""
    before = Q(path__lt=reply.path)
    shown = Q(deleted_at=None) | Q(live_descendants__gt=0)
    return reply.thread.replies.filter(before, shown).count()


def begun_at(thread: Thread, place: int) -> dt.datetime | None:
    """When the top-level reply was written that has the reply at this place below it, or is it."""
    rows = REPLIES.rows(thread.pk, 1, place)
    if not rows:
        return None
    path = rows[0][[*REPLY_ROW].index("path")]
    found: dt.datetime = thread.replies.get(path=path[:WIDTH]).created_at
    return found


def first_replies(thread: Thread, most: int, size: int) -> tuple[list[list[Any]], bool]:
    """The first of `ReplyRows`, at most so many, whose bodies have at most `size` bytes together;
    and whether there are more.
    """
    rows = FIRST_REPLIES.rows(thread.pk, most + 1, size)
    sizes = accumulate(len(row[BODY].encode()) for row in rows[:most])
    fitting = sum(1 for _ in takewhile(lambda total: total <= size, sizes))
    return rows[:fitting], fitting < len(rows)


def list_thread_versions(thread: Thread) -> QuerySet[Any, Any]:
    """What title and body have been, oldest first: the fields of `ThreadVersionRecord`."""
    return _versions(thread.versions, "title", "body")


def list_reply_versions(reply: Reply) -> QuerySet[Any, Any]:
    """What a reply has been, oldest first: the fields of `ReplyVersionRecord`."""
    return _versions(reply.versions, "kind", "status", "body", "links")


def _versions(versions: Any, *text: str) -> QuerySet[Any, Any]:
    found: QuerySet[Any, Any] = versions.order_by("version")
    editor = {
        "edited_by_uuid": F("edited_by__uuid"),
        "edited_by_username": F("edited_by__username"),
    }
    return found.values("version", *text, "created_at", **editor)


class Participants:
    """The people of a thread, its author first, the others by their first live reply.

    Slices like a queryset; items are the fields of `ParticipantRecord`. One query, or two where
    the slice begins with the author.
    """

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.live = thread.replies.live()

    def __getitem__(self, part: slice) -> list[dict[str, Any]]:
        with_author = part.start == 0
        others = self.others()[max(part.start - 1, 0) : part.stop - 1]
        return [*([self.author()] if with_author else []), *others]

    def author(self) -> dict[str, Any]:
        thread, author = self.thread, self.thread.created_by
        own = self.live.filter(created_by=author).aggregate(
            reply_count=Count("pk"), last_at=Max("created_at")
        )
        return {
            "user_uuid": author.uuid,
            "username": author.username,
            "display_name": author.display_name,
            "is_author": True,
            "reply_count": own["reply_count"],
            "first_at": thread.created_at,
            "last_at": own["last_at"] or thread.created_at,
        }

    def others(self) -> QuerySet[Any, Any]:
        return (
            self.live.exclude(created_by=self.thread.created_by_id)
            .values(
                user_uuid=F("created_by__uuid"),
                username=F("created_by__username"),
                display_name=F("created_by__display_name"),
                is_author=Value(False),
            )
            .annotate(
                reply_count=Count("pk"), first_at=Min("created_at"), last_at=Max("created_at")
            )
            .order_by("first_at", "username")
        )

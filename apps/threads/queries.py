"""What the API, the pages and the event scopes read of threads and replies."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from functools import cache
from itertools import accumulate, takewhile
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum, Value, Window
from django.db.models.functions import Length

from apps.core.lookup import Missing
from apps.core.statements import Parameter, Slices, Statement
from apps.repos.models import Repo
from apps.threads import rules
from apps.threads.models import LISTED, REPLY_ROW, STEP_WIDTH, THREAD_ROW, Reply, Thread

# Every request below a thread needs these; Django would spend longer on their text than the
# database on their answer (bench/api.py).
THREAD = Statement(
    lambda: (
        Thread.objects.existing()
        .filter(repo=Parameter("repo"), number=Parameter("number"))
        .select_related("created_by")
        .defer("body_html")
    )
)
REPLY = Statement(
    lambda: (
        Reply.objects.filter(thread=Parameter("thread"), number=Parameter("number"))
        .select_related("created_by")
        .defer("body_html")
    )
)
SEEN = Q(deleted_at=None) | Q(live_descendants__gt=0)
"""Replies that readers see: a deleted one only if others below it are not deleted."""
REPLIES = Statement(lambda: _shown().values_list(*REPLY_ROW.values()))
BODY = [*REPLY_ROW].index("body")


def _shown() -> QuerySet[Reply]:
    return Reply.objects.filter(SEEN, thread=Parameter("thread")).order_by("path")


@cache
def _until(most: int) -> Statement:
    """Selects the first rows of `REPLIES`, at most so many, until their bodies have `size`
    characters; the one that passes that is the last. The database keeps the rest to itself.
    """
    size = Length("body")
    before = Window(Sum(size), order_by="path") - size
    first = Reply.objects.filter(pk__in=_shown().values("pk")[:most])
    first = first.annotate(before=before).filter(before__lte=Parameter("size"))
    rows = Reply.objects.filter(pk__in=first.values("pk")).order_by("path")
    return Statement(lambda: rows.values_list(*REPLY_ROW.values()))


def get_thread(repo: Repo, number: int) -> Thread:
    """The thread of this number, also a pull's, with its author and repository loaded; 404."""
    thread: Thread | None = THREAD.first(repo=repo.pk, number=number)
    if thread is None:
        raise Missing("thread", number, repo.path)
    thread.repo = repo
    return thread


def get_reply(thread: Thread, number: int, *, shown: bool) -> Reply:
    """The reply of this number; with `shown` only if readers see it. 404."""
    reply: Reply | None = REPLY.first(thread=thread.pk, number=number)
    if reply is None:
        raise Missing("reply", number, "this thread")
    reply.thread = thread
    if shown and not reply.is_shown:
        raise Missing("reply", number, "this thread")
    return reply


def list_threads(repo: Repo) -> QuerySet[Any, Any]:
    """A repository's threads but those of pulls, newest first, as the values of `THREAD_ROW`."""
    found = Thread.objects.filter(LISTED, repo=repo.pk).in_order(rules.ORDERINGS[0])
    return found.values_list(*THREAD_ROW.values())


def list_replies(thread: Thread) -> Slices:
    """A thread's replies that readers see, in tree order, as the values of `REPLY_ROW`."""
    return REPLIES.of(thread=thread.pk)


def named_replies(numbers: Mapping[int, Collection[int]]) -> Q:
    """The condition of replies that have one of these numbers, by the id of their thread."""
    named = Q(pk=None)
    for thread, wanted in numbers.items():
        named |= Q(thread=thread, number__in=wanted)
    return named


def place_of(reply: Reply) -> int:
    """How many replies readers see before this one, in the order of the tree."""
    before = Q(path__lt=reply.path)
    return reply.thread.replies.filter(before, SEEN).count()


def begun_at(thread: Thread, place: int) -> dt.datetime | None:
    """When the top-level reply was written that has the reply at this place below it, or is it."""
    rows = list_replies(thread)[place : place + 1]
    if not rows:
        return None
    path = rows[0][[*REPLY_ROW].index("path")]
    found: dt.datetime = thread.replies.get(path=path[:STEP_WIDTH]).created_at
    return found


def first_replies(thread: Thread, most: int, size: int) -> tuple[list[Any], bool]:
    """The first of `list_replies`, at most so many, whose bodies have at most `size` bytes in all;
    and whether there are more.
    """
    rows = _until(most + 1).all(thread=thread.pk, size=size)
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

"""Reading threads, replies, versions and participants, for the API and the pages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import accumulate, takewhile
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum, Value, Window
from django.db.models.functions import Left, Length

from apps.core.lookup import Missing
from apps.core.statements import Parameter, Slices, Statement
from apps.repos.models import Repo
from apps.threads import rules
from apps.threads.models import (
    ANCHORED_ROW,
    LISTED,
    REPLY_ROW,
    STEP_WIDTH,
    THREAD_ROW,
    Reply,
    Thread,
    child_path,
)

# Every request below a thread runs these. Django takes longer to compile them than the database
# takes to answer (bench/api.py).
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
        .select_related("created_by", "anchor")
        .defer("body_html")
    )
)
SHOWN = Q(deleted_at=None) | Q(live_descendants__gt=0)
"""Replies that readers see. A deleted reply is shown only above live replies."""
REPLIES = Statement(lambda: _shown_replies().values_list(*ANCHORED_ROW.values()))
BODY = [*REPLY_ROW].index("body")
PATH = [*REPLY_ROW].index("path")


def _shown_replies() -> QuerySet[Reply]:
    return Reply.objects.filter(SHOWN, thread=Parameter("thread")).order_by("path")


@cache
def _first_rows(most: int) -> Statement:
    """The first `most` rows of `REPLIES`, until their bodies exceed `size` characters."""
    size = Length("body")
    before = Window(Sum(size), order_by="path") - size
    first = Reply.objects.filter(pk__in=_shown_replies().values("pk")[:most])
    first = first.annotate(before=before).filter(before__lte=Parameter("size"))
    rows = Reply.objects.filter(pk__in=first.values("pk")).order_by("path")
    return Statement(lambda: rows.values_list(*ANCHORED_ROW.values()))


def get_thread(repo: Repo, number: int) -> Thread:
    """The thread with this number, companions included; loads its author and repository; 404."""
    thread: Thread | None = THREAD.first(repo=repo.pk, number=number)
    if thread is None:
        raise Missing("thread", number, repo.path)
    thread.repo = repo
    return thread


def get_reply(thread: Thread, number: int, *, shown: bool) -> Reply:
    """The reply with this number; with `shown`, only a reply that readers see. 404."""
    reply: Reply | None = REPLY.first(thread=thread.pk, number=number)
    if reply is None:
        raise Missing("reply", number, "this thread")
    reply.thread = thread
    if shown and not reply.is_shown:
        raise Missing("reply", number, "this thread")
    return reply


def list_threads(repo: int | Parameter) -> QuerySet[Any, Any]:
    """The values of `THREAD_ROW` of the threads of the repository with this id, newest first,
    without companions.
    """
    threads = Thread.objects.filter(LISTED, repo=repo).in_order(rules.ORDERINGS[0])
    return threads.values_list(*THREAD_ROW.values())


THREADS = Statement(lambda: list_threads(Parameter("repo")))


def list_replies(thread: Thread) -> Slices:
    """The values of `ANCHORED_ROW` of the replies that readers see, in tree order."""
    return REPLIES.of(thread=thread.pk)


def list_replies_below(
    thread: Thread, roots: Collection[int], most: int
) -> list[tuple[int, Sequence[Any]]]:
    """At most this many replies below these top-level replies, in tree order: each with the number
    of the reply at its root and the values of `ANCHORED_ROW`. No query without roots.
    """
    if not roots:
        return []
    paths = {child_path("", number): number for number in roots}
    rows = Reply.objects.filter(SHOWN, thread=thread, depth__gt=0)
    rows = rows.alias(root=Left("path", STEP_WIDTH)).filter(root__in=paths).order_by("path")
    values = rows.values_list(*ANCHORED_ROW.values())[:most]
    return [(paths[row[PATH][:STEP_WIDTH]], row) for row in values]


def named_replies(numbers: Mapping[int, Collection[int]]) -> Q:
    """The condition that selects replies by number. `numbers`: by the id of their thread."""
    condition = Q(pk=None)
    for thread, of_thread in numbers.items():
        condition |= Q(thread=thread, number__in=of_thread)
    return condition


def index_of(reply: Reply) -> int:
    """The index of this reply in `list_replies`."""
    before = Q(path__lt=reply.path)
    return reply.thread.replies.filter(before, SHOWN).count()


def begun_at(thread: Thread, index: int) -> dt.datetime | None:
    """The creation time of the top-level reply above the reply at this index of `list_replies`."""
    rows = list_replies(thread)[index : index + 1]
    if not rows:
        return None
    created_at: dt.datetime = thread.replies.get(path=rows[0][PATH][:STEP_WIDTH]).created_at
    return created_at


def first_replies(thread: Thread, most: int, size: int) -> tuple[list[Any], bool]:
    """The first rows of `list_replies`, at most `most` and `size` bytes of bodies; whether more
    follow.
    """
    rows = _first_rows(most + 1).all(thread=thread.pk, size=size)
    sizes = accumulate(len(row[BODY].encode()) for row in rows[:most])
    fitting = sum(1 for _ in takewhile(lambda total: total <= size, sizes))
    return rows[:fitting], fitting < len(rows)


OF_THREAD_VERSION = ("version", "title", "body", "created_at")
OF_REPLY_VERSION = ("version", "kind", "status", "body", "links", "created_at")


def list_thread_versions(thread: Thread) -> QuerySet[Any, Any]:
    """The versions of a thread, oldest first: the fields of `ThreadVersionRecord`."""
    return version_records(thread.versions.order_by("version"), OF_THREAD_VERSION)


def list_reply_versions(reply: Reply) -> QuerySet[Any, Any]:
    """The versions of a reply, oldest first: the fields of `ReplyVersionRecord`."""
    return version_records(reply.versions.order_by("version"), OF_REPLY_VERSION)


def version_records(
    versions: QuerySet[Any, Any], columns: Sequence[str], **further: F
) -> QuerySet[Any, Any]:
    """The records of these versions, with further columns."""
    editor = {
        "edited_by_uuid": F("edited_by__uuid"),
        "edited_by_username": F("edited_by__username"),
        "edited_by_is_bot": F("edited_by__is_bot"),
    }
    return versions.values(*columns, **editor, **further)


class Participants:
    """The participants of a thread: its author, then the others by their first live reply.

    Slices like a queryset, in one query, or two if it begins with the author.
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
        replies = self.live.filter(created_by=author).aggregate(
            reply_count=Count("pk"), last_at=Max("created_at")
        )
        return {
            "user_uuid": author.uuid,
            "username": author.username,
            "display_name": author.display_name,
            "is_bot": author.is_bot,
            "is_author": True,
            "reply_count": replies["reply_count"],
            "first_at": thread.created_at,
            "last_at": replies["last_at"] or thread.created_at,
        }

    def others(self) -> QuerySet[Any, Any]:
        return (
            self.live.exclude(created_by=self.thread.created_by_id)
            .values(
                user_uuid=F("created_by__uuid"),
                username=F("created_by__username"),
                display_name=F("created_by__display_name"),
                is_bot=F("created_by__is_bot"),
                is_author=Value(False),
            )
            .annotate(
                reply_count=Count("pk"), first_at=Min("created_at"), last_at=Max("created_at")
            )
            .order_by("first_at", "username")
        )

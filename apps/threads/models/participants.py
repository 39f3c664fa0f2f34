"""Who takes part in a thread, counted when asked."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Count, F, Max, Min, Value

from apps.threads.models.thread import Thread


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

    def others(self) -> models.QuerySet[Any, Any]:
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

"""Replies: each stores its place in the tree and counts its live descendants."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any, NamedTuple

from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps.core.changes import set_changed
from apps.events.record import Keys, Target
from apps.threads.kinds import ReplyStatus
from apps.threads.models.written import Created
from apps.threads.tree import PATH_MAX


class ReplyRow(NamedTuple):
    """What the record of a reply needs: a list makes no model of it."""

    number: int
    uuid: uuid.UUID
    path: str
    depth: int
    kind: str
    status: str
    body: str
    links: list[dict[str, str]]
    version: int
    edited_at: dt.datetime | None
    deleted_at: dt.datetime | None
    created_at: dt.datetime
    updated_at: dt.datetime
    created_by_uuid: uuid.UUID
    created_by_username: str


class ReplyQuerySet(models.QuerySet["Reply"]):
    def live(self) -> ReplyQuerySet:
        """Replies that have not been deleted."""
        return self.filter(deleted_at=None)


class Reply(Created):
    """An answer in a thread, to the thread itself or to another reply."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    thread = models.ForeignKey("Thread", on_delete=models.CASCADE, related_name="replies")
    number = models.BigIntegerField()
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    path = models.CharField(max_length=PATH_MAX)
    """The numbers from the root down, so that sorting by it is the order of the tree."""
    depth = models.PositiveSmallIntegerField(default=0)
    live_descendants = models.BigIntegerField(default=0)
    kind = models.CharField(max_length=30)
    status = models.CharField(max_length=10, default=ReplyStatus.OPEN)
    body = models.TextField()
    links = models.JSONField(default=list)
    version = models.PositiveIntegerField(default=1)
    edited_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = ReplyQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "replies"
        constraints = [
            models.UniqueConstraint(fields=["thread", "number"], name="reply_number_in_thread"),
            models.UniqueConstraint(fields=["thread", "path"], name="reply_place_in_thread"),
        ]
        indexes = [
            models.Index(
                fields=["thread", "created_by"],
                name="reply_participants",
                condition=Q(deleted_at=None),
            ),
        ]

    @property
    def is_shown(self) -> bool:
        """Whether readers see it: the twin of `queries.ReplyRows`."""
        return self.deleted_at is None or self.live_descendants > 0

    def __str__(self) -> str:
        return f"reply {self.number}"

    @property
    def is_deleted(self) -> bool:
        return self.deleted_at is not None

    def revise(self, **wanted: Any) -> list[str]:
        """Set what differs of kind, body, status and links; returns those names.

        Such an edit is a new version. The caller holds this row's and the thread's locks.
        """
        changed = set_changed(self, wanted)
        if changed:
            self.version += 1
            self.edited_at = self.updated_at = timezone.now()
            self.save(update_fields=[*changed, "version", "edited_at", "updated_at"])
            self.thread.last_activity_at = self.edited_at
            self.thread.save(update_fields=["last_activity_at"])
        return changed

    def event_keys(self) -> Keys:
        return self.thread.event_keys()

    def event_target(self) -> Target:
        thread = self.thread
        return Target(
            "reply",
            {"number": self.number, "thread_number": thread.number},
            web=f"{thread.segment}#reply-{self.number}",
            api=f"/threads/{thread.number}/replies/{self.number}",
        )

    def event_title(self) -> str:
        return self.thread.title

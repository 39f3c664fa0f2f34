"""Threads and their nested replies.

A pull owns a companion thread of kind `pull` with the same number (behaviour.md trap 7). A tree is
read in one query, in order: each reply stores its `path` and counts its live descendants.
"""

from __future__ import annotations

import uuid
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps.events.record import Keys, Target
from apps.repos.models import Repo
from apps.threads.tree import PATH_MAX

if TYPE_CHECKING:
    from apps.accounts.models import User


class ThreadKind(StrEnum):
    DISCUSSION = "discussion"
    ISSUE = "issue"
    QUESTION = "question"
    PROPOSAL = "proposal"
    ANNOUNCEMENT = "announcement"
    PULL = "pull"
    """Made by the system only: the companion of a pull."""


class Priority(StrEnum):
    NORMAL = "normal"
    LOW = "low"
    HIGH = "high"
    URGENT = "urgent"


class ThreadStatus(StrEnum):
    OPEN = "open"
    IN_PROGRESS = "in_progress"
    RESOLVED = "resolved"
    CLOSED = "closed"


class ReplyStatus(StrEnum):
    OPEN = "open"
    RESOLVED = "resolved"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


def set_changed(row: models.Model, wanted: dict[str, Any]) -> list[str]:
    """Set the values that differ, without saving; returns their names."""
    changed = [name for name, value in wanted.items() if getattr(row, name) != value]
    for name in changed:
        setattr(row, name, wanted[name])
    return changed


class ThreadQuerySet(models.QuerySet["Thread"]):
    def existing(self) -> ThreadQuerySet:
        """Threads that have not been deleted, companions included."""
        return self.filter(deleted_at=None)

    def listed(self) -> ThreadQuerySet:
        """What the thread list shows: no companion threads, newest first."""
        return self.existing().exclude(kind=ThreadKind.PULL).order_by("-number")


class Thread(models.Model):
    """A discussion in a repository. Its number comes from the repository's one counter."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="threads")
    number = models.BigIntegerField()
    title = models.CharField(max_length=255)
    body = models.TextField(blank=True)
    kind = models.CharField(max_length=20, default=ThreadKind.DISCUSSION)
    priority = models.CharField(max_length=10, default=Priority.NORMAL)
    status = models.CharField(max_length=20, default=ThreadStatus.OPEN)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    last_reply_number = models.BigIntegerField(default=0)
    """The newest number given to a reply; never reused."""
    reply_count = models.BigIntegerField(default=0)
    """Live replies."""
    participant_count = models.BigIntegerField(default=1)
    """The author and everybody with a live reply."""
    last_activity_at = models.DateTimeField(default=timezone.now)
    closed_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = ThreadQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["repo", "number"], name="thread_number_in_repo"),
        ]
        indexes = [
            models.Index(
                fields=["repo", "-number"],
                name="thread_list",
                condition=Q(deleted_at=None) & ~Q(kind="pull"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.repo_id}#{self.number}"

    @classmethod
    def open(
        cls,
        repo: Repo,
        *,
        created_by: User,
        kind: str,
        title: str,
        body: str,
        priority: str = Priority.NORMAL,
        status: str = ThreadStatus.OPEN,
    ) -> Thread:
        """Add a thread with the repository's next number. The caller holds the repo's lock."""
        now = timezone.now()
        return cls.objects.create(
            repo=repo,
            number=repo.take_number(),
            kind=kind,
            title=title,
            body=body,
            priority=priority,
            status=status,
            created_by=created_by,
            closed_at=now if status == ThreadStatus.CLOSED else None,
            last_activity_at=now,
            created_at=now,
            updated_at=now,
        )

    def revise(self, **wanted: Any) -> list[str]:
        """Set what differs of title, body, kind, priority and status; returns those names.

        `closed_at` follows the status. The caller holds this row's lock.
        """
        changed = set_changed(self, wanted)
        if changed:
            now = timezone.now()
            self.updated_at = self.last_activity_at = now
            if "status" in changed:
                self.closed_at = now if self.status == ThreadStatus.CLOSED else None
            self.save(update_fields=[*changed, "closed_at", "updated_at", "last_activity_at"])
        return changed

    @property
    def is_companion(self) -> bool:
        return self.kind == ThreadKind.PULL

    @property
    def segment(self) -> str:
        """Where people find it below its repository: a companion's page is its pull's."""
        return f"/{'pulls' if self.is_companion else 'threads'}/{self.number}"

    def event_keys(self) -> Keys:
        return Keys(
            team=self.repo.owner_team_id,
            repo=self.repo_id,
            thread=self.pk,
            number=self.number,
            is_pull=self.is_companion,
        )

    def event_target(self) -> Target:
        return Target("thread", {"number": self.number}, web=self.segment, api=self.segment)

    def event_title(self) -> str:
        return self.title


class Reply(models.Model):
    """An answer in a thread, to the thread itself or to another reply."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="replies")
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
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    edited_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["thread", "number"], name="reply_number_in_thread"),
            models.UniqueConstraint(fields=["thread", "path"], name="reply_place_in_thread"),
        ]

    def __str__(self) -> str:
        return f"reply {self.number} of {self.thread_id}"

    @property
    def is_deleted(self) -> bool:
        return self.deleted_at is not None

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

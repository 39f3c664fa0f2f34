"""Threads, their nested replies, and the versions of both.

Each pull has a companion thread: a thread of kind `pull` with the same number. One query reads a
tree of replies in order, because each reply stores its `path` and counts its live descendants.
"""

from __future__ import annotations

import uuid
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Index, Q, QuerySet
from django.utils import timezone
from django.utils.http import int_to_base36

from apps.accounts.models import User
from apps.core.changes import set_changed
from apps.core.rendered import Rendered, set_html
from apps.core.search import holds
from apps.events.record import Keys, Target
from apps.repos.commits import note_commits
from apps.repos.models import Repo
from apps.threads.anchors import ANCHOR_ROW
from apps.uploads.uses import forget_uses, note_uses


class ThreadKind(StrEnum):
    DISCUSSION = "discussion"
    ISSUE = "issue"
    QUESTION = "question"
    PROPOSAL = "proposal"
    ANNOUNCEMENT = "announcement"
    PULL = "pull"
    """The companion thread of a pull, opened together with it; people cannot choose this kind."""


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


LISTED = Q(deleted_at=None) & ~Q(kind=ThreadKind.PULL.value)
"""The condition of lists of threads. Indexes repeat it, as the database uses them only then."""
OF_PULL = Q(kind=ThreadKind.PULL.value)
"""The condition of lists of pulls. Companion threads are never deleted."""
ACTIVITY = ("-last_activity_at", "-uuid")
"""The order of lists across repositories. Its cursors do not reveal how many rows are hidden."""
UNUSUAL = LISTED & ~Q(priority=Priority.NORMAL.value)
# Each index begins with a column that a filter of a list fixes, and ends with the order of that
# list, so that a page reads only its own rows.
INDEXES = [
    Index(fields=["repo", "-number"], name="thread_list", condition=LISTED),
    Index(fields=["repo", *ACTIVITY], name="thread_activity", condition=LISTED),
    Index(fields=["created_by", *ACTIVITY], name="thread_of_author"),
    Index(fields=ACTIVITY, name="thread_across", condition=LISTED),
    Index(fields=["status", *ACTIVITY], name="thread_status", condition=LISTED),
    Index(fields=["kind", *ACTIVITY], name="thread_kind", condition=LISTED),
    Index(fields=["priority", *ACTIVITY], name="thread_priority", condition=UNUSUAL),
    Index(fields=ACTIVITY, name="pull_across", condition=OF_PULL),
    Index(fields=["status", *ACTIVITY], name="pull_status", condition=OF_PULL),
    Index(fields=["repo", *ACTIVITY], name="pull_activity", condition=OF_PULL),
]

CREATOR = {
    "created_by_uuid": "created_by__uuid",
    "created_by_username": "created_by__username",
    "created_by_is_bot": "created_by__is_bot",
}
THREAD_ROW = {
    name: CREATOR.get(name, name)
    for name in (
        "number",
        "uuid",
        "title",
        "body",
        "kind",
        "priority",
        "status",
        *CREATOR,
        "reply_count",
        "participant_count",
        "last_activity_at",
        "closed_at",
        "version",
        "created_at",
        "updated_at",
    )
}
"""The columns of a thread's record: each field's name, and its path in a query."""
REPLY_ROW = {
    name: CREATOR.get(name, name)
    for name in (
        "number",
        "uuid",
        "path",
        "depth",
        "kind",
        "status",
        "body",
        "links",
        "version",
        "edited_at",
        "deleted_at",
        "created_at",
        "updated_at",
        *CREATOR,
    )
}
"""The same for a reply, without its anchor."""
ANCHORED_ROW = REPLY_ROW | {f"anchor_{name}": path for name, path in ANCHOR_ROW.items()}
"""The columns of a reply's record with its anchor."""

DEPTH_MAX = 50
STEP_WIDTH = 5
"""Characters of one step of a reply's path: 36 ** 5 is sixty million replies in one thread."""
PATH_MAX = STEP_WIDTH * (DEPTH_MAX + 1)


def child_path(parent_path: str, number: int) -> str:
    """The path of a reply below another; `parent_path` is empty for a top-level reply.

    A path has one step of fixed width for each level, a number in upper-case base 36: sorted by
    path in any collation, a parent comes before its replies, and these come by number.
    """
    return parent_path + int_to_base36(number).upper().rjust(STEP_WIDTH, "0")


def ancestor_paths(path: str) -> list[str]:
    """The paths of all replies above this one, from the root down."""
    return [path[:end] for end in range(STEP_WIDTH, len(path), STEP_WIDTH)]


def parent_number(path: str) -> int | None:
    """The number of the reply right above this one; None for a top-level reply."""
    above = path[-2 * STEP_WIDTH : -STEP_WIDTH]
    return int(above, 36) if above else None


def segment(kind: str, number: int) -> str:
    """The path of a thread's page below its repository; a companion thread has its pull's page."""
    return f"/{'pulls' if kind == ThreadKind.PULL else 'threads'}/{number}"


class ThreadQuerySet(models.QuerySet["Thread"]):
    def existing(self) -> ThreadQuerySet:
        """Threads that have not been deleted, companions included."""
        return self.filter(deleted_at=None)

    def search(self, text: str) -> ThreadQuerySet:
        """Threads with this text in title or body, ignoring case."""
        return self.filter(holds("title", text) | holds("body", text))

    def in_order(self, ordering: str) -> ThreadQuerySet:
        """Sorted by one of `rules.ORDERINGS`, ties by number in the same direction."""
        return self.order_by(ordering, "-number" if ordering.startswith("-") else "number")


class Thread(Rendered):
    """A discussion in a repository. Threads and pulls of a repository share one counter."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,  # `thread_of_author` begins with it
    )
    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="threads")
    number = models.BigIntegerField()
    title = models.CharField(max_length=255)
    body = models.TextField(blank=True)
    kind = models.CharField(max_length=20, default=ThreadKind.DISCUSSION)
    priority = models.CharField(max_length=10, default=Priority.NORMAL)
    status = models.CharField(max_length=20, default=ThreadStatus.OPEN)
    last_reply_number = models.BigIntegerField(default=0)
    """The newest number given to a reply; numbers are never reused."""
    reply_count = models.BigIntegerField(default=0)
    """Live replies. `add_reply` and `blank_reply` update this and `participant_count`."""
    participant_count = models.BigIntegerField(default=1)
    """The author and everybody with a live reply."""
    last_activity_at = models.DateTimeField(default=timezone.now)
    """The newest of: opening, a change of the thread, a reply written or edited; of a pull also a
    push, a change of its status, a review written, changed or dismissed."""
    version = models.PositiveIntegerField(default=1)
    """The number of the current version of title and body."""
    closed_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = ThreadQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["repo", "number"], name="thread_number_in_repo"),
        ]
        indexes = INDEXES

    def __str__(self) -> str:
        return f"#{self.number} {self.title}"

    @classmethod
    def open(
        cls, repo: Repo, *, created_by: User, status: str = ThreadStatus.OPEN, **content: Any
    ) -> Thread:
        """Add a thread with the next number. The caller holds the repository's lock."""
        now = timezone.now()
        thread = cls.objects.create(
            repo=repo,
            number=repo.take_number(),
            created_by=created_by,
            status=status,
            closed_at=now if status == ThreadStatus.CLOSED else None,
            last_activity_at=now,
            created_at=now,
            updated_at=now,
            **content,
        )
        ThreadVersion.add(thread, created_by)
        return thread

    def revise(
        self, *, by: User | None = None, html: dict[str, Any] | None = None, **values: Any
    ) -> list[str]:
        """Set title, body, kind, priority or status; returns the names of the fields that changed.

        A changed title or body makes a new version, by `by`. `html`: the body. The caller has the
        lock.
        """
        changed = set_changed(self, values)
        if changed:
            now = timezone.now()
            self.updated_at = self.last_activity_at = now
            if "status" in changed:
                self.closed_at = now if self.status == ThreadStatus.CLOSED else None
            has_new_text = not {"title", "body"}.isdisjoint(changed)
            self.version += int(has_new_text)
            further = ["version", "closed_at", "updated_at", "last_activity_at"]
            further += set_html(self, html, changed)
            self.save(update_fields=[*changed, *further])
            if has_new_text:
                ThreadVersion.add(self, by)
        return changed

    def touch(self) -> None:
        """Set `last_activity_at` to now, unless it is later already."""
        now = timezone.now()
        Thread.objects.filter(pk=self.pk, last_activity_at__lt=now).update(last_activity_at=now)
        self.last_activity_at = now

    def has_participant(self, user_id: int) -> bool:
        """Whether this person opened the thread or has a live reply in it."""
        return (
            user_id == self.created_by_id or self.replies.live().filter(created_by=user_id).exists()
        )

    def add_reply(self, parent: Reply | None, *, created_by: User, **content: Any) -> Reply:
        """Add a reply below its parent and count it. The caller holds this row's lock."""
        joins = not self.has_participant(created_by.pk)
        self.last_reply_number += 1
        self.last_activity_at = now = timezone.now()
        reply = Reply.objects.create(
            thread=self,
            number=self.last_reply_number,
            parent=parent,
            path=child_path(parent.path if parent else "", self.last_reply_number),
            depth=parent.depth + 1 if parent else 0,
            created_by=created_by,
            created_at=now,
            updated_at=now,
            **content,
        )
        ReplyVersion.add(reply, created_by)
        self._count(reply, 1, participants=int(joins))
        return reply

    def blank_reply(self, reply: Reply) -> None:
        """Empty a live reply and stop counting it. The caller holds both rows' locks."""
        reply.body, reply.body_html, reply.links = "", "", []
        reply.deleted_at = reply.updated_at = timezone.now()
        reply.save(update_fields=["body", "body_html", "links", "deleted_at", "updated_at"])
        forget_uses([reply.uuid])
        if self.is_companion:
            self.anchors.filter(number=reply.number).update(snippet=[])
        leaves = not self.has_participant(reply.created_by_id)
        self._count(reply, -1, participants=-int(leaves))

    def _count(self, reply: Reply, live: int, *, participants: int) -> None:
        self.reply_count += live
        self.participant_count += participants
        counters = ["last_reply_number", "reply_count", "participant_count", "last_activity_at"]
        self.save(update_fields=counters)
        if reply.depth:
            above = self.replies.filter(path__in=ancestor_paths(reply.path))
            above.update(live_descendants=F("live_descendants") + live)

    @property
    def is_companion(self) -> bool:
        return self.kind == ThreadKind.PULL

    @property
    def segment(self) -> str:
        return segment(self.kind, self.number)

    def event_keys(self) -> Keys:
        return Keys(
            team=self.repo.owner_team_id,
            repo=self.repo_id,
            thread=self.pk,
            number=self.number,
            is_pull=self.is_companion,
        )

    def event_target(self) -> Target:
        kind = "pull" if self.is_companion else "thread"
        return Target(kind, {"number": self.number}, web=self.segment, api=self.segment)

    def event_title(self) -> str | None:
        """None once the thread is deleted: events no longer show its title."""
        return self.title if self.deleted_at is None else None


class ReplyQuerySet(models.QuerySet["Reply"]):
    def live(self) -> ReplyQuerySet:
        """Replies that have not been deleted."""
        return self.filter(deleted_at=None)


class Reply(Rendered):
    """A reply to a thread or to another reply in it."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="replies")
    number = models.BigIntegerField()
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    path = models.CharField(max_length=PATH_MAX)
    """The numbers of the replies from the root down; see `child_path`."""
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
            Index(
                fields=["thread", "created_by"],
                name="reply_participants",
                condition=Q(deleted_at=None),
            ),
        ]

    def __str__(self) -> str:
        return f"reply {self.number}"

    @property
    def is_shown(self) -> bool:
        """Whether readers see the reply; `queries.SHOWN` is the same condition for querysets."""
        return self.deleted_at is None or self.live_descendants > 0

    @property
    def is_deleted(self) -> bool:
        return self.deleted_at is not None

    def revise(self, *, by: User, html: dict[str, Any] | None = None, **values: Any) -> list[str]:
        """Set kind, body, status or links; returns the names of the fields that changed. Any change
        makes a new version. The caller holds this row's and the thread's locks.
        """
        changed = set_changed(self, values)
        if changed:
            self.version += 1
            self.edited_at = self.updated_at = timezone.now()
            stamps = ["version", "edited_at", "updated_at", *set_html(self, html, changed)]
            self.save(update_fields=[*changed, *stamps])
            ReplyVersion.add(self, by)
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

    def event_title(self) -> str | None:
        return self.thread.event_title()


def thread_ids_of(person: User) -> QuerySet[Any, Any]:
    """The ids of the threads, of pulls too, in which this person is a participant."""
    opened = Thread.objects.filter(created_by=person.pk).values("pk")
    return opened.union(Reply.objects.live().filter(created_by=person.pk).values("thread"))


class Version(models.Model):
    """The text of a thread or a reply since `created_at`. The newest version is the current one."""

    version = models.PositiveIntegerField()
    edited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
    )
    """Null for edits from before versions were stored."""
    created_at = models.DateTimeField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"version {self.version}"


class ThreadVersion(Version):
    """Title and body of a thread or of its pull."""

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="versions")
    title = models.CharField(max_length=255)
    body = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["thread", "version"], name="version_of_thread"),
        ]

    @classmethod
    def add(cls, thread: Thread, by: User | None) -> None:
        """Store the current text of the thread. The caller holds its lock."""
        cls.objects.create(
            thread=thread,
            version=thread.version,
            title=thread.title,
            body=thread.body,
            edited_by=by,
            created_at=thread.updated_at,
        )
        note_uses(thread.repo_id, thread.uuid, thread.body, by=by.pk if by else None)
        note_commits(thread.repo_id, thread.body_html)


class ReplyVersion(Version):
    """Kind, status, body and links of a reply. Versions stay when the reply is deleted."""

    reply = models.ForeignKey(Reply, on_delete=models.CASCADE, related_name="versions")
    kind = models.CharField(max_length=30)
    status = models.CharField(max_length=10)
    body = models.TextField()
    links = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["reply", "version"], name="version_of_reply"),
        ]

    @classmethod
    def add(cls, reply: Reply, by: User) -> None:
        """Store the current state of the reply. The caller holds its lock."""
        cls.objects.create(
            reply=reply,
            version=reply.version,
            kind=reply.kind,
            status=reply.status,
            body=reply.body,
            links=reply.links,
            edited_by=by,
            created_at=reply.updated_at,
        )
        targets = [link["target"] for link in reply.links]
        note_uses(reply.thread.repo_id, reply.uuid, reply.body, *targets, by=by.pk)
        note_commits(reply.thread.repo_id, reply.body_html)

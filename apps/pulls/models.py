"""Pull requests, their versions and reviews, and attempts to merge them.

The pull's thread stores title, body, author and time of creation. Pushes and merges store what git
says about a pull. Reads ask git only whether it can be merged, whether reviews are stale, and for
patches.
"""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Case, Exists, OuterRef, Q, Subquery, When
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.rendered import Rendered
from apps.core.search import holds
from apps.core.statements import Parameter, Statement
from apps.events.record import Keys, Target
from apps.git.repo import DiffStat, pull_ref
from apps.pulls.draft_reviews import DraftComment as DraftComment
from apps.pulls.draft_reviews import DraftReview as DraftReview
from apps.pulls.pull_versions import IS_DUE as IS_DUE
from apps.pulls.pull_versions import SHA_MAX as SHA_MAX
from apps.pulls.pull_versions import PullVersion as PullVersion
from apps.pulls.pull_versions import VersionContents as VersionContents
from apps.pulls.seen import SeenVersion as SeenVersion
from apps.pulls.seen import ViewedFile as ViewedFile
from apps.repos.models import BRANCHES, Ref, Repo
from apps.teams.models import Member
from apps.threads.models import Thread, ThreadStatus

REF_MAX = 255
STATISTICS = ("commit_count", "additions", "deletions", "changed_files")
"""The columns of a `DiffStat`."""
AUTO_MERGE_COLUMNS = (
    "auto_merge_strategy",
    "auto_merge_head_sha",
    "auto_merge_by_id",
    "auto_merge_set_at",
    "auto_merge_message",
    "auto_merge_deletes_source",
    "auto_merge_due_at",
)


class PullStatus(StrEnum):
    OPEN = "open"
    DRAFT = "draft"
    CLOSED = "closed"
    MERGED = "merged"


ACTIVE = (PullStatus.OPEN, PullStatus.DRAFT)
"""Pulls with these statuses are updated, or merged, by pushes to their branches."""
IS_ACTIVE = Q(status__in=[status.value for status in ACTIVE])
IS_UNCHECKED = IS_ACTIVE & Q(conflict_due_at__isnull=False)
"""Pulls that the worker has yet to check for conflicts."""
HAS_AUTO_MERGE = Q(auto_merge_due_at__isnull=False)
MIRROR = {
    PullStatus.OPEN: ThreadStatus.OPEN,
    PullStatus.DRAFT: ThreadStatus.OPEN,
    PullStatus.CLOSED: ThreadStatus.CLOSED,
    PullStatus.MERGED: ThreadStatus.RESOLVED,
}
"""The status of the pull's thread."""
PULL_ROW = {
    "id": "id",
    "number": "number",
    "uuid": "uuid",
    "title": "thread__title",
    "body": "thread__body",
    "source_branch": "source_branch",
    "target_branch": "target_branch",
    "source_repo_id": "source_repo_id",
    "source_moved": "source_moved",
    "status": "status",
    "created_by_uuid": "thread__created_by__uuid",
    "created_by_username": "thread__created_by__username",
    "created_by_is_bot": "thread__created_by__is_bot",
    "head_sha": "head_sha",
    "base_sha": "base_sha",
    "merge_commit_sha": "merge_commit_sha",
    "merge_strategy": "merge_strategy",
    "merged_at": "merged_at",
    "merged_by_uuid": "merged_by__uuid",
    "merged_by_username": "merged_by__username",
    "merged_by_is_bot": "merged_by__is_bot",
    "closed_at": "closed_at",
    **{name: name for name in STATISTICS},
    "auto_merge_strategy": "auto_merge_strategy",
    "auto_merge_head_sha": "auto_merge_head_sha",
    "auto_merge_by_uuid": "auto_merge_by__uuid",
    "auto_merge_by_username": "auto_merge_by__username",
    "auto_merge_by_is_bot": "auto_merge_by__is_bot",
    "auto_merge_set_at": "auto_merge_set_at",
    "auto_merge_message": "auto_merge_message",
    "auto_merge_deletes_source": "auto_merge_deletes_source",
    "last_activity_at": "thread__last_activity_at",
    "created_at": "thread__created_at",
    "updated_at": "updated_at",
}
"""The columns of a pull's record: the name of each, and its path in a query. `id` is removed."""


def _tips() -> models.QuerySet[Pull, Any]:
    source = Ref.objects.filter(repo=OuterRef("source_repo"), full_name=Parameter("source"))
    target = Ref.objects.filter(repo=OuterRef("repo"), full_name=Parameter("target"))
    has_head = Q(source_repo=None) | Q(source_moved=True) | Exists(source)
    head = Case(When(has_head, then="head_sha"))
    return Pull.objects.filter(pk=Parameter("pk")).values_list(head, Subquery(target.values("sha")))


TIPS = Statement(_tips)


def set_statistics(row: Pull | PullVersion, statistics: DiffStat) -> None:
    """Set the columns of `STATISTICS`, without saving."""
    for name in STATISTICS:
        setattr(row, name, getattr(statistics, name))


class PullQuerySet(models.QuerySet["Pull"]):
    def visible_to(self, principal: Principal) -> PullQuerySet:
        """Pulls of the repositories that this principal may read."""
        return self.filter(Repo.objects.where_readable(principal, "repo"))

    def search(self, text: str) -> PullQuerySet:
        """Pulls with this text in their title or body, ignoring case."""
        return self.filter(holds("thread__title", text) | holds("thread__body", text))

    def in_order(self, ordering: str) -> PullQuerySet:
        """Sort by one of `rules.ORDERINGS`, and equal rows by number in the same direction."""
        return self.order_by(ordering, "-number" if ordering.startswith("-") else "number")


@dataclass(frozen=True)
class GitState:
    """The head and the base of a pull, and the statistics of the changes between them."""

    head: str | None
    base: str | None
    statistics: DiffStat


@dataclass(frozen=True)
class AutoMerge:
    """A person's request to merge a pull as soon as nothing blocks it."""

    strategy: str
    head_sha: str
    """The head that the person has seen. No other head is merged."""
    by_id: int
    set_at: dt.datetime
    message: str | None = None
    """The message of the commit; None for the default."""
    deletes_source: bool = False
    """Whether the source branch is deleted after the merge."""


class AutoMergeEnd(StrEnum):
    """The reasons for which an auto-merge ends without a merge.

    Those of `REFUSALS` are codes of refused merges that only a push could change.
    """

    CANCELLED = "cancelled"
    REPLACED = "replaced"
    PUSHED = "pushed"
    PROTECTION_CHANGED = "protection_changed"
    CHANGES_REQUESTED = "changes_requested"
    CLOSED = "pull_closed"
    TARGET_DELETED = "target_deleted"
    TARGET_CHANGED = "target_changed"
    ACCESS_LOST = "access_lost"
    REPO_ARCHIVED = "repo_archived"
    HEAD_CHANGED = "head_changed"
    MERGE_CONFLICT = "merge_conflict"
    NOTHING_TO_MERGE = "nothing_to_merge"
    FAST_FORWARD_IMPOSSIBLE = "fast_forward_impossible"
    STRATEGY_DIFFERS = "strategy_differs"


class Pull(models.Model):
    """A request to merge a branch, of this repository or of a fork, into a branch."""

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="pulls")
    number = models.BigIntegerField()
    """The number of the pull's thread, stored here too for lookups and sorting."""
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    thread = models.OneToOneField(Thread, on_delete=models.CASCADE, related_name="pull")
    source_repo = models.ForeignKey(
        Repo, null=True, on_delete=models.SET_NULL, related_name="outgoing_pulls"
    )
    """The repository of the source branch: this one, or a fork. Null if the fork was deleted."""
    source_moved = models.BooleanField(default=False)
    """Whether somebody who may not update the pull has moved the branch of its fork. The pull then
    keeps its head and ignores the branch."""
    source_branch = models.CharField(max_length=REF_MAX)
    target_branch = models.CharField(max_length=REF_MAX)
    target_changed_at = models.DateTimeField(null=True)
    """When it last got another target branch. Earlier approvals were about another target."""
    status = models.CharField(max_length=10, default=PullStatus.OPEN)
    head_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: no branch yet
    """The tip of the source branch. It stays if the branch is deleted, or with `source_moved`."""
    base_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: no branch
    """The tip of the target branch, for a merged pull the tip before the merge. Null if one of the
    branches does not exist."""
    head_pushed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    commit_count = models.BigIntegerField(default=0)
    additions = models.BigIntegerField(default=0)
    deletions = models.BigIntegerField(default=0)
    changed_files = models.BigIntegerField(default=0)
    has_conflict = models.BooleanField(null=True)
    """Whether `head_sha` and `base_sha` conflict; null until the worker has asked git."""
    nothing_to_merge = models.BooleanField(default=False, db_default=False)
    """Whether `base_sha` contains `head_sha`; valid only if `has_conflict` is False."""
    conflict_due_at = models.DateTimeField(null=True)
    """When the worker asks git about conflicts; null if it has, or if a branch does not exist."""
    # Null is the value of both in the API until the pull is merged.
    merge_commit_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - see above
    merge_strategy = models.CharField(max_length=12, null=True)  # noqa: DJ001 - see above
    """Null if a push merged the pull."""
    merged_at = models.DateTimeField(null=True)
    merged_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    closed_at = models.DateTimeField(null=True)
    # All five are null without an auto-merge. `lock` reloads them with the pull.
    auto_merge_strategy = models.CharField(max_length=12, null=True)  # noqa: DJ001 - see above
    auto_merge_head_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - see above
    auto_merge_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
    )
    auto_merge_set_at = models.DateTimeField(null=True)
    auto_merge_message = models.TextField(null=True)  # noqa: DJ001 - null: the default
    auto_merge_deletes_source = models.BooleanField(null=True)
    auto_merge_due_at = models.DateTimeField(null=True)
    """When the worker tries to merge it next; while a worker does, the end of its lease."""
    last_version = models.BigIntegerField(default=0, db_default=0)
    """The number of the newest version, which has the current head; 0 without a head."""
    updated_at = models.DateTimeField(default=timezone.now)

    objects = PullQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["repo", "number"], name="pull_number_in_repo"),
        ]
        indexes = [
            models.Index(fields=["repo", "-updated_at", "-number"], name="pull_list_by_update"),
            models.Index(fields=["repo", "status", "-number"], name="pull_list_of_a_status"),
            models.Index(
                fields=["source_repo", "source_branch"], name="pull_source", condition=IS_ACTIVE
            ),
            models.Index(fields=["repo", "target_branch"], name="pull_target", condition=IS_ACTIVE),
            models.Index(
                fields=["conflict_due_at"], name="pull_conflict_due", condition=IS_UNCHECKED
            ),
            models.Index(
                fields=["auto_merge_due_at", "id"],
                name="pull_auto_merge_due",
                condition=HAS_AUTO_MERGE,
            ),
        ]

    def __str__(self) -> str:
        return f"pull {self.number} of {self.repo_id}"

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    @property
    def is_from_fork(self) -> bool:
        return self.source_repo_id != self.repo_id

    @property
    def source_ref(self) -> str:
        """The ref here that the head follows: its branch, or the copy of a fork's branch."""
        return pull_ref(self.number) if self.is_from_fork else BRANCHES + self.source_branch

    @property
    def target_ref(self) -> str:
        return BRANCHES + self.target_branch

    @property
    def merge_queue(self) -> str:
        """The name of the lock for the queue of merges into its target."""
        return f"merges into {self.target_ref} of repository {self.repo_id}"

    @property
    def segment(self) -> str:
        """Its path below the repository, the same on the pages and in the API."""
        return f"/pulls/{self.number}"

    def tips(self) -> tuple[str | None, str | None]:
        """The pull's head and the target's tip, as stored now; None without a branch. One query.

        The head is the pull's own: a merge must not include commits that the pull does not show.
        """
        head, target = TIPS.one(
            pk=self.pk, source=BRANCHES + self.source_branch, target=self.target_ref
        )
        return head, target

    def tip_refs(self) -> tuple[Ref | None, Ref | None]:
        """The stored refs of source and target; one query."""
        source = Q(repo=self.source_repo_id, full_name=BRANCHES + self.source_branch)
        rows = Ref.objects.filter(source | Q(repo=self.repo_id, full_name=self.target_ref))
        refs = {(row.repo_id, row.full_name): row for row in rows}
        source_ref = refs.get((self.source_repo_id or 0, BRANCHES + self.source_branch))
        return source_ref, refs.get((self.repo_id, self.target_ref))

    @property
    def statistics(self) -> DiffStat:
        """The stored numbers of commits, lines and files between base and head."""
        return DiffStat(*(getattr(self, name) for name in STATISTICS))

    def commits_between(self, base: str, head: str) -> int | None:
        """The stored number of commits between these two; None if it is not known."""
        is_stored = (base, head) == (self.base_sha, self.head_sha)
        return self.commit_count or None if is_stored else None

    def set_git_state(self, state: GitState) -> None:
        """Set head, base and statistics, without saving. The worker checks changed tips for
        conflicts; a pull that is already pending for that keeps its turn.
        """
        is_changed = (state.base, state.head) != (self.base_sha, self.head_sha)
        if is_changed or self.has_conflict is None:
            now = timezone.now()
            due_at = min(self.conflict_due_at or now, now)
            self.has_conflict = None
            self.conflict_due_at = due_at if state.base and state.head else None
        self.head_sha, self.base_sha = state.head, state.base
        set_statistics(self, state.statistics)

    def may_be_pushed_by(self, person: User) -> bool:
        """Whether this person pushed the head; also True if it is not known who did."""
        return self.head_sha is not None and self.head_pushed_by_id in (None, person.pk)

    @property
    def auto_merge(self) -> AutoMerge | None:
        """Its auto-merge as loaded; None if it has none."""
        strategy, head = self.auto_merge_strategy, self.auto_merge_head_sha
        by_id, set_at = self.auto_merge_by_id, self.auto_merge_set_at
        if strategy is None or head is None or by_id is None or set_at is None:
            return None
        message, deletes_source = self.auto_merge_message, bool(self.auto_merge_deletes_source)
        return AutoMerge(strategy, head, by_id, set_at, message, deletes_source)

    def set_auto_merge(self, auto_merge: AutoMerge | None) -> None:
        """Set or remove its auto-merge, without saving. The worker tries a new one at once."""
        values: tuple[Any, ...] = (None,) * len(AUTO_MERGE_COLUMNS)
        if auto_merge is not None:
            values = (*astuple(auto_merge), timezone.now())
        for name, value in zip(AUTO_MERGE_COLUMNS, values, strict=True):
            setattr(self, name, value)

    def wake_auto_merge(self) -> None:
        """Let the worker try its auto-merge now, if it has one; without saving."""
        if self.auto_merge_due_at is not None:
            self.auto_merge_due_at = timezone.now()

    def touch(self) -> None:
        """Record activity on the thread and the pull, without saving the pull."""
        self.thread.touch()
        self.updated_at = self.thread.last_activity_at

    def set_status(self, status: PullStatus) -> None:
        """Change the status of the pull and of its thread, without saving the pull."""
        self.status = status
        self.closed_at = timezone.now() if status is PullStatus.CLOSED else None
        self.thread.revise(status=MIRROR[status])

    def event_keys(self) -> Keys:
        return Keys(
            team=self.repo.owner_team_id,
            repo=self.repo_id,
            thread=self.thread_id,
            number=self.number,
            is_pull=True,
        )

    def event_target(self) -> Target:
        return Target("pull", {"number": self.number}, web=self.segment, api=self.segment)

    def event_title(self) -> str:
        return self.thread.title

    def event_heads(self) -> dict[str, str | None]:
        """The head and both branches, for the data of events."""
        return {
            "head_sha": self.head_sha,
            "source_branch": self.source_branch,
            "target_branch": self.target_branch,
        }


class MergeAttempt(models.Model):
    """A merge in progress: its lease and, once its commit is built, its queue position and plan.

    If the target contains `result_sha`, the pull has been merged, even if no row says so yet.
    """

    pull = models.OneToOneField(Pull, on_delete=models.CASCADE, related_name="attempt")
    token = models.UUIDField(default=uuid.uuid4)
    """The token of the lease; it changes when another process takes the lease over."""
    leased_until = models.DateTimeField()
    queued_at = models.DateTimeField(null=True)
    """Its position among the merges into its target; null until its commit is built. If the merge
    was refused because its turn did not come, the row keeps the position for a repeat: it then has
    no plan, and its lease has expired."""
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    strategy = models.CharField(max_length=12)
    push = models.UUIDField(null=True)
    """The push in the journal that carries out the plan; null without a plan."""
    head_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: not built yet
    result_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: not built

    def __str__(self) -> str:
        return f"merge of pull {self.pull_id} until {self.leased_until}"

    @classmethod
    def without_plan(cls, expired: dt.datetime) -> models.QuerySet[MergeAttempt]:
        """Attempts whose lease expired by then, and that git cannot have carried out."""
        return cls.objects.filter(push=None, leased_until__lte=expired)

    def renew(self, seconds: int) -> None:
        """Extend the lease to this long from now, without saving."""
        self.leased_until = timezone.now() + dt.timedelta(seconds=seconds)


class ReviewStatus(StrEnum):
    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"
    COMMENTED = "commented"
    DISMISSED = "dismissed"
    """Set on a review by the repository's admins."""


class ReviewQuerySet(models.QuerySet["Review"]):
    def with_people(self, repo: Repo) -> ReviewQuerySet:
        """Load the people of a record, and the author's role in the repository's team."""
        roles = Member.objects.filter(team=repo.owner_team_id, user=OuterRef("created_by"))
        people = self.select_related("created_by", "dismissed_by").defer("body_html")
        return people.annotate(author_role=Subquery(roles.values("role")[:1]))

    def decisions(self) -> ReviewQuerySet:
        """Reviews other than comments, in the order of their decisions."""
        rows = self.exclude(status=ReviewStatus.COMMENTED.value)
        return rows.order_by("decided_at", "id")


class Review(Rendered):
    """A review of a pull by anybody who may read it. Reads compute whether it counts."""

    pull = models.ForeignKey(Pull, on_delete=models.CASCADE, related_name="reviews")
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    status = models.CharField(max_length=20)
    body = models.TextField(blank=True)
    commit_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: no head yet
    """The pull's head at the time of the decision."""
    by_pusher = models.BooleanField(default=True)
    """Whether its author pushed that commit, or may have. An approval then never counts, even if
    somebody else pushes a new head."""
    decided_at = models.DateTimeField(default=timezone.now)
    """The newest decision of a person counts."""
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    dismissed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = ReviewQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["pull", "created_at", "id"], name="review_oldest")]

    def __str__(self) -> str:
        return f"{self.status} by {self.created_by_id} on pull {self.pull_id}"

    def event_keys(self) -> Keys:
        return self.pull.event_keys()

    def event_target(self) -> Target:
        ident = {"uuid": str(self.uuid), "pull_number": self.pull.number}
        api = f"{self.pull.segment}/reviews/{self.uuid}"
        return Target("review", ident, web=self.pull.segment, api=api)

    def event_title(self) -> str:
        return self.pull.event_title()


class ReviewRequest(models.Model):
    """A request for a review by one person. A later review by this person fulfils it."""

    pull = models.ForeignKey(
        Pull, on_delete=models.CASCADE, related_name="review_requests", db_index=False
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    requested_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pull", "user"], name="review_request_once")]

    def __str__(self) -> str:
        return f"request to {self.user_id} for a review of pull {self.pull_id}"

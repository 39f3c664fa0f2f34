"""Pull requests, their versions and reviews, and merges under way.

Title, body, author and time of creation are those of the companion thread, which alone stores them.
What git knows of a pull is stored when a push or a merge happens; reads ask git only whether it can
be merged, whether reviews are stale, and for patches.
"""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass
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
from apps.repos.models import BRANCHES, Ref, Repo
from apps.teams.models import Member
from apps.threads.kinds import ThreadStatus
from apps.threads.models import Thread

REF_MAX = 255
SHA_MAX = 40


class PullStatus(StrEnum):
    OPEN = "open"
    DRAFT = "draft"
    CLOSED = "closed"
    MERGED = "merged"


ACTIVE = (PullStatus.OPEN, PullStatus.DRAFT)
"""Pulls in these states follow their branches, and can be merged by a push."""
IS_ACTIVE = Q(status__in=[status.value for status in ACTIVE])
IS_UNCHECKED = IS_ACTIVE & Q(conflict_due_at__isnull=False)
"""The worker has yet to ask git whether these have conflicts."""
MIRROR = {
    PullStatus.OPEN: ThreadStatus.OPEN,
    PullStatus.DRAFT: ThreadStatus.OPEN,
    PullStatus.CLOSED: ThreadStatus.CLOSED,
    PullStatus.MERGED: ThreadStatus.RESOLVED,
}
"""What the companion thread's status is."""


JOINED = {
    "title": "thread__title",
    "body": "thread__body",
    "last_activity_at": "thread__last_activity_at",
    "created_at": "thread__created_at",
    "created_by_uuid": "thread__created_by__uuid",
    "created_by_username": "thread__created_by__username",
    "merged_by_uuid": "merged_by__uuid",
    "merged_by_username": "merged_by__username",
}
PULL_ROW = {
    name: JOINED.get(name, name)
    for name in (
        *("number", "uuid", "title", "body", "source_branch", "target_branch", "source_repo_id"),
        *("source_moved", "status", "created_by_uuid", "created_by_username"),
        *("head_sha", "base_sha"),
        *("merge_commit_sha", "merge_strategy", "merged_at", "merged_by_uuid"),
        *("merged_by_username", "closed_at", "commit_count", "additions", "deletions"),
        *("changed_files", "last_activity_at", "created_at", "updated_at"),
    )
}
"""What the record of a pull takes from its row: the name there, and the path in a query."""


def _tips() -> models.QuerySet[Pull, Any]:
    source = Ref.objects.filter(repo=OuterRef("source_repo"), full_name=Parameter("source"))
    target = Ref.objects.filter(repo=OuterRef("repo"), full_name=Parameter("target"))
    stands = Q(source_repo=None) | Q(source_moved=True) | Exists(source)
    head = Case(When(stands, then="head_sha"))
    return Pull.objects.filter(pk=Parameter("pk")).values_list(head, Subquery(target.values("sha")))


TIPS = Statement(_tips)


class PullQuerySet(models.QuerySet["Pull"]):
    def visible_to(self, principal: Principal) -> PullQuerySet:
        """Pulls of the repositories that this principal may read."""
        return self.filter(Repo.objects.where_readable(principal, "repo"))

    def search(self, text: str) -> PullQuerySet:
        """Pulls with this text in title or body, ignoring case."""
        return self.filter(holds("thread__title", text) | holds("thread__body", text))

    def in_order(self, ordering: str) -> PullQuerySet:
        """Sorted by one of `rules.ORDERINGS`, ties by number in the same direction."""
        return self.order_by(ordering, "-number" if ordering.startswith("-") else "number")


@dataclass(frozen=True)
class GitState:
    """What git says of a pull: its head, its base, and what lies between the two."""

    head: str | None
    base: str | None
    figures: DiffStat


class Pull(models.Model):
    """A request to merge one branch into another of the same repository."""

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="pulls")
    number = models.BigIntegerField()
    """The companion thread's number, repeated here for look-ups and order."""
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    thread = models.OneToOneField(Thread, on_delete=models.CASCADE, related_name="pull")
    source_repo = models.ForeignKey(
        Repo, null=True, on_delete=models.SET_NULL, related_name="outgoing_pulls"
    )
    """Where the source branch is: in the same repository, or in a fork of it. Null: the fork has
    gone."""
    source_moved = models.BooleanField(default=False)
    """Whether its fork's branch was moved by somebody who may not move the pull: it keeps its
    head, and does not look at the branch."""
    source_branch = models.CharField(max_length=REF_MAX)
    target_branch = models.CharField(max_length=REF_MAX)
    status = models.CharField(max_length=10, default=PullStatus.OPEN)
    head_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: no branch yet
    """The tip of the source branch; the last one when the branch is deleted, or `source_moved`."""
    base_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: a branch lacks
    """The tip of the target branch; of a merged pull, the one that it was merged into."""
    head_pushed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    commit_count = models.BigIntegerField(default=0)
    additions = models.BigIntegerField(default=0)
    deletions = models.BigIntegerField(default=0)
    changed_files = models.BigIntegerField(default=0)
    has_conflict = models.BooleanField(null=True)
    """Whether `head_sha` and `base_sha` conflict; null while git has not told."""
    nothing_to_merge = models.BooleanField(default=False, db_default=False)
    """Whether `base_sha` contains `head_sha`; it holds while `has_conflict` is False."""
    conflict_due_at = models.DateTimeField(null=True)
    """When the worker asks git about conflicts; null when it has told, or a branch lacks."""
    merge_commit_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001
    merge_strategy = models.CharField(max_length=12, null=True)  # noqa: DJ001
    """Null where a push merged it: nobody chose one."""
    merged_at = models.DateTimeField(null=True)
    merged_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    closed_at = models.DateTimeField(null=True)
    last_version = models.BigIntegerField(default=0, db_default=0)
    """The number of the newest version, which is of the present head; 0 without a head."""
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
        """The ref here that the head follows: the source branch, or the copy of a fork's."""
        return pull_ref(self.number) if self.is_from_fork else BRANCHES + self.source_branch

    @property
    def target_ref(self) -> str:
        return BRANCHES + self.target_branch

    @property
    def merge_queue(self) -> str:
        """The lock that a merge into its target holds to see who is ahead, and to take a place."""
        return f"merges into {self.target_ref} of repository {self.repo_id}"

    @property
    def segment(self) -> str:
        """Where it is below its repository, for people and in the API."""
        return f"/pulls/{self.number}"

    def tips(self) -> tuple[str | None, str | None]:
        """The head that the pull shows and the target's, as they are stored now; one query.

        None for a branch that is missing. The source's tip is not asked for: nobody merges what
        the pull does not show.
        """
        head, target = TIPS.one(
            pk=self.pk, source=BRANCHES + self.source_branch, target=self.target_ref
        )
        return head, target

    def tip_refs(self) -> tuple[Ref | None, Ref | None]:
        """The stored refs of source and target now; one query."""
        source = Q(repo=self.source_repo_id, full_name=BRANCHES + self.source_branch)
        target = Q(repo=self.repo_id, full_name=self.target_ref)
        found = {(ref.repo_id, ref.full_name): ref for ref in Ref.objects.filter(source | target)}
        return (
            found.get((self.source_repo_id or 0, BRANCHES + self.source_branch)),
            found.get((self.repo_id, self.target_ref)),
        )

    @property
    def figures(self) -> DiffStat:
        """The stored numbers of commits, lines and files between base and head."""
        return DiffStat(self.commit_count, self.additions, self.deletions, self.changed_files)

    def commits_between(self, base: str, head: str) -> int | None:
        """The stored number of commits, if it is of these two and git could tell."""
        same = (base, head) == (self.base_sha, self.head_sha)
        return self.commit_count or None if same else None

    def set_git_state(self, state: GitState) -> None:
        """Store what git says of the pull, without saving.

        The worker asks whether the two tips conflict, unless it has been told. A pull that waits
        for that already keeps its turn.
        """
        moves = (state.base, state.head) != (self.base_sha, self.head_sha)
        if moves or self.has_conflict is None:
            now = timezone.now()
            due_at = min(self.conflict_due_at or now, now)
            self.has_conflict = None
            self.conflict_due_at = due_at if state.base and state.head else None
        self.head_sha, self.base_sha = state.head, state.base
        self.commit_count = state.figures.commit_count
        self.additions, self.deletions = state.figures.additions, state.figures.deletions
        self.changed_files = state.figures.changed_files

    def may_be_pushed_by(self, person: User) -> bool:
        """Whether this person pushed the head; also true where nobody knows who did."""
        return self.head_sha is not None and self.head_pushed_by_id in (None, person.pk)

    def touch(self) -> None:
        """Note an activity, without saving the pull."""
        self.thread.touch()
        self.updated_at = self.thread.last_activity_at

    def set_status(self, status: PullStatus) -> None:
        """Change the state, and the thread's with it, without saving the pull."""
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
        """What is asked to be merged into what, for the events that tell of a head."""
        return {
            "head_sha": self.head_sha,
            "source_branch": self.source_branch,
            "target_branch": self.target_branch,
        }


class MergeAttempt(models.Model):
    """A merge under way: its lease and, once its commit is built, its place and its plan.

    A target that is found at `result_sha` shows that the pull has been merged, also when the
    process died before it could write so.
    """

    pull = models.OneToOneField(Pull, on_delete=models.CASCADE, related_name="attempt")
    token = models.UUIDField(default=uuid.uuid4)
    """Whoever holds this may go on; it changes when the lease is taken over."""
    leased_until = models.DateTimeField()
    queued_at = models.DateTimeField(null=True)
    """Its place among the merges into its target; null while it is built and holds up nobody. With
    an expired lease and no plan it is kept for a repeat."""
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    strategy = models.CharField(max_length=12)
    push = models.UUIDField(null=True)
    """Its step in the journal."""
    head_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: not built yet
    result_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001

    def __str__(self) -> str:
        return f"merge of pull {self.pull_id} until {self.leased_until}"

    @classmethod
    def without_plan(cls, expired: dt.datetime) -> models.QuerySet[MergeAttempt]:
        """Those whose lease had expired by then, and which git cannot have carried out."""
        return cls.objects.filter(push=None, leased_until__lte=expired)

    def renew(self, seconds: int) -> None:
        """Extend the lease from now on, without saving."""
        self.leased_until = timezone.now() + dt.timedelta(seconds=seconds)


class ReviewStatus(StrEnum):
    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"
    COMMENTED = "commented"
    DISMISSED = "dismissed"
    """Set on a review by the repository's admins."""


class ReviewQuerySet(models.QuerySet["Review"]):
    def with_people(self, repo: Repo) -> ReviewQuerySet:
        """What a record needs, in the same query; `author_role` is the one in the repo's team."""
        roles = Member.objects.filter(team=repo.owner_team_id, user=OuterRef("created_by"))
        people = self.select_related("created_by", "dismissed_by").defer("body_html")
        return people.annotate(author_role=Subquery(roles.values("role")[:1]))

    def decisions(self) -> ReviewQuerySet:
        """Those that are no comments, in the order in which they were decided."""
        rows = self.exclude(status=ReviewStatus.COMMENTED.value)
        return rows.order_by("decided_at", "id")


class Review(Rendered):
    """A person's review of a pull. Always stored; whether it counts is computed when read."""

    pull = models.ForeignKey(Pull, on_delete=models.CASCADE, related_name="reviews")
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    status = models.CharField(max_length=20)
    body = models.TextField(blank=True)
    commit_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: no head yet
    """The head when the decision was made."""
    by_pusher = models.BooleanField(default=True)
    """Whether its author had pushed that commit, or may have: then it approves nothing, whatever
    becomes the head."""
    decided_at = models.DateTimeField(default=timezone.now)
    """Of several decisions of one person the newest counts."""
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


IS_DUE = Q(due_at__isnull=False)


class PullVersion(models.Model):
    """A head that a pull has had. A ref of its own keeps its commits (`apps/pulls/heads.py`).

    When only the base moves, there is no new one, and this stays as it is: what is between
    merge base and head is what the pull has asked to be merged.
    """

    pull = models.ForeignKey(
        Pull, on_delete=models.CASCADE, related_name="versions", db_index=False
    )
    version = models.BigIntegerField()
    """From 1, without gaps."""
    head_sha = models.CharField(max_length=SHA_MAX)
    base_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: no target yet
    """The tip of the target when the version was made, or when there first was one."""
    merge_base_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: none
    """Null where the two have no common history, or git has not told yet (`is_known`)."""
    pushed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    is_forced = models.BooleanField(null=True)
    """Whether it lacks commits of the version before; null where git could not tell."""
    commit_count = models.BigIntegerField(null=True)
    additions = models.BigIntegerField(null=True)
    deletions = models.BigIntegerField(null=True)
    changed_files = models.BigIntegerField(null=True)
    """These four: null while git has not told."""
    due_at = models.DateTimeField(null=True)
    """When the worker makes what is missing, its ref or its contents; null when nothing is."""
    tries = models.PositiveSmallIntegerField(default=0)
    """How often git could not tell what it contains."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pull", "version"], name="version_number_in_pull"),
        ]
        indexes = [models.Index(fields=["due_at"], name="version_due", condition=IS_DUE)]

    def __str__(self) -> str:
        return f"version {self.version} of pull {self.pull_id}"

    @property
    def is_known(self) -> bool:
        """Whether it is stored what it contains."""
        return self.commit_count is not None


class VersionContents(models.Model):
    """The commits and the files of a version, apart from it: lists of versions need none of them.

    JSON, packed by zlib. What was too much to be listed is left out; the version's own numbers are
    the true ones.
    """

    version = models.OneToOneField(
        PullVersion, on_delete=models.CASCADE, primary_key=True, related_name="contents"
    )
    commits = models.BinaryField()
    """Oldest first."""
    files = models.BinaryField()
    """In git's order."""

    class Meta:
        verbose_name_plural = "contents of versions"

    def __str__(self) -> str:
        return f"contents of {self.version_id}"

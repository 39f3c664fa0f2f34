"""Statuses of commits, which CI and other programs report (docs/statuses.md)."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Max, OuterRef, Subquery
from django.utils import timezone

from apps.events.record import Keys, Target
from apps.repos.contexts import CONTEXT_MAX
from apps.repos.models import Repo
from apps.teams.models import Member

DESCRIPTION_MAX = 255
URL_MAX = 2048
NO_STATUS = "none"
"""The state of a commit without statuses."""


class StatusState(models.TextChoices):
    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"


class CommitStatusQuerySet(models.QuerySet["CommitStatus"]):
    def of_commit(self, repo: Repo, sha: str) -> CommitStatusQuerySet:
        return self.filter(repo=repo, sha=sha)

    def latest_by(self, *columns: str) -> CommitStatusQuerySet:
        """The latest status of each combination of these columns. The id decides, not the time."""
        newest = self.order_by().values(*columns).annotate(newest=Max("pk"))
        return CommitStatus.objects.filter(pk__in=newest.values("newest"))

    def with_roles(self) -> CommitStatusQuerySet:
        """With `created_by`, and their `role` in the team of the repository."""
        roles = Member.objects.filter(
            team=OuterRef("repo__owner_team"), user=OuterRef("created_by")
        )
        rows = self.select_related("created_by")
        return rows.annotate(role=Subquery(roles.values("role")[:1]))


class CommitStatus(models.Model):
    """One report about a commit. The latest of a context says how it is now."""

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="+", db_index=False)
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    sha = models.CharField(max_length=40)
    context = models.CharField(max_length=CONTEXT_MAX)
    state = models.CharField(max_length=7, choices=StatusState)
    description = models.CharField(max_length=DESCRIPTION_MAX, blank=True)
    target_url = models.CharField(max_length=URL_MAX, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)

    objects = CommitStatusQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["repo", "sha", "-id"], name="status_newest"),
            models.Index(fields=["repo", "sha", "context", "-id"], name="status_of_context"),
        ]

    def __str__(self) -> str:
        return f"{self.context}: {self.state}"

    def event_keys(self) -> Keys:
        return self.repo.event_keys()

    def event_target(self) -> Target:
        segment = f"/commits/{self.sha}"
        ident = {"uuid": str(self.uuid), "sha": self.sha}
        return Target("status", ident, web=segment, api=f"{segment}/statuses")

    def event_title(self) -> None:
        return None


class CommitChecks(models.Model):
    """The combined state of a commit that has statuses, for lists."""

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="+", db_index=False)
    sha = models.CharField(max_length=40)
    state = models.CharField(max_length=7, choices=StatusState)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["repo", "sha"], name="checks_once")]

    def __str__(self) -> str:
        return f"{self.sha[:7]}: {self.state}"

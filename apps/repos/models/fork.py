"""Forks: requested copies of repositories. A row is a job of the worker."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, cast
from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import User
from apps.core.access import Principal
from apps.events.record import Keys, Target
from apps.jobs.leases import Leased
from apps.repos.models.repo import Repo
from apps.teams.models import Team


class ForkStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    DELETED = "deleted"
    """The copy was deleted."""


LIVE: Final = (ForkStatus.QUEUED, ForkStatus.RUNNING, ForkStatus.COMPLETED)
"""Statuses in which an owner may have only one fork of an upstream."""
_IS_LIVE: Final = Q(status__in=[status.value for status in LIVE])
TO_DO: Final = Q(status__in=[ForkStatus.QUEUED.value, ForkStatus.RUNNING.value])


class ForkQuerySet(models.QuerySet["Fork"]):
    def with_paths(self) -> ForkQuerySet:
        """Load the relations of a record."""
        names = ("upstream__owner_team", "upstream__owner_user", "repo__owner_team")
        return self.select_related(
            "created_by", "owner_team", "owner_user", *names, "repo__owner_user"
        )

    def visible_to(self, principal: Principal) -> ForkQuerySet:
        """Forks for lists: those that the principal may read or has requested; all for staff. Those
        whose copy was deleted are left out.
        """
        forks = self.exclude(status=ForkStatus.DELETED)
        if principal.sees_all:
            return forks
        readable = Repo.objects.visible_to(principal).values("pk")
        if principal.is_limited:
            return forks.filter(repo__in=readable)
        return forks.filter(Q(repo__in=readable) | Q(created_by=principal.person_id))

    def of_owner(self, **owner: Any) -> Fork | None:
        """The owner's newest fork that has not failed, else the newest failed (docs/forks.md)."""
        forks = self.with_paths().filter(**owner).exclude(status=ForkStatus.DELETED)
        forks = forks.order_by("-created_at", "-id")
        return forks.exclude(status=ForkStatus.FAILED).first() or forks.first()


class Fork(Leased):
    """A copy of `upstream` into the space of a team or person, requested by `created_by`."""

    uuid = models.UUIDField(default=uuid4, unique=True, editable=False)
    upstream = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="forks")
    owner_team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT, related_name="forks")
    owner_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="forks"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    repo = models.OneToOneField(Repo, null=True, on_delete=models.CASCADE, related_name="fork")
    """The copy, once it is complete."""
    repo_uuid = models.UUIDField(default=uuid4, editable=False)
    """The uuid of the copy, which sets its path. Each attempt has a new one, so that a stalled
    worker cannot change the copy that another has finished.
    """
    status = models.CharField(max_length=10, default=ForkStatus.QUEUED)
    error = models.TextField(null=True)  # noqa: DJ001 - null: not failed
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)

    objects = ForkQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["upstream", "owner_team"], condition=_IS_LIVE, name="fork_once_in_a_team"
            ),
            models.UniqueConstraint(
                fields=["upstream", "owner_user"], condition=_IS_LIVE, name="fork_once_of_a_user"
            ),
            models.CheckConstraint(
                condition=Q(owner_team=None) ^ Q(owner_user=None), name="fork_has_one_owner"
            ),
        ]
        indexes = [
            models.Index(fields=["upstream", "-created_at", "-id"], name="fork_newest"),
            models.Index(fields=["id"], condition=TO_DO, name="fork_to_do"),
        ]

    def __str__(self) -> str:
        return f"fork {self.uuid} {self.status}"

    @property
    def owner(self) -> Team | User:
        return cast("Team | User", self.owner_team or self.owner_user)

    def event_keys(self) -> Keys:
        """Events of a completed fork are for its readers; of a failed one, for its creator."""
        if self.repo is None:
            return Keys(private_to=self.created_by_id)
        return self.repo.event_keys()

    def event_target(self) -> Target:
        page = "" if self.repo else None
        api = "" if self.repo else f"/forks/{self.uuid}"
        return Target("fork", {"uuid": str(self.uuid)}, web=page, api=api)

    def event_title(self) -> None:
        return None

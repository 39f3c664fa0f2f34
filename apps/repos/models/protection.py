"""Protected branches, and whose approval lets a merge change them (docs/protections.md)."""

from __future__ import annotations

import re
import uuid
from functools import lru_cache

from django.conf import settings
from django.db import models
from django.db.models import Count, OuterRef, Prefetch, Q, Subquery
from django.utils import timezone

from apps.events.record import Keys, Target
from apps.repos.models.repo import Repo
from apps.teams.models import Member

PATTERN_MAX = 255
REQUIRED_MAX = 100
"""Approvals that can be asked for; a mistyped number should not close a branch for good."""
MOST_PROTECTIONS = 100
"""Of one repository: each ref of a push, and there may be thousands, is compared with all of them.
Those that had more before there was this limit keep them.
"""


class ProtectionQuerySet(models.QuerySet["Protection"]):
    def with_people(self) -> ProtectionQuerySet:
        """What a record needs, in the same query: `approver_count` and who made it."""
        return self.select_related("created_by").annotate(approver_count=Count("approvers"))

    def matching(self, branch: str) -> list[Protection]:
        """Those that protect this branch, oldest first, with their approvers; two queries at most.

        The approvers have `role`, the one in the repository's team.
        """
        found = [row for row in self.order_by("created_at", "id") if row.matches(branch)]
        if found:
            models.prefetch_related_objects(found, Prefetch("approvers", Approver.with_roles()))
        return found


class Protection(models.Model):
    """A branch, or a glob of branches, that nobody pushes to. The branch need not exist."""

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="protections")
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    branch = models.CharField(max_length=PATTERN_MAX)
    """An exact name, or one in which `*` stands for anything but `/`. Case counts."""
    required_approvals = models.PositiveSmallIntegerField(default=1)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = ProtectionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["repo", "branch"], name="protection_once_in_a_repo"),
            models.CheckConstraint(
                condition=Q(required_approvals__gte=1), name="protection_asks_for_an_approval"
            ),
        ]
        indexes = [models.Index(fields=["repo", "created_at", "id"], name="protection_oldest")]

    def __str__(self) -> str:
        return f"protection of {self.branch}"

    def matches(self, branch: str) -> bool:
        """Whether it protects the branch of this short name."""
        return glob_matches(self.branch, branch)

    @property
    def api_segment(self) -> str:
        """Where it is below its repository in the API."""
        return f"/protections/{self.uuid}"

    def event_keys(self) -> Keys:
        return self.repo.event_keys()

    def event_target(self) -> Target:
        return Target("protection", {"uuid": str(self.uuid)}, web="", api=self.api_segment)

    def event_title(self) -> None:
        return None


def glob_matches(pattern: str, name: str) -> bool:
    """Whether the name is what the pattern says, `*` standing for anything but `/`."""
    return glob(pattern).fullmatch(name) is not None


@lru_cache(maxsize=1024)
def glob(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression that takes long for no name.

    A text between two `*` is found where it comes first, and never looked for again.
    """
    return re.compile("/".join(map(_part, pattern.split("/"))))


def _part(pattern: str) -> str:
    first, *others = map(re.escape, pattern.split("*"))
    if not others:
        return first
    *middle, last = others
    found = "".join(f"(?>[^/]*?{text})" for text in middle)
    return f"{first}{found}[^/]*{last}"


class Approver(models.Model):
    """Somebody whose approval a protection asks for; where it names none, anybody with write."""

    protection = models.ForeignKey(Protection, on_delete=models.CASCADE, related_name="approvers")
    # Protected, because a list that loses its last name would let everybody with write approve.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    added_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["protection", "user"], name="approver_once_in_a_protection"
            ),
        ]
        indexes = [models.Index(fields=["protection", "created_at", "id"], name="approver_oldest")]

    def __str__(self) -> str:
        return f"{self.user_id} for {self.protection_id}"

    @staticmethod
    def with_roles() -> models.QuerySet[Approver]:
        """All of them, oldest first, with their user, and `role` in the repository's team."""
        roles = Member.objects.filter(
            team=OuterRef("protection__repo__owner_team"), user=OuterRef("user")
        )
        rows = Approver.objects.select_related("user").order_by("created_at", "id")
        return rows.annotate(role=Subquery(roles.values("role")[:1]))

    def event_keys(self) -> Keys:
        return self.protection.event_keys()

    def event_target(self) -> Target:
        ident = {"uuid": str(self.user.uuid), "protection_uuid": str(self.protection.uuid)}
        api = f"{self.protection.api_segment}/approvers"
        return Target("approver", ident, web="", api=api)

    def event_title(self) -> None:
        return None

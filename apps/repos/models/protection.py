"""Protected branches, and whose approval lets a merge change them (docs/protections.md)."""

from __future__ import annotations

import re
import uuid
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import connection, models
from django.db.models import F, Func, OuterRef, Prefetch, Q, Subquery, Value
from django.db.models.functions import Length, Replace
from django.db.models.lookups import Exact
from django.utils import timezone

from apps.core.statements import Parameter, Statement
from apps.events.record import Keys, Target
from apps.repos.models.repo import Repo
from apps.teams.models import Member

PATTERN_MAX = 255
REQUIRED_MAX = 20
"""Approvals that can be asked for. Protections that asked for more before still do."""
MOST_PROTECTIONS = 100
"""Of one repository: each ref of a push, and there may be thousands, is compared with all of them.
Those that had more before there was this limit keep them.
"""


class ProtectionQuerySet(models.QuerySet["Protection"]):
    def with_people(self) -> ProtectionQuerySet:
        """What a record needs: who made it, and its approvers, in two queries."""
        rows = self.select_related("created_by")
        return rows.prefetch_related(Prefetch("approvers", Approver.with_roles()))


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


OLDEST = Statement(
    lambda: Protection.objects.filter(repo=Parameter("repo")).order_by("created_at", "id")
)


def protections_of(repo: Repo, branch: str) -> list[Protection]:
    """Those that protect this branch, oldest first, with their approvers; two queries at most.

    The approvers have `role`, the one in the repository's team.
    """
    protections: list[Protection] = OLDEST.all(repo=repo.pk)
    found = [row for row in protections if row.matches(branch)]
    for protection in found:
        protection.repo = repo
    if found:
        models.prefetch_related_objects(found, Prefetch("approvers", Approver.with_roles()))
    return found


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


def protects(pattern: F, name: F) -> Q:
    """`glob_matches` for columns: rows of which a branch is what a pattern says.

    In SQL `*` stands for `/` as well, but not where both have as many of them: each in the pattern
    then takes one of the name, and leaves none to a `*`.
    """
    if connection.vendor == "sqlite":  # its GLOB knows `[` and `?` too, which no branch has
        found = Func(name, pattern, arg_joiner=" GLOB ", **COMPARISON)
    else:
        like: Any = pattern
        for sign, meant in (("\\", "\\\\"), ("%", "\\%"), ("_", "\\_"), ("*", "%")):
            like = Replace(like, Value(sign), Value(meant))
        found = Func(name, like, arg_joiner=" LIKE ", **COMPARISON)
    return Q(found) & Q(Exact(_slashes(pattern), _slashes(name)))


COMPARISON: dict[str, Any] = {
    "template": "(%(expressions)s)",
    "output_field": models.BooleanField(),
}


def _slashes(text: F) -> Any:
    return Length(text) - Length(Replace(text, Value("/"), Value("")))


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

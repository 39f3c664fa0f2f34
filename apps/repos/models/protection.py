"""Protected branches, and the approvers of merges into them (docs/protections.md)."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
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
"""Most approvals that a protection may require. Older protections may require more."""
NAMES_MAX = 20
"""Most required statuses of a protection, and most reporters."""
MOST_PROTECTIONS = 100
"""Most protections of one repository, because each of a push's refs is compared with all of them.
Repositories that had more before this limit keep them.
"""


class ProtectionQuerySet(models.QuerySet["Protection"]):
    def with_people(self) -> ProtectionQuerySet:
        """Load the relations of a record, creator and approvers, in two queries."""
        rows = self.select_related("created_by")
        return rows.prefetch_related(Prefetch("approvers", Approver.with_roles()))


class Protection(models.Model):
    """Forbids pushes to a branch, or to a glob of branches. The branch need not exist."""

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="protections")
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    branch = models.CharField(max_length=PATTERN_MAX)
    """An exact name, or a pattern in which `*` matches anything but `/`. Case-sensitive."""
    required_approvals = models.PositiveSmallIntegerField(default=1)
    required_statuses = models.JSONField(default=list, db_default=[])
    """The contexts whose status must be `success` on the head."""
    status_reporters = models.JSONField(default=list, db_default=[])
    """The usernames of the people whose statuses count. Without any, those of all writers count."""
    resolved_required = models.BooleanField(default=False, db_default=False)
    """Whether all comments on lines must be resolved."""
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
        """Whether this protects the branch with this short name."""
        return glob_matches(self.branch, branch)

    @property
    def api_segment(self) -> str:
        """Its API path below the repository's."""
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
    """The protections of a branch, oldest first, with approvers and their `role` in the team."""
    protections: list[Protection] = OLDEST.all(repo=repo.pk)
    matching = [row for row in protections if row.matches(branch)]
    for protection in matching:
        protection.repo = repo
    if matching:
        models.prefetch_related_objects(matching, Prefetch("approvers", Approver.with_roles()))
    return matching


def glob_matches(pattern: str, name: str) -> bool:
    """Whether the name matches the pattern, in which `*` matches anything but `/`."""
    return glob(pattern).fullmatch(name) is not None


@lru_cache(maxsize=1024)
def glob(pattern: str) -> re.Pattern[str]:
    """Compile a pattern to a regular expression that is fast for every name.

    Atomic groups match a text between two `*` at its first position and never backtrack.
    """
    return re.compile("/".join(map(_part, pattern.split("/"))))


def _part(pattern: str) -> str:
    first, *others = map(re.escape, pattern.split("*"))
    if not others:
        return first
    *middle, last = others
    groups = "".join(f"(?>[^/]*?{text})" for text in middle)
    return f"{first}{groups}[^/]*{last}"


def protects(pattern: F, name: F) -> Q:
    """`glob_matches` as a condition on two columns.

    In SQL `*` matches `/` too. Comparing the numbers of `/` prevents that: if both texts have
    equally many, each `/` of the name matches one of the pattern, and none is left for a `*`.
    """
    if connection.vendor == "sqlite":
        # Its GLOB also treats `[` and `?` specially, which no branch contains.
        matches = Func(name, pattern, arg_joiner=" GLOB ", **COMPARISON)
    else:
        like: Any = pattern
        for sign, replacement in (("\\", "\\\\"), ("%", "\\%"), ("_", "\\_"), ("*", "%")):
            like = Replace(like, Value(sign), Value(replacement))
        matches = Func(name, like, arg_joiner=" LIKE ", **COMPARISON)
    return Q(matches) & Q(Exact(_slashes(pattern), _slashes(name)))


COMPARISON: dict[str, Any] = {
    "template": "(%(expressions)s)",
    "output_field": models.BooleanField(),
}


def _slashes(text: F) -> Any:
    return Length(text) - Length(Replace(text, Value("/"), Value("")))


class Approver(models.Model):
    """A person whose approval a protection counts. Without any, everybody with write access."""

    protection = models.ForeignKey(Protection, on_delete=models.CASCADE, related_name="approvers")
    # PROTECT, because without its last approver the protection counts everybody with write access.
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
        """Approvers, oldest first, with their user and their `role` in the repository's team."""
        roles = Member.objects.filter(
            team=OuterRef("protection__repo__owner_team"), user=OuterRef("user")
        )
        rows = Approver.objects.select_related("user").order_by("created_at", "id")
        return rows.annotate(role=Subquery(roles.values("role")[:1]))

    def event_keys(self) -> Keys:
        return replace(self.protection.event_keys(), person=self.user_id)

    def event_target(self) -> Target:
        ident = {"uuid": str(self.user.uuid), "protection_uuid": str(self.protection.uuid)}
        api = f"{self.protection.api_segment}/approvers"
        return Target("approver", ident, web="", api=api)

    def event_title(self) -> None:
        return None

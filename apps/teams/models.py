"""Teams and who belongs to them."""

from __future__ import annotations

import uuid
from enum import StrEnum
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.utils import timezone

from apps.core.access import Level
from apps.core.errors import Forbidden
from apps.core.search import holds
from apps.core.slugs import TEAM_SLUG_MAX
from apps.events.record import Keys, Target

if TYPE_CHECKING:
    from apps.accounts.models import User


class Role(StrEnum):
    """What a member may do in a team, highest first."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


LEVEL_OF = {
    Role.OWNER: Level.OWNER,
    Role.ADMIN: Level.ADMIN,
    Role.MEMBER: Level.WRITE,
    Role.VIEWER: Level.READ,
}


def level_with(role: str | None, user: User | AnonymousUser) -> Level:
    """The level of somebody who has this role in a team; staff has the owner's everywhere."""
    if user.is_staff:
        return Level.OWNER
    return LEVEL_OF[Role(role)] if role else Level.NONE


class TeamQuerySet(models.QuerySet["Team"]):
    def visible_to(self, user: User) -> TeamQuerySet:
        """The teams a person is a member of: what `GET /teams` lists."""
        return self.filter(members__user=user)

    def readable_by(self, user: User) -> TeamQuerySet:
        """The teams whose inside a person may read: members, and staff everywhere."""
        return self if user.is_staff else self.filter(members__user=user)

    def taken(self, slugs: list[str]) -> set[str]:
        """Which of these slugs a team has."""
        return set(self.filter(slug__in=slugs).values_list("slug", flat=True))

    def search(self, text: str) -> TeamQuerySet:
        """Teams with this text in name or slug, ignoring case."""
        return self.filter(holds("name", text) | holds("slug", text))


class Team(models.Model):
    """A group that owns repositories. Retired through `is_active`, never deleted over the API."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.CharField(max_length=255)
    slug = models.CharField(max_length=TEAM_SLUG_MAX, unique=True)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = TeamQuerySet.as_manager()

    def __str__(self) -> str:
        return self.path

    @property
    def path(self) -> str:
        return f"teams/{self.slug}"

    @property
    def api_path(self) -> str:
        return f"/{self.path}"

    def role_of(self, user: User | AnonymousUser) -> Role | None:
        """The person's role here now: one query, never remembered, so that a lock means it."""
        if user.pk is None:
            return None
        found = self.members.filter(user=user.pk).values_list("role", flat=True).first()
        return Role(found) if found else None

    def access(self, user: User | AnonymousUser) -> Level:
        """The level on the team, looked up now; see `level_with`."""
        return level_with(None if user.is_staff else self.role_of(user), user)

    def check_open(self, user: User, *, writing: bool) -> None:
        """An inactive team is for members and staff to read (behaviour.md §7)."""
        if self.is_active:
            return
        if writing or self.access(user) is Level.NONE:
            raise Forbidden("team_inactive", f"The team {self.slug} has been deactivated.")

    def check_writable(self) -> None:
        """Whether a team takes changes is a matter of `check_open`."""

    def event_keys(self) -> Keys:
        return Keys(team=self.pk)

    def event_target(self) -> Target:
        return Target("team", {"slug": self.slug}, web="", api="")

    def event_title(self) -> None:
        return None


class FormerTeamSlug(models.Model):
    """A slug that a team gave up. It leads to the team until somebody takes it (trap 14)."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="former_slugs")
    slug = models.CharField(max_length=TEAM_SLUG_MAX, unique=True)

    def __str__(self) -> str:
        return f"{self.slug}, now {self.team_id}"


class Member(models.Model):
    """A person's role in a team."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.CharField(max_length=10, choices=[(role, role) for role in Role])
    added_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "user"], name="member_once_in_a_team"),
        ]
        indexes = [models.Index(fields=["team", "created_at", "id"], name="member_oldest")]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.team_id} as {self.role}"

    @property
    def level(self) -> Level:
        return LEVEL_OF[Role(self.role)]

    def event_keys(self) -> Keys:
        return Keys(team=self.team_id)

    def event_target(self) -> Target:
        username = self.user.username
        return Target("member", {"username": username}, web="", api=f"/members/{username}")

    def event_title(self) -> None:
        return None

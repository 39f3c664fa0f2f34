"""Teams and their members."""

from __future__ import annotations

import datetime as dt
import uuid
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from apps.accounts.models import GONE, NOT_GONE, deletion_field
from apps.core.access import Level, Principal
from apps.core.search import holds
from apps.core.slugs import TEAM_SLUG_MAX
from apps.events.record import Keys, Target


class Role(StrEnum):
    """The role of a member in a team, highest first."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


RESERVED_FOR = dt.timedelta(days=90)
"""How long a former slug is reserved for its team."""
MOST_RESERVED = 10
"""Most slugs reserved for one team. It cannot give up another, so that no team hoards names."""
MOST_BOTS = 20
"""Most bots of one team."""
LEVEL_OF = {
    Role.OWNER: Level.OWNER,
    Role.ADMIN: Level.ADMIN,
    Role.MEMBER: Level.WRITE,
    Role.VIEWER: Level.READ,
}


class TeamQuerySet(models.QuerySet["Team"]):
    def visible_to(self, principal: Principal) -> TeamQuerySet:
        """The teams of a person, as `GET /teams` lists them."""
        if principal.is_limited:
            return self.none()
        return self.filter(NOT_GONE, members__user=principal.person_id)

    def readable_by(self, principal: Principal) -> TeamQuerySet:
        """The teams that a principal may read: their own, or all for staff."""
        if principal.sees_all:
            return self.filter(NOT_GONE)
        teams = self.visible_to(principal)
        return teams.open_to(principal)

    def open_to(self, principal: Principal) -> TeamQuerySet:
        """Without the teams whose second factor the principal lacks."""
        return self.filter(second_factor_required=False) if principal.lacks_second_factor else self

    def taken(self, slugs: list[str]) -> set[str]:
        """The slugs among these that a team has or that are reserved for one; one query."""
        former = FormerTeamSlug.objects.filter(slug__in=slugs, given_up_at__gt=reserved_since())
        taken = self.filter(slug__in=slugs).values_list("slug").union(former.values_list("slug"))
        return {slug for (slug,) in taken}

    def called(self, slug: str) -> models.QuerySet[Team, Any]:
        """The id of the one team that has this slug now or had it before, if there is one."""
        former = FormerTeamSlug.objects.filter(slug=slug)
        return self.filter(slug=slug).values("pk").union(former.values("team"))

    def search(self, text: str) -> TeamQuerySet:
        """Teams with this text in name or slug, ignoring case."""
        return self.filter(holds("name", text) | holds("slug", text))


class Team(models.Model):
    """A group that owns repositories."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.CharField(max_length=255)
    slug = models.CharField(max_length=TEAM_SLUG_MAX, unique=True)
    is_active = models.BooleanField(default=True)
    second_factor_required = models.BooleanField(default=False, db_default=False)
    """Whether membership counts only for people with a second factor, and for bots."""
    deletion = deletion_field("teams")
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = TeamQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["deletion"], condition=GONE, name="team_gone")]

    def __str__(self) -> str:
        return self.path

    @property
    def path(self) -> str:
        return f"teams/{self.slug}"

    def role_of(self, person_id: int | None) -> Role | None:
        """The person's current role. Queries each time, so that it is right under a lock."""
        if person_id is None:
            return None
        role = self.members.filter(user=person_id).values_list("role", flat=True).first()
        return Role(role) if role else None

    def event_keys(self) -> Keys:
        return Keys(team=self.pk)

    def event_target(self) -> Target:
        return Target("team", {"slug": self.slug}, web="", api="")

    def event_title(self) -> None:
        return None


def reserved_since() -> dt.datetime:
    """Slugs given up after this time are reserved for their teams."""
    return timezone.now() - RESERVED_FOR


class FormerTeamSlug(models.Model):
    """A slug that a team gave up. It leads to the team until a team takes it: the same team at any
    time, another after `RESERVED_FOR`, so that old clone URLs do not lead to another team's code.
    """

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="former_slugs")
    slug = models.CharField(max_length=TEAM_SLUG_MAX, unique=True)
    given_up_at = models.DateTimeField(default=timezone.now)

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
    is_by_group = models.BooleanField(default=False, db_default=False)
    """Whether a group at the OpenID provider gave the membership, which ends with the group."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "user"], name="member_once_in_a_team"),
        ]
        indexes = [models.Index(fields=["team", "created_at", "id"], name="member_oldest")]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.team_id} as {self.role}"

    def event_keys(self) -> Keys:
        return Keys(team=self.team_id, person=self.user_id)

    def event_target(self) -> Target:
        username = self.user.username
        return Target("member", {"username": username}, web="", api=f"/members/{username}")

    def event_title(self) -> None:
        return None

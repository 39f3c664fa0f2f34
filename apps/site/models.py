"""What holds for the whole site: its settings, and its rate limits."""

from __future__ import annotations

import datetime as dt
import uuid
from enum import StrEnum

from django.conf import settings
from django.db import models
from django.utils import timezone

from apps.core.durations import parse_duration
from apps.events.record import Keys, Target
from apps.site.counters import Usage


class InviteCreators(StrEnum):
    """Who may make signup invites; `users` opens a page of their own for it."""

    STAFF = "staff"
    USERS = "users"


class SiteEvents:
    """Events about such a row belong to the whole site, and have no title."""

    def event_keys(self) -> Keys:
        return Keys(site=True)

    def event_title(self) -> None:
        return None


class SiteSettings(SiteEvents, models.Model):
    """The one row of settings that staff changes while the site runs."""

    ONLY = 1
    """Its primary key."""

    rate_limits_enabled = models.BooleanField(default=True)
    signup_invite_creators = models.CharField(
        max_length=10,
        default=InviteCreators.STAFF.value,
        choices=[(who.value, who.value) for who in InviteCreators],
    )
    signup_invite_max_per_24h = models.PositiveIntegerField(default=100)
    signup_invite_min_account_age = models.CharField(max_length=100, default="0s")
    """A humantime duration, as it was given."""
    signups_enabled = models.BooleanField(default=True)
    signups_require_invite = models.BooleanField(default=True)
    limits_version = models.PositiveBigIntegerField(default=0, editable=False)
    """Grows with each change of a rate limit, so that other processes notice (limits.py)."""
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        editable=False,
        on_delete=models.PROTECT,
        related_name="+",
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="site_settings_are_one_row"),
        ]
        verbose_name = verbose_name_plural = "site settings"

    def __str__(self) -> str:
        return "site settings"

    @classmethod
    def load(cls) -> SiteSettings:
        """The row; made with the defaults of a fresh install when it is not there."""
        rows = cls.objects.select_related("updated_by")
        return rows.get_or_create(pk=cls.ONLY)[0]

    @property
    def min_account_age(self) -> dt.timedelta:
        """How old an account has to be before its owner may invite."""
        return parse_duration(self.signup_invite_min_account_age)

    def event_target(self) -> Target:
        return Target("site-settings", api="/site-settings")


class RateLimit(SiteEvents, models.Model):
    """How many requests of a rate scope are allowed in a window."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    scope = models.CharField(max_length=64, unique=True)
    """One of `rules.known_rate_scopes()`, or `user:` with a username as it is spelled."""
    max_requests = models.PositiveIntegerField()
    window_seconds = models.PositiveIntegerField()
    is_enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        editable=False,
        on_delete=models.PROTECT,
        related_name="+",
    )
    usage: Usage
    """How much of it is used now, set in the admin only."""
    person: models.Model | None
    """The person who has used most of it, set in the admin only."""

    def __str__(self) -> str:
        return f"{self.scope}: {self.max_requests} in {self.window_seconds} s"

    def event_target(self) -> Target:
        return Target("rate-limit", {"uuid": str(self.uuid)}, api=f"/rate-limits/{self.uuid}")

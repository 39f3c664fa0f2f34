"""The settings of the site, and its rate limits."""

from __future__ import annotations

import datetime as dt
import uuid
from contextlib import suppress
from enum import StrEnum

from django.conf import settings
from django.db import Error, models, transaction
from django.db.models import F
from django.utils import timezone

from apps.core.durations import parse_duration
from apps.events.record import Keys, Target
from apps.site.counters import Usage


class InviteCreators(StrEnum):
    """People who may create signup invites. With `users`, everybody has a page for it."""

    STAFF = "staff"
    USERS = "users"


class SiteEvents:
    """Events about such a row belong to the whole site and have no title."""

    def event_keys(self) -> Keys:
        return Keys(site=True)

    def event_title(self) -> None:
        return None


class SiteRow(SiteEvents, models.Model):
    """A row that staff changes."""

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
        abstract = True


class SiteSettings(SiteRow):
    """The single row of settings that staff can change while the site runs."""

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
    """A duration such as "3 days", as it was entered."""
    signups_enabled = models.BooleanField(default=True)
    signups_require_invite = models.BooleanField(default=True)
    limits_version = models.PositiveBigIntegerField(default=0, editable=False)
    """Incremented with each change of a rate limit, for the caches of all processes (limits.py)."""
    installation = models.UUIDField(null=True, editable=False)
    """The random id that DATA_DIR has too (config/installation.py)."""

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="site_settings_are_one_row"),
        ]
        verbose_name = verbose_name_plural = "site settings"

    def __str__(self) -> str:
        return "site settings"

    @classmethod
    def load(cls) -> SiteSettings:
        """The row, created with the defaults of a new installation if it is missing."""
        rows = cls.objects.select_related("updated_by")
        return rows.get_or_create(pk=cls.ONLY)[0]

    @property
    def min_account_age(self) -> dt.timedelta:
        """Minimum age of an account that may invite."""
        return parse_duration(self.signup_invite_min_account_age)

    def event_target(self) -> Target:
        return Target("site-settings", api="/site-settings")


class RateLimit(SiteRow):
    """The number of requests of a rate scope that are allowed in a window."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    scope = models.CharField(max_length=64, unique=True)
    """One of `rules.known_rate_scopes()`, or `user:` and a username in its spelling."""
    max_requests = models.PositiveIntegerField()
    window_seconds = models.PositiveIntegerField()
    is_enabled = models.BooleanField(default=True)
    usage: Usage
    """Current usage, set only in the admin."""
    person: models.Model | None
    """The person with most requests, set only in the admin."""

    def __str__(self) -> str:
        return f"{self.scope}: {self.max_requests} in {self.window_seconds} s"

    def event_target(self) -> Target:
        return Target("rate-limit", {"uuid": str(self.uuid)}, api=f"/rate-limits/{self.uuid}")


class DailyCount(models.Model):
    """The numbers of failures of one day in UTC, for staff. Without failures there is no row."""

    day = models.DateField(primary_key=True)
    server_errors = models.PositiveIntegerField(default=0)
    """Requests that were answered with 500."""
    refused_pushes = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.day}: {self.server_errors}, {self.refused_pushes}"

    @classmethod
    def add(cls, column: str) -> None:
        """Add one to a column of today's row. If the database fails, it is not counted: the caller
        is about to report another failure.
        """
        today = timezone.now().date()
        with suppress(Error), transaction.atomic():
            row, _ = cls.objects.get_or_create(day=today)
            cls.objects.filter(pk=row.pk).update(**{column: F(column) + 1})

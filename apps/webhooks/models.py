"""Webhooks, which send events to an address, and the log of their deliveries (docs/webhooks.md).

A webhook is a cursor in the event log. There are no rows for events that are still to be sent.
"""

from __future__ import annotations

import base64
import secrets
import uuid
from enum import StrEnum

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps.events.models import Key
from apps.events.record import Keys, Target
from apps.jobs.leases import Leased
from apps.repos.models import Repo
from apps.teams.models import Team

URL_MAX = 2048
DESCRIPTION_MAX = 255
SECRET_PREFIX = "whsec_"  # noqa: S105 - the public beginning of every secret
SECRET_BYTES = 32
HINT_LENGTH = len(SECRET_PREFIX) + 4
"""Characters of a secret that people may see."""
PING = "ping"
"""The kind of a delivery that a person requests as a test. It has no event."""


class State(StrEnum):
    ACTIVE = "active"
    BACKING_OFF = "backing_off"
    DISABLED = "disabled"


class DisabledReason(models.TextChoices):
    """The reason why a webhook is not active."""

    MANUAL = "manual"
    """A person switched it off."""
    GAVE_UP = "gave_up"
    """All attempts to deliver an event failed."""
    GONE = "gone"
    """The receiver answered 410."""


class Resume(StrEnum):
    """The event with which a webhook goes on."""

    NEXT = "next"
    """The first that waits."""
    NOW = "now"
    """The first of those that happen from now on."""


def new_secret() -> str:
    """A new secret in the form of Standard Webhooks: `whsec_` and 32 random bytes as base64."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


class Webhook(Leased):
    """Sends the events of a repository, of a team, or of the scope `site` if it has neither."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    repo = models.ForeignKey(
        Repo,
        null=True,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,  # `webhook_of_repo` begins with it
    )
    team = models.ForeignKey(
        Team,
        null=True,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,  # `webhook_of_team` begins with it
    )
    url = models.CharField(max_length=URL_MAX)
    kinds = models.JSONField(default=list)
    """The kinds of events to send; of all kinds if empty."""
    is_active = models.BooleanField(default=True)
    description = models.CharField(max_length=DESCRIPTION_MAX, blank=True)
    secret = models.CharField(max_length=64, default=new_secret)
    old_secret = models.CharField(max_length=64, blank=True)
    """The secret before the last rotation, valid until `old_secret_until`; empty if there is none.
    """
    old_secret_until = models.DateTimeField(null=True)
    cursor_event_id = models.BigIntegerField()
    """Events up to this id have been sent, or are not to be sent."""
    disabled_reason = models.CharField(max_length=20, blank=True, choices=DisabledReason)
    """One of `DisabledReason`; empty while the webhook is active."""
    consecutive_failures = models.PositiveIntegerField(default=0)
    """Failed attempts since the last success."""
    next_attempt_at = models.DateTimeField(null=True)
    """Earliest time of the next attempt; null for now."""
    last_success_at = models.DateTimeField(null=True)
    # Every lease counts as an attempt, and a webhook has many leases.
    attempts = models.PositiveBigIntegerField(default=0)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)
    lag: int
    """The number of events that wait; `queries.list_webhooks` sets it."""

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(repo=None) | Q(team=None), name="webhook_has_one_owner"
            ),
        ]
        indexes = [
            models.Index(fields=["repo", "-id"], name="webhook_of_repo"),
            models.Index(fields=["team", "-id"], name="webhook_of_team"),
            models.Index(fields=["-id"], condition=Q(repo=None, team=None), name="webhook_of_site"),
            models.Index(
                fields=["next_attempt_at"],
                condition=Q(is_active=True, next_attempt_at__isnull=False),
                name="webhook_waiting",
            ),
            models.Index(
                fields=["lease_until"],
                condition=Q(lease_until__isnull=False),
                name="webhook_leased",
            ),
        ]

    def __str__(self) -> str:
        return f"webhook {self.uuid}"

    @property
    def key(self) -> Key:
        """The key of the events that it sends."""
        if self.repo_id is not None:
            return Key("repo_id", self.repo_id)
        if self.team_id is not None:
            return Key("team_id", self.team_id)
        return Key("site", 1)

    @property
    def state(self) -> State:
        if not self.is_active:
            return State.DISABLED
        return State.BACKING_OFF if self.consecutive_failures else State.ACTIVE

    @property
    def secret_hint(self) -> str:
        """The beginning of the secret, by which people tell two secrets apart."""
        return f"{self.secret[:HINT_LENGTH]}…"

    @property
    def owner_path(self) -> str:
        """The path of the repository or team; empty for a webhook of the site."""
        owner = self.repo or self.team
        return owner.path if owner else ""

    @property
    def is_of_site(self) -> bool:
        return self.repo_id is None and self.team_id is None

    def event_keys(self) -> Keys:
        # Not those of its repository or team, whose readers may not read its address.
        team = self.team_id if self.repo is None else self.repo.owner_team_id
        return Keys(site=True, audit_team=team, audit_repo=self.repo_id)

    def event_target(self) -> Target:
        # The page leads to the present address. Events of the site outlive the owner's name.
        path = f"/webhooks/{self.uuid}"
        ident = {"uuid": str(self.uuid)}
        return Target("webhook", ident, web=path, api=path if self.is_of_site else None)

    def event_title(self) -> None:
        return None


class DeliveryStatus(models.TextChoices):
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Delivery(models.Model):
    """One attempt to send an event, or a ping."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    webhook = models.ForeignKey(
        Webhook,
        on_delete=models.CASCADE,
        related_name="deliveries",
        db_index=False,  # `delivery_newest` begins with it
    )
    event_id = models.BigIntegerField(null=True)
    """Null for a ping."""
    kind = models.CharField(max_length=40)
    """The kind of the event, or `PING`."""
    attempt = models.PositiveIntegerField(default=1)
    """1 for the first attempt to send the event."""
    is_redelivery = models.BooleanField(default=False)
    """Whether a person requested it."""

    status = models.CharField(max_length=9, choices=DeliveryStatus)
    response_status = models.PositiveSmallIntegerField(null=True)
    error = models.CharField(max_length=40, blank=True)
    """A word for the failure, such as `timeout`; empty if the receiver answered 2xx."""
    duration_ms = models.PositiveIntegerField()
    created_at = models.DateTimeField(default=timezone.now, db_index=True)
    request_headers = models.JSONField(default=dict)
    """Without the signature."""
    request_body = models.TextField()
    response_headers = models.JSONField(default=dict)
    response_body = models.TextField(blank=True)
    """At most 4 KiB."""

    class Meta:
        indexes = [models.Index(fields=["webhook", "-id"], name="delivery_newest")]
        verbose_name_plural = "deliveries"

    def __str__(self) -> str:
        return f"{self.kind} {self.status}"

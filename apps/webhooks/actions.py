"""Actions on webhooks. Each is one transaction with one change and its event.

No event contains an address or a secret.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.changes import ChangeReport, given, set_changed
from apps.core.errors import Conflict, Invalid
from apps.core.locks import lock
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind, PingKind
from apps.events.models import Event
from apps.events.record import Deleted, record
from apps.teams.models import Member, Role
from apps.webhooks import delivery
from apps.webhooks.access import (
    WebhookAccess,
    access_to_webhook,
    check_belongs,
    lock_owner,
    owner_of,
)
from apps.webhooks.addresses import check_url
from apps.webhooks.models import Delivery, DisabledReason, Resume, Webhook, new_secret

MOST_WEBHOOKS = 20
"""Most webhooks of a repository, of a team, and of the site."""
AUDITED = ("kinds", "is_active", "description")
"""Fields whose values the audit log may contain. An address may have a secret in it."""
KEEP_OLD_HOURS = 24
"""Hours for which the former secret stays valid by default."""


@final_transaction
def create_webhook(
    *,
    access: WebhookAccess,
    url: str,
    kinds: Collection[str] = (),
    is_active: bool = True,
    description: str = "",
) -> Webhook:
    """Add a webhook, which sends the events from now on. Locks the repository or team.

    Errors: 409 `webhook_limit`, 422 `invalid_url`.
    """
    access.require_change(Level.ADMIN)
    check_url(url)
    lock_owner(access)
    repo, team = owner_of(access)
    if Webhook.objects.filter(repo=repo, team=team).count() >= MOST_WEBHOOKS:
        text = f"There are {MOST_WEBHOOKS} webhooks, the most that {access.name} may have."
        raise Conflict("webhook_limit", text)
    webhook = Webhook(
        repo=repo,
        team=team,
        url=url,
        kinds=sorted({*kinds}),
        is_active=is_active,
        disabled_reason="" if is_active else DisabledReason.MANUAL,
        description=description,
        cursor_event_id=Event.objects.newest_id(),
        created_by=access.user,
    )
    webhook.save(force_insert=True)
    audit = {name: getattr(webhook, name) for name in AUDITED}
    record(Kind.WEBHOOK_CREATED, actor=access.user, about=webhook, audit=audit)
    return webhook


@transaction.atomic
def update_webhook(
    *,
    access: WebhookAccess,
    webhook: Webhook,
    url: str | None = None,
    kinds: Collection[str] | None = None,
    is_active: bool | None = None,
    description: str | None = None,
    resume: str | None = None,
) -> None:
    """Change a webhook. Locks the repository or team, then the webhook.

    A new address, activation and `resume` end a back-off. With `resume` "now" the events that wait
    are not sent. Errors: 422 `invalid_url`, 422 if `resume` is sent for a webhook that is not
    active.
    """
    access.require_change(Level.ADMIN)
    if url is not None:
        check_url(url)
    _lock(access, webhook)
    if resume is not None and not (webhook.is_active if is_active is None else is_active):
        text = "resume: The webhook is not active. Send is_active: true as well."
        raise Invalid("validation_failed", text)
    kinds = None if kinds is None else sorted({*kinds})
    values = given(url=url, kinds=kinds, is_active=is_active, description=description)
    report = ChangeReport(webhook, *AUDITED)
    changed = set_changed(webhook, values)
    columns = [*changed]
    if "is_active" in changed:
        webhook.disabled_reason = "" if webhook.is_active else DisabledReason.MANUAL
        columns.append("disabled_reason")
    if resume is not None:
        changed.append("resume")
        columns += _resume(webhook, resume)
    elif "url" in changed or ("is_active" in changed and webhook.is_active):
        columns += _resume(webhook, Resume.NEXT)
    if changed:
        _save(webhook, columns)
        data, audit = {"changed": changed}, report.data(changed)
        record(Kind.WEBHOOK_UPDATED, actor=access.user, about=webhook, data=data, audit=audit)


def _resume(webhook: Webhook, resume: str) -> list[str]:
    """Make the next attempt due, without saving; returns the columns.

    A worker that is sending now loses its lease, and cannot write the outcome over this.
    """
    if resume == Resume.NOW:
        webhook.cursor_event_id = Event.objects.newest_id()
    webhook.consecutive_failures, webhook.next_attempt_at = 0, None
    webhook.lease_token, webhook.lease_until = None, None
    columns = ["consecutive_failures", "next_attempt_at", "lease_token", "lease_until"]
    return [*columns, *(["cursor_event_id"] if resume == Resume.NOW else [])]


@transaction.atomic
def delete_webhook(*, access: WebhookAccess, webhook: Webhook) -> None:
    """Delete a webhook with its deliveries. Locks the repository or team, then the webhook."""
    access.require_change(Level.ADMIN)
    _lock(access, webhook)
    Webhook.objects.filter(pk=webhook.pk).delete()
    about = Deleted(webhook, webhook.event_keys())
    record(Kind.WEBHOOK_DELETED, actor=access.user, about=about)


@transaction.atomic
def rotate_secret(
    *, access: WebhookAccess, webhook: Webhook, keep_old_hours: int = KEEP_OLD_HOURS
) -> None:
    """Give a webhook a new `secret`. The old one signs as well for `keep_old_hours`, at most 72; a
    secret that is older than that one ends at once. Locks as `update_webhook`.
    """
    access.require_change(Level.ADMIN)
    _lock(access, webhook)
    until = timezone.now() + dt.timedelta(hours=keep_old_hours)
    webhook.old_secret = webhook.secret if keep_old_hours else ""
    webhook.old_secret_until = until if keep_old_hours else None
    webhook.secret = new_secret()
    _save(webhook, ["secret", "old_secret", "old_secret_until"])
    data = {"changed": ["secret"]}
    record(Kind.WEBHOOK_UPDATED, actor=access.user, about=webhook, data=data)


def ping_webhook(*, access: WebhookAccess, webhook: Webhook) -> Delivery:
    """Send a request of the kind `ping` now, and return its delivery, which may have failed.

    Takes up to 15 seconds, without a transaction and without a lock.
    """
    _check(access, webhook)
    return delivery.send_ping(webhook)


def redeliver(*, access: WebhookAccess, webhook: Webhook, sent: Delivery) -> Delivery:
    """Send the event or ping of a delivery again, as `ping_webhook`. Progress and state stay.

    404 if the webhook may not send the event any more.
    """
    _check(access, webhook)
    if sent.webhook_id != webhook.pk:
        raise ValueError(f"{sent!r} is not in {webhook!r}")
    sent.webhook = webhook  # it is loaded
    return delivery.redeliver(sent)


def _check(access: WebhookAccess, webhook: Webhook) -> None:
    access.require_change(Level.ADMIN)
    check_belongs(access, webhook)


@transaction.atomic
def disable_webhook(*, webhook: Webhook, reason: str) -> None:
    """Disable a webhook whose receiver fails, and ping its creator and the owners.

    Only the worker calls it; there is no caller whose access could be checked. Locks the webhook.
    Nothing changes if it is not active any more. 404 if it was deleted.
    """
    lock(webhook)
    if not webhook.is_active:
        return
    webhook.is_active, webhook.disabled_reason = False, DisabledReason(reason)
    webhook.next_attempt_at = webhook.lease_token = webhook.lease_until = None
    columns = ["is_active", "disabled_reason", "next_attempt_at", "lease_token", "lease_until"]
    _save(webhook, columns)
    pings = [(person, PingKind.WEBHOOK_DISABLED) for person in _responsible(webhook)]
    data = {"reason": str(webhook.disabled_reason)}
    record(Kind.WEBHOOK_DISABLED, actor=None, about=webhook, data=data, pings=pings)


def _responsible(webhook: Webhook) -> Iterator[User]:
    """The creator, if they may still change the webhook, and the owners; for the site, staff."""
    creator = webhook.created_by
    if access_to_webhook(Principal(creator), webhook).granted >= Level.ADMIN:
        yield creator
    team = webhook.team or (webhook.repo and webhook.repo.owner_team)
    if team:
        owners = Member.objects.filter(team=team, role=Role.OWNER).select_related("user")
        yield from (member.user for member in owners)
    elif webhook.repo is not None and webhook.repo.owner_user is not None:
        yield webhook.repo.owner_user
    else:
        yield from User.objects.filter(is_staff=True)


def _lock(access: WebhookAccess, webhook: Webhook) -> None:
    lock_owner(access)
    check_belongs(access, webhook)
    lock(webhook)


def _save(webhook: Webhook, columns: list[str]) -> None:
    """Save these columns only: the worker may have written others since the row was read."""
    webhook.updated_at = timezone.now()
    webhook.save(update_fields=[*columns, "updated_at"])

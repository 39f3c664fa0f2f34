"""Actions of staff: changes of the site's settings and rate limits.

Each is one transaction with one change and its event. `principal` is None for an operator at the
command line.
"""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.forms.models import model_to_dict
from django.utils import timezone

from apps.core.access import Person, Principal
from apps.core.changes import ChangeReport, given, set_changed
from apps.core.errors import Conflict
from apps.core.locks import lock
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind
from apps.events.record import record
from apps.site import limits
from apps.site.models import RateLimit, SiteSettings
from apps.site.rules import checked_rate_scope


@transaction.atomic
def update_site_settings(
    *,
    principal: Principal | None,
    rate_limits_enabled: bool | None = None,
    signup_invite_creators: str | None = None,
    signup_invite_max_per_24h: int | None = None,
    signup_invite_min_account_age: str | None = None,
    signups_enabled: bool | None = None,
    signups_require_invite: bool | None = None,
) -> SiteSettings:
    """Change the given settings and return all. Locks them. 403 `staff_required`.

    The request serializer validates the values. Without a change there is no event.
    """
    actor = _staff(principal)
    values = given(
        rate_limits_enabled=rate_limits_enabled,
        signup_invite_creators=signup_invite_creators,
        signup_invite_max_per_24h=signup_invite_max_per_24h,
        signup_invite_min_account_age=signup_invite_min_account_age,
        signups_enabled=signups_enabled,
        signups_require_invite=signups_require_invite,
    )
    row = SiteSettings.load()
    lock(row)
    report = ChangeReport(row, *values)
    changed = set_changed(row, values)
    if changed:
        row.save(update_fields=[*changed, *_stamp(row, actor)])
        limits.changed()
        data, audit = {"changed": changed}, report.data(changed)
        record(Kind.SITE_SETTINGS_UPDATED, actor=actor, about=row, data=data, audit=audit)
    return row


@final_transaction
def create_rate_limit(
    *,
    principal: Principal | None,
    scope: str,
    max_requests: int,
    window_seconds: int,
    is_enabled: bool = True,
) -> RateLimit:
    """Limit a rate scope from the next request on. The request serializer validates the numbers.

    Errors: 403 `staff_required`, 422 for an unknown rate scope, 409 `rate_limit_exists`.
    """
    actor = _staff(principal)
    row = RateLimit(
        scope=checked_rate_scope(scope),
        max_requests=max_requests,
        window_seconds=window_seconds,
        is_enabled=is_enabled,
    )
    _stamp(row, actor)
    _save(row)
    record(Kind.RATE_LIMIT_CREATED, actor=actor, about=row, data=_about(row))
    return row


@transaction.atomic
def update_rate_limit(
    *,
    principal: Principal | None,
    rate_limit: RateLimit,
    scope: str | None = None,
    max_requests: int | None = None,
    window_seconds: int | None = None,
    is_enabled: bool | None = None,
) -> None:
    """Change the given values. Locks the row. Errors as in `create_rate_limit`."""
    actor = _staff(principal)
    values = given(
        scope=None if scope is None else checked_rate_scope(scope),
        max_requests=max_requests,
        window_seconds=window_seconds,
        is_enabled=is_enabled,
    )
    lock(rate_limit)
    report = ChangeReport(rate_limit, *values)
    changed = set_changed(rate_limit, values)
    if not changed:
        return
    _save(rate_limit, [*changed, *_stamp(rate_limit, actor)])
    data = {**_about(rate_limit), "changed": changed}
    audit = report.data(changed)
    record(Kind.RATE_LIMIT_UPDATED, actor=actor, about=rate_limit, data=data, audit=audit)


@transaction.atomic
def delete_rate_limit(*, principal: Principal | None, rate_limit: RateLimit) -> None:
    """Delete a limit; its counters expire. Locks it. 403 `staff_required`."""
    actor = _staff(principal)
    lock(rate_limit)
    RateLimit.objects.filter(pk=rate_limit.pk).delete()
    limits.changed()
    record(Kind.RATE_LIMIT_DELETED, actor=actor, about=rate_limit, data=_about(rate_limit))


def _about(row: RateLimit) -> dict[str, Any]:
    return model_to_dict(row, exclude=["id"])


def _save(row: RateLimit, fields: list[str] | None = None) -> None:
    """Save a limit and put it into force; 409 if its rate scope already has one."""
    try:
        with transaction.atomic():
            row.save(update_fields=fields)
    except IntegrityError:
        detail = f'There is a rate limit for "{row.scope}" already.'
        raise Conflict("rate_limit_exists", detail) from None
    limits.changed()


def _staff(principal: Principal | None) -> Person | None:
    """The acting member of staff, else 401 or 403 `staff_required`; None for the operator."""
    if principal is None:
        return None
    actor = principal.user
    principal.check_staff()
    return actor


def _stamp(row: Any, actor: Person | None) -> tuple[str, str]:
    """Set `updated_at` and `updated_by`, without saving; returns their names."""
    row.updated_at, row.updated_by = timezone.now(), actor
    return "updated_at", "updated_by"

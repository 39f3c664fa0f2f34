"""What changes the site. Each function is one transaction, one change and its event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.site.models import SiteSettings

if TYPE_CHECKING:
    from apps.accounts.models import User


@transaction.atomic
def update_site_settings(
    *,
    actor: User | None,
    rate_limits_enabled: bool | None = None,
    signup_invite_creators: str | None = None,
    signup_invite_max_per_24h: int | None = None,
    signup_invite_min_account_age: str | None = None,
    signups_enabled: bool | None = None,
    signups_require_invite: bool | None = None,
) -> SiteSettings:
    """Change what is given, and return the settings. Locks them. `actor` None: the command line.

    Values are checked by the caller's input. What is the same already is no change, and no event.
    """
    wanted = {
        "rate_limits_enabled": rate_limits_enabled,
        "signup_invite_creators": signup_invite_creators,
        "signup_invite_max_per_24h": signup_invite_max_per_24h,
        "signup_invite_min_account_age": signup_invite_min_account_age,
        "signups_enabled": signups_enabled,
        "signups_require_invite": signups_require_invite,
    }
    row = SiteSettings.load()
    lock(row)
    changed = _changed(row, wanted)
    if changed:
        _stamp(row, changed, actor)
        record(Kind.SITE_SETTINGS_UPDATED, actor=actor, about=row, data={"changed": changed})
    return row


def _changed(row: Any, wanted: dict[str, Any]) -> list[str]:
    """Set what is given and differs; returns the names, in order."""
    changed = [
        name for name, value in wanted.items() if value is not None and getattr(row, name) != value
    ]
    for name in changed:
        setattr(row, name, wanted[name])
    return changed


def _stamp(row: Any, changed: list[str], actor: User | None) -> None:
    """Save the changed fields, with who changed them and when."""
    row.updated_at, row.updated_by = timezone.now(), actor
    row.save(update_fields=[*changed, "updated_at", "updated_by"])

"""Actions on protections and their approvers, for admins of the repository.

Each locks the repository first, like the acceptance of a push and like a merge. All raise the
errors of `RepoAccess.require_change`.
"""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.core.access import Level
from apps.core.changes import given, set_changed
from apps.core.errors import Conflict
from apps.core.locks import lock
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind
from apps.events.record import record
from apps.repos import rules
from apps.repos.access import RepoAccess
from apps.repos.models import MOST_PROTECTIONS, Approver, Protection
from apps.repos.protection_rules import check_settings, defaults, settings_of


@final_transaction
def create_protection(
    *, by: RepoAccess, branch: str, required_approvals: int | None = None
) -> Protection:
    """Protect a branch, or a glob of branches, from pushes. Locks the repository.

    Settings that are None get their defaults. Errors: 409 `protection_exists` for the same pattern,
    409 `too_many_protections`, 422 as in `check_settings`.
    """
    by.require_change(Level.ADMIN)
    settings = given(required_approvals=required_approvals)
    check_settings(settings)
    repo = by.locked()
    if repo.protections.count() >= MOST_PROTECTIONS:
        text = f"A repository may have {MOST_PROTECTIONS} protections. Use a pattern with *."
        raise Conflict("too_many_protections", text)
    protection = Protection(repo=repo, branch=branch, created_by=by.user, **defaults() | settings)
    try:
        with transaction.atomic():
            protection.save(force_insert=True)
    except IntegrityError:
        raise _exists(branch) from None
    record(
        Kind.PROTECTION_CREATED, actor=by.user, about=protection, data=_protection_data(protection)
    )
    return protection


@transaction.atomic
def update_protection(
    *,
    by: RepoAccess,
    protection: Protection,
    branch: str | None = None,
    required_approvals: int | None = None,
) -> None:
    """Change the pattern or the settings of a protection. Locks the repository and the protection.

    Errors: 409 `protection_exists`, 422 as in `check_settings`.
    """
    by.require_change(Level.ADMIN)
    _lock(by, protection)
    settings = given(required_approvals=required_approvals)
    check_settings(settings)
    before = _protection_data(protection)
    values = given(branch=branch, **settings)
    changed = set_changed(protection, values)
    if not changed:
        return
    protection.updated_at = timezone.now()
    try:
        with transaction.atomic():
            protection.save(update_fields=[*changed, "updated_at"])
    except IntegrityError:
        raise _exists(protection.branch) from None
    data = {**_protection_data(protection), "before": before, "changed": changed}
    record(Kind.PROTECTION_UPDATED, actor=by.user, about=protection, data=data)


@transaction.atomic
def delete_protection(*, by: RepoAccess, protection: Protection) -> None:
    """Remove a protection. Locks the repository, then the protection."""
    by.require_change(Level.ADMIN)
    _lock(by, protection)
    Protection.objects.filter(pk=protection.pk).delete()
    record(
        Kind.PROTECTION_DELETED, actor=by.user, about=protection, data=_protection_data(protection)
    )


@final_transaction
def add_approver(*, by: RepoAccess, protection: Protection, user: User) -> Approver:
    """Add an approver. Locks the repository, then the protection.

    Errors: 422 `approver_lacks_access`, 422 for an inactive account, 409 `approver_exists`.
    """
    by.require_change(Level.ADMIN)
    _lock(by, protection)
    rules.check_may_approve(by.repo, user)
    try:
        with transaction.atomic():
            approver = Approver.objects.create(protection=protection, user=user, added_by=by.user)
    except IntegrityError:
        raise Conflict("approver_exists", f"{user.username} is already an approver.") from None
    record(Kind.APPROVER_ADDED, actor=by.user, about=approver, data=_approver_data(approver))
    return approver


@transaction.atomic
def remove_approver(*, by: RepoAccess, approver: Approver) -> None:
    """Remove an approver. Locks the repository, the protection, then the approver."""
    by.require_change(Level.ADMIN)
    _lock(by, approver.protection)
    lock(approver)
    Approver.objects.filter(pk=approver.pk).delete()
    record(Kind.APPROVER_REMOVED, actor=by.user, about=approver, data=_approver_data(approver))


def _lock(by: RepoAccess, protection: Protection) -> None:
    """Lock the repository, then its protection."""
    by.check_holds(protection)
    by.locked()
    lock(protection)


def _protection_data(protection: Protection) -> dict[str, Any]:
    return {"branch": protection.branch, **settings_of(protection)}


def _approver_data(approver: Approver) -> dict[str, Any]:
    return {"username": approver.user.username, "branch": approver.protection.branch}


def _exists(branch: str) -> Conflict:
    return Conflict("protection_exists", f'"{branch}" is already protected.')

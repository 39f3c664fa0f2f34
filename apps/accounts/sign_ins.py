"""Entries of the audit log about signing in and out, which are no events."""

from __future__ import annotations

from django.db import transaction

from apps.accounts.models import User
from apps.events.kinds import AuditKind
from apps.events.record import record_entry


def note_sign_in(user: User) -> None:
    """Write the entry of a new session. Call it last in the transaction that begins it."""
    record_entry(AuditKind.SIGNED_IN, person=user, data={})


@transaction.atomic
def note_sign_out(user: User) -> None:
    """Write the entry of the end of a session by its person."""
    record_entry(AuditKind.SIGNED_OUT, person=user, data={})


@transaction.atomic
def note_wrong_code(user: User) -> None:
    """Write the entry of a refused second factor, after a right password."""
    record_entry(AuditKind.SIGN_IN_REFUSED, person=user, data={"reason": "wrong_code"})


@transaction.atomic
def note_refused_answer() -> None:
    """Write the entry of a refused answer of the OpenID provider. It proves no account."""
    record_entry(AuditKind.SIGN_IN_REFUSED, person=None, data={"reason": "single_sign_on"})


@transaction.atomic
def note_refusal(username: str) -> None:
    """Write the entry of a refused attempt to sign in; one query for the account.

    If no account has the name, it is not stored: people type passwords there. The query is the same
    for all names, so that its time does not tell whether there is such an account.
    """
    user = User.objects.filter(username_key=username.lower()).first()
    if user is None:
        reason = "unknown_account"
    else:
        reason = "wrong_password" if user.is_active else "inactive_account"
    record_entry(AuditKind.SIGN_IN_REFUSED, person=user, data={"reason": reason})

"""Actions on second factors. Each is one transaction, one change and its event."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.accounts.factors import Authenticator, Passkey, RecoveryCode
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.accounts.second_factors.codes import (
    matching_step,
    new_recovery_codes,
    plain_code,
    recovery_digest,
)
from apps.accounts.second_factors.notices import Notice, notify
from apps.accounts.second_factors.passkeys import created_passkey, signing_passkey
from apps.accounts.sessions import end_all_sessions
from apps.core.access import Permission
from apps.core.errors import Conflict, Invalid
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record

MOST_PASSKEYS = 20
"""Most passkeys of one person."""
WRONG_CODE = "Wrong code, or one that has been used."


@transaction.atomic
def turn_on(*, principal: Principal, key: str, code: str) -> list[str]:
    """Add the authenticator app with this key, which has just shown this code. Returns the recovery
    codes, which are not stored.

    It ends all sessions, because they have used no second factor: the caller continues its own.
    Locks the person. Errors: 401, 403 `token_scope`, 403 `person_required`, 409
    `invalid_transition` if there is an app already, 422 for a wrong code.
    """
    principal.check_permission(Permission.ADMIN)
    principal.check_person()
    user = principal.user
    lock(user)
    if user.has_second_factor:
        raise Conflict("invalid_transition", "You have an authenticator app already.")
    step = matching_step(key, plain_code(code), after=0)
    if step is None:
        raise Invalid("validation_failed", f"code: {WRONG_CODE} Check the clock of your device.")
    Authenticator.objects.create(user=user, key=key, last_step=step)
    codes = _renew_codes(user)
    user.has_second_factor = True
    user.save(update_fields=["has_second_factor", *end_all_sessions(user)])
    notify(user, Notice.TURNED_ON)
    _record(user, "second_factor", user)
    return codes


@transaction.atomic
def use_code(*, principal: Principal, code: str) -> bool:
    """Check a code of the authenticator app, or a recovery code, and return whether it is valid.

    Each works once: a code of the app ends those of earlier times, a recovery code is deleted. The
    caller has checked the password and has counted the attempt. Locks the person. 401.
    """
    user, text = principal.user, plain_code(code)
    lock(user)
    app = Authenticator.objects.filter(user=user).first()
    if app is None:
        return False
    step = matching_step(app.key, text, after=app.last_step)
    if step is not None:
        app.last_step = step
        app.save(update_fields=["last_step"])
        return True
    used, _ = RecoveryCode.objects.filter(user=user, digest=recovery_digest(text)).delete()
    if not used:
        return False
    notify(user, Notice.RECOVERY_USED)
    _record(user, "recovery_codes", user)
    return True


@transaction.atomic
def renew_recovery_codes(*, principal: Principal) -> list[str]:
    """Replace the recovery codes, and return the new ones. The caller has checked the password.

    Locks the person. Errors: 401, 403 `token_scope`, 409 `invalid_transition` without an app.
    """
    user = _locked_user(principal)
    codes = _renew_codes(user)
    notify(user, Notice.NEW_CODES)
    _record(user, "recovery_codes", user)
    return codes


@transaction.atomic
def turn_off(*, principal: Principal) -> None:
    """Remove the caller's authenticator app with all recovery codes and passkeys. The caller has
    checked the password and a code. Sessions stay.

    Locks the person. Errors: 401, 403 `token_scope`, 409 `invalid_transition` without an app.
    """
    user = _locked_user(principal)
    _remove(user)
    user.save(update_fields=["has_second_factor"])
    notify(user, Notice.TURNED_OFF)
    _record(user, "second_factor", user)


@transaction.atomic
def add_passkey(*, principal: Principal, name: str, credential: str, challenge: str) -> None:
    """Add the passkey that the browser has created for this challenge. The caller has checked the
    password and a code.

    Locks the person. Errors: 401, 403 `token_scope`, 409 `invalid_transition` without an app and
    with `MOST_PASSKEYS`, 422 for an answer to another challenge or of another site.
    """
    user = _locked_user(principal)
    if user.passkeys.count() >= MOST_PASSKEYS:
        raise Conflict("invalid_transition", f"You have {MOST_PASSKEYS} passkeys. Remove one.")
    passkey = created_passkey(user, name=name, credential=credential, challenge=challenge)
    try:
        with transaction.atomic():
            passkey.save()
    except IntegrityError:
        raise Invalid("validation_failed", "This passkey has been added already.") from None
    notify(user, Notice.PASSKEY_ADDED)
    _record(user, "passkeys", user)


@transaction.atomic
def use_passkey(*, principal: Principal, credential: str, challenge: str) -> bool:
    """Check the answer of a passkey of the person to this challenge, which the caller has taken out
    of the session, and return whether it is valid. Locks the person. 401.
    """
    user = principal.user
    lock(user)
    passkey = signing_passkey(user, credential=credential, challenge=challenge)
    if passkey is None:
        return False
    passkey.last_used_at = timezone.now()
    passkey.save(update_fields=["sign_count", "last_used_at"])
    return True


@transaction.atomic
def remove_passkey(*, principal: Principal, passkey: Passkey) -> None:
    """Remove a passkey of the caller. Nothing changes if it is gone already. Locks the person.
    Errors: 401, 403 `token_scope`, 409 `invalid_transition` without an app.
    """
    user = _locked_user(principal)
    removed, _ = Passkey.objects.filter(pk=passkey.pk, user=user).delete()
    if removed:
        notify(user, Notice.PASSKEY_REMOVED)
        _record(user, "passkeys", user)


@transaction.atomic
def reset_second_factor(*, principal: Principal | None, user: User) -> None:
    """Remove the second factor of a person who has lost it, as staff. `principal` is None at the
    command line. It ends the person's sessions, of which one may belong to a thief.

    Nothing changes for a person without one. Locks the person. 403 `staff_required`.
    """
    if principal is not None:
        principal.check_staff()
    lock(user)
    if not user.has_second_factor:
        return
    _remove(user)
    user.save(update_fields=["has_second_factor", *end_all_sessions(user)])
    notify(user, Notice.RESET)
    _record(user, "second_factor", None if principal is None else principal.user)


def _record(user: User, changed: str, actor: User | None) -> None:
    """Record that a part of the person's second factor was changed; call it last."""
    data = {"changed": [changed], "before": {}, "after": {}}
    record(Kind.USER_UPDATED, actor=actor, about=user, data=data)


def _locked_user(principal: Principal) -> User:
    """The caller, locked; 401, 403, and 409 without an authenticator app."""
    principal.check_permission(Permission.ADMIN)
    user = principal.user
    lock(user)
    if not user.has_second_factor:
        raise Conflict("invalid_transition", "You have no authenticator app.")
    return user


def _renew_codes(user: User) -> list[str]:
    RecoveryCode.objects.filter(user=user).delete()
    codes = new_recovery_codes()
    RecoveryCode.objects.bulk_create(
        RecoveryCode(user=user, digest=recovery_digest(code)) for code in codes
    )
    return codes


def _remove(user: User) -> None:
    Authenticator.objects.filter(user=user).delete()
    RecoveryCode.objects.filter(user=user).delete()
    Passkey.objects.filter(user=user).delete()
    user.has_second_factor = False

"""Texts sent by mail that prove that whoever brings them has read it, and what ends them."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core import signing
from django.utils.crypto import salted_hmac

from apps.accounts.models import User
from apps.core.errors import NotFound

ADDRESS_PROOF_LASTS = dt.timedelta(days=1)
ADDRESS, RESET = "apps.accounts.address", "apps.accounts.reset"
UNSUBSCRIBE = "apps.accounts.unsubscribe"
"""What a proof is for: keeps its signature apart from what else the secret key signs."""


def address_proof(user: User, email: str) -> str:
    """A signed text that is sent to an address, and by which the person shows to read mail there.

    It holds for a day, and ends as soon as the person's address or password changes, or the
    account is closed or opened; it has ended then also when all is as it was.
    """
    address = User.objects.normalize_email(email)
    return signing.dumps([str(user.uuid), address, _state(ADDRESS, user)], salt=ADDRESS)


def proven_address(user: User, proof: str) -> str:
    """The address that a proof has been sent to; 404 for one that has ended or is another's."""
    with suppress(signing.BadSignature):
        uid, address, state = signing.loads(proof, salt=ADDRESS, max_age=ADDRESS_PROOF_LASTS)
        if (uid, state) == (str(user.uuid), _state(ADDRESS, user)):
            return str(address)
    detail = "This link has been used or has expired, or was sent for another account."
    raise NotFound("not_found", detail)


def reset_proof(user: User) -> str:
    """A signed text that is sent to a person's address, and by which they get a new password.

    It holds for `PASSWORD_RESET_TIMEOUT` seconds, and ends as that of an address does, and when
    the person signs in.
    """
    state = _state(RESET, user, user.last_login)
    return signing.dumps([str(user.uuid), state], salt=RESET)


def person_of_reset(proof: str) -> User:
    """Whose password may be changed by this proof; 404 for one that has ended."""
    with suppress(signing.BadSignature):
        uid, state = signing.loads(proof, salt=RESET, max_age=settings.PASSWORD_RESET_TIMEOUT)
        user = User.objects.filter(uuid=uid, is_active=True).first()
        if user is not None and state == _state(RESET, user, user.last_login):
            return user
    raise NotFound("not_found", "This link has been used or has expired. Request a new one.")


def unsubscribe_proof(user: User) -> str:
    """A signed text in each mail about pings, by which they end without a sign-in; it never ends.

    Whoever a mail was forwarded to can end the mail with it, and do nothing else.
    """
    return signing.dumps(str(user.uuid), salt=UNSUBSCRIBE)


def person_of_unsubscribe(proof: str) -> User:
    """Whose mail about pings this proof ends; 404 for none, and for a deactivated account."""
    with suppress(signing.BadSignature):
        uid = signing.loads(proof, salt=UNSUBSCRIBE)
        user = User.objects.filter(uuid=uid, is_active=True).first()
        if user is not None:
            return user
    raise NotFound("not_found", "This link is incomplete. Open it from the e-mail again.")


def _state(purpose: str, user: User, *more: Any) -> str:
    """A digest of what ends a proof by changing. The proof may be read by a stranger.

    The version never comes back; the others are there for commands of Django's, which write a
    password past our actions.
    """
    known = [user.credentials_version, user.password, user.email, *more]
    return salted_hmac(purpose, repr(known)).hexdigest()

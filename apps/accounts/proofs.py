"""Signed links in e-mails (address, password reset, unsubscribe) and what invalidates them."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from uuid import UUID

from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core import signing
from django.utils.crypto import salted_hmac

from apps.accounts.models import User
from apps.core.errors import NotFound

ADDRESS_PROOF_LASTS = dt.timedelta(days=1)
ADDRESS, RESET = "apps.accounts.address", "apps.accounts.reset"
UNSUBSCRIBE = "apps.accounts.unsubscribe"
"""Salts: a signature for one purpose is not valid for another."""


def address_proof(user: User, email: str) -> str:
    """A signed text that is mailed to an address and proves that the person reads mail there.

    It is valid for a day. A change of address, password or `is_active` ends it, even if the change
    is undone.
    """
    address = User.objects.normalize_email(email)
    return signing.dumps([str(user.uuid), address, _state(user)], salt=ADDRESS)


def proven_address(user: User, proof: str) -> str:
    """The address that this proof was mailed to; 404 if it has ended or is another person's."""
    with suppress(signing.BadSignature):
        uid, address, state = signing.loads(proof, salt=ADDRESS, max_age=ADDRESS_PROOF_LASTS)
        if (uid, state) == (str(user.uuid), _state(user)):
            return str(address)
    detail = "This link has been used or has expired, or was sent for another account."
    raise NotFound("not_found", detail)


class ResetTokens(PasswordResetTokenGenerator):
    """Django's tokens for a password reset, which also end when `credentials_version` changes.

    Django's own tokens become valid again when an address or `is_active` is changed back. They
    compare the last sign-in only to the second.
    """

    def __init__(self, user: User) -> None:
        super().__init__()
        self.key_salt = f"{RESET} {user.credentials_version} {user.last_login}"


def reset_proof(user: User) -> str:
    """The secret in a link to reset the password, valid for `PASSWORD_RESET_TIMEOUT` seconds."""
    return f"{user.uuid.hex}.{ResetTokens(user).make_token(user)}"


def person_of_reset(proof: str) -> User:
    """The person whose password this proof may change; 404 if it is not valid."""
    uid, _, token = proof.partition(".")
    with suppress(ValueError):
        user = User.objects.filter(uuid=UUID(uid), is_active=True).first()
        if user is not None and ResetTokens(user).check_token(user, token):
            return user
    raise NotFound("not_found", "This link has been used or has expired. Request a new one.")


def unsubscribe_proof(user: User) -> str:
    """A signed text in each mail about pings, to unsubscribe without a sign-in. It never expires.

    People to whom a mail is forwarded can unsubscribe its recipient, but do nothing else.
    """
    return signing.dumps(str(user.uuid), salt=UNSUBSCRIBE)


def person_of_unsubscribe(proof: str) -> User:
    """The person whom this proof unsubscribes; 404 if it is invalid or the account is closed."""
    with suppress(signing.BadSignature):
        uid = signing.loads(proof, salt=UNSUBSCRIBE)
        user = User.objects.filter(uuid=uid, is_active=True).first()
        if user is not None:
            return user
    raise NotFound("not_found", "This link is incomplete. Open it from the e-mail again.")


def _state(user: User) -> str:
    """A digest of the values that end an address proof when they change.

    It is a digest, because strangers may read a proof. Password and address are included, because
    Django's own commands change them without increasing the version.
    """
    credentials = [user.credentials_version, user.password, user.email]
    return salted_hmac(ADDRESS, repr(credentials)).hexdigest()

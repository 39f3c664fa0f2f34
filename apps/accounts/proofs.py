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
"""What a proof is for: keeps its signature apart from what else the secret key signs."""


def address_proof(user: User, email: str) -> str:
    """A signed text that is sent to an address, and by which the person shows to read mail there.

    It holds for a day, and ends as soon as the person's address or password changes, or the
    account is closed or opened; it has ended then also when all is as it was.
    """
    address = User.objects.normalize_email(email)
    return signing.dumps([str(user.uuid), address, _state(user)], salt=ADDRESS)


def proven_address(user: User, proof: str) -> str:
    """The address that a proof has been sent to; 404 for one that has ended or is another's."""
    with suppress(signing.BadSignature):
        uid, address, state = signing.loads(proof, salt=ADDRESS, max_age=ADDRESS_PROOF_LASTS)
        if (uid, state) == (str(user.uuid), _state(user)):
            return str(address)
    detail = "This link has been used or has expired, or was sent for another account."
    raise NotFound("not_found", detail)


class ResetTokens(PasswordResetTokenGenerator):
    """Django's tokens for a new password, which also end for good with `credentials_version`.

    Django's own end with the password, the address and a sign-in, to the second, and are valid
    again when an address or `is_active` is changed back.
    """

    def __init__(self, user: User) -> None:
        super().__init__()
        self.key_salt = f"{RESET} {user.credentials_version} {user.last_login}"


def reset_proof(user: User) -> str:
    """The secret of the link by which a person chooses a new password.

    It is valid for `PASSWORD_RESET_TIMEOUT` seconds.
    """
    return f"{user.uuid.hex}.{ResetTokens(user).make_token(user)}"


def person_of_reset(proof: str) -> User:
    """The person whose password this proof may change; 404 for one that is not valid any more."""
    uid, _, token = proof.partition(".")
    with suppress(ValueError):
        user = User.objects.filter(uuid=UUID(uid), is_active=True).first()
        if user is not None and ResetTokens(user).check_token(user, token):
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


def _state(user: User) -> str:
    """A digest of what ends an address proof by changing. The proof may be read by a stranger.

    The version never comes back; the others are there for commands of Django's, which write a
    password past our actions.
    """
    credentials = [user.credentials_version, user.password, user.email]
    return salted_hmac(ADDRESS, repr(credentials)).hexdigest()

"""The ceremonies of WebAuthn: options for the browser, and the check of its answer. The library is
imported when used, as in codes.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from apps.accounts.factors import Passkey
from apps.accounts.models import User
from apps.core.errors import Invalid
from apps.core.views import site_url

REFUSED = "The passkey was not accepted. Try again."


@dataclass(frozen=True)
class Ceremony:
    """The options for the browser as JSON, and their challenge in base64url, which the session has
    until the answer.
    """

    options: str
    challenge: str


def creation(user: User) -> Ceremony:
    """Ask the browser for a new passkey of this person, which no present one replaces."""
    import webauthn

    return _ceremony(
        webauthn.generate_registration_options(
            rp_id=_host(),
            rp_name="Guildhall",
            user_id=user.uuid.bytes,
            user_name=user.username,
            exclude_credentials=_descriptors(user),
        )
    )


def request(user: User) -> Ceremony | None:
    """Ask the browser to sign with a passkey of this person; None if they have none."""
    descriptors = _descriptors(user)
    if not descriptors:
        return None
    import webauthn

    return _ceremony(
        webauthn.generate_authentication_options(rp_id=_host(), allow_credentials=descriptors)
    )


def created_passkey(user: User, *, name: str, credential: str, challenge: str) -> Passkey:
    """The passkey in the browser's answer to `creation`, not stored yet; 422."""
    import webauthn

    try:
        created = webauthn.verify_registration_response(
            credential=credential,
            expected_challenge=_bytes(challenge),
            expected_rp_id=_host(),
            expected_origin=_origin(),
        )
    except _errors():
        raise Invalid("validation_failed", REFUSED) from None
    return Passkey(
        user=user,
        name=name,
        credential_id=_text(created.credential_id),
        public_key=created.credential_public_key,
        sign_count=created.sign_count,
    )


def signing_passkey(user: User, *, credential: str, challenge: str) -> Passkey | None:
    """The person's passkey that has signed this challenge, with its new `sign_count`, not stored
    yet; None for any other answer to `request`.
    """
    import webauthn
    from webauthn.helpers import parse_authentication_credential_json

    try:
        answer = parse_authentication_credential_json(credential)
        passkey = user.passkeys.filter(credential_id=_text(answer.raw_id)).first()
        if passkey is None:
            return None
        signed = webauthn.verify_authentication_response(
            credential=answer,
            expected_challenge=_bytes(challenge),
            credential_public_key=bytes(passkey.public_key),
            credential_current_sign_count=passkey.sign_count,
            expected_rp_id=_host(),
            expected_origin=_origin(),
        )
    except _errors():
        return None
    passkey.sign_count = signed.new_sign_count
    return passkey


def _errors() -> tuple[type[Exception], ...]:
    """The errors of the library for an answer that it cannot read or that is not valid. For keys
    that lack a part it raises a plain `KeyError`.
    """
    from webauthn.helpers.exceptions import WebAuthnException

    return (WebAuthnException, LookupError, TypeError, ValueError)


def _ceremony(options: Any) -> Ceremony:
    import webauthn

    return Ceremony(webauthn.options_to_json(options), _text(options.challenge))


def _descriptors(user: User) -> list[Any]:
    ids = list(user.passkeys.order_by("pk").values_list("credential_id", flat=True))
    if not ids:
        return []
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor

    return [PublicKeyCredentialDescriptor(id=_bytes(text)) for text in ids]


def _host() -> str:
    return urlsplit(site_url()).hostname or ""


def _origin() -> str:
    parts = urlsplit(site_url())
    return f"{parts.scheme}://{parts.netloc}"


def _text(raw: bytes) -> str:
    from webauthn.helpers import bytes_to_base64url

    return str(bytes_to_base64url(raw))


def _bytes(text: str) -> bytes:
    import webauthn

    return bytes(webauthn.base64url_to_bytes(text))

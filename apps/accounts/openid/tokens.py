"""Validates ID tokens, by OpenID Connect Core 3.1.3.7, and reads their claims."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jwt
from django.conf import settings
from django.utils.crypto import constant_time_compare

from apps.accounts.identities import SUBJECT_MAX
from apps.accounts.openid.provider import Provider, invalid_answer, texts

LEEWAY = 60
"""Seconds by which the clocks of the provider and of this server may differ."""
REQUIRED = ["iss", "sub", "aud", "exp", "iat", "nonce"]


@dataclass(frozen=True)
class Claims:
    """The valid claims of an ID token."""

    issuer: str
    subject: str
    username: str
    name: str
    email: str
    """The address if the provider has verified it, else empty."""
    groups: frozenset[str]
    authenticated_at: float
    """When the person has signed in at the provider, in seconds; 0 if it does not say so."""


def verified_claims(
    token: str, *, nonce: str, provider: Provider, client_id: str
) -> dict[str, Any]:
    """The claims of a token that the provider has signed for this client and this sign-in.

    `SignInRefused` for every other token. PyJWT checks signature, issuer, audience and times.
    """
    try:
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in provider.metadata().algorithms:
            raise invalid_answer(f"the token is signed by {algorithm!r:.40}")
        claims: dict[str, Any] = jwt.decode(
            token,
            provider.key(header.get("kid"), algorithm),
            algorithms=[algorithm],
            audience=client_id,
            issuer=provider.issuer,
            leeway=LEEWAY,
            options={"require": REQUIRED},
        )
    except jwt.PyJWTError as problem:
        raise invalid_answer(f"the token is invalid: {problem}") from None
    sent = claims["nonce"]
    if not isinstance(sent, str) or not constant_time_compare(sent, nonce):
        raise invalid_answer("the token is of another sign-in")
    party = claims.get("azp")
    if party != client_id and (party is not None or len(texts(claims["aud"])) != 1):
        raise invalid_answer("the token is for another client")
    subject = claims["sub"]
    if not 0 < len(subject) <= SUBJECT_MAX or not subject.isprintable():
        raise invalid_answer("the token has an invalid subject")
    return claims


def read_claims(claims: dict[str, Any]) -> Claims:
    """The claims that are used, of a valid token. Those of a wrong type count as missing.

    An address counts only if `email_verified` is the value true.
    """
    signed_in_at = claims.get("auth_time")
    is_time = isinstance(signed_in_at, int | float) and 0 < signed_in_at <= time.time() + LEEWAY
    verified = claims.get("email_verified") is True
    return Claims(
        issuer=claims["iss"],
        subject=claims["sub"],
        username=_text(claims, "preferred_username"),
        name=_text(claims, "name"),
        email=_text(claims, "email") if verified else "",
        groups=frozenset(texts(claims.get(settings.OIDC_GROUPS_CLAIM))),
        authenticated_at=float(signed_in_at) if is_time and signed_in_at else 0.0,
    )


def _text(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    return value if isinstance(value, str) else ""

"""The OpenID provider of `OIDC_ISSUER`: requests to it, and its metadata and keys, which each
process caches.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import jwt

DEADLINE = 10.0
"""Seconds for a whole request to the provider."""
BODY_BYTES = 512 * 1024
"""The longest response that is read."""
CACHED_SECONDS = 3600
KEYS_AGAIN_SECONDS = 60
"""Seconds between two requests for the keys because of an unknown one."""
FAILED_SECONDS = 5
"""Seconds for which a provider that has failed is not asked for its metadata again, so that people
who wait for it do not use up the threads of the server.
"""
ALGORITHMS = frozenset(
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
)
"""Signatures by keys that the provider publishes: never `none`, and no secret shared with it."""
AWAY = "The provider of single sign-on does not answer. Try again in a moment."
INVALID = "The provider of single sign-on has sent an invalid answer. Tell the staff of this site."


class SignInRefused(Exception):
    """A sign-in that fails: `text` is for the person, `reason` for the log, without secrets."""

    def __init__(self, text: str, reason: str = "", *, status: int = 403) -> None:
        super().__init__(text)
        self.text, self.reason, self.status = text, reason or text, status


def unreachable(reason: str) -> SignInRefused:
    """The refusal if the provider does not answer."""
    return SignInRefused(AWAY, reason, status=502)


def invalid_answer(reason: str) -> SignInRefused:
    """The refusal if an answer is not as it has to be. A visitor can cause it by a wrong code."""
    return SignInRefused(INVALID, reason)


@cache
def tls_context() -> ssl.SSLContext:
    """Checks certificates by the authorities of the system. Loading these takes a moment."""
    return ssl.create_default_context()


def request_json(
    url: str, *, headers: dict[str, str] | None = None, content: bytes | None = None
) -> tuple[int, dict[str, Any]]:
    """Send a GET, or a POST with `content`; return the status and the object of the response.

    Redirects are not followed. `SignInRefused` within `DEADLINE` seconds if there is no answer, or
    one that is no object in JSON.
    """
    try:
        status, body = asyncio.run(_exchange(url, headers or {}, content))
    except (httpcore2.TimeoutException, TimeoutError):
        raise unreachable(f"no answer from {url} within {DEADLINE} s") from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError, ValueError) as problem:
        raise unreachable(f"no answer from {url}: {type(problem).__name__}") from None
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise invalid_answer(f"status {status} without an object from {url}")
    return status, answer


async def _exchange(url: str, headers: dict[str, str], content: bytes | None) -> tuple[int, bytes]:
    method, body = "GET" if content is None else "POST", b""
    sent = {"accept": "application/json", "accept-encoding": "identity", **headers}
    async with (
        asyncio.timeout(DEADLINE),
        httpcore2.AsyncConnectionPool(ssl_context=tls_context()) as pool,
        pool.stream(method, url, headers=[*sent.items()], content=content) as response,
    ):
        async for piece in response.aiter_stream():
            body += piece
            if len(body) > BODY_BYTES:
                raise invalid_answer(f"more than {BODY_BYTES} bytes from {url}")
        return response.status, body


@dataclass(frozen=True)
class Metadata:
    """The parts of the discovery document that are used."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    algorithms: frozenset[str]
    takes_secret_in_body: bool
    """Whether it takes the client secret in the body, and not only by HTTP Basic."""
    names_issuer: bool
    """Whether it names itself in the response to the browser (RFC 9207)."""


class Provider:
    """The provider with this issuer. Its methods raise `SignInRefused`."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self._metadata: Metadata | None = None
        self._metadata_until = 0.0
        self._failed_until = 0.0
        self._keys: list[dict[str, Any]] = []
        self._keys_at = float("-inf")

    def metadata(self) -> Metadata:
        """The metadata, at most `CACHED_SECONDS` old."""
        now = time.monotonic()
        if self._metadata is None or now >= self._metadata_until:
            if now < self._failed_until:
                raise unreachable(f"{self.issuer} has just failed")
            try:
                self._metadata = self._read_metadata()
            except SignInRefused:
                self._failed_until = time.monotonic() + FAILED_SECONDS
                raise
            self._metadata_until = now + CACHED_SECONDS
        return self._metadata

    def _read_metadata(self) -> Metadata:
        url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        status, answer = request_json(url)
        if status != 200:
            raise unreachable(f"status {status} from {url}")
        if answer.get("issuer") != self.issuer:
            raise invalid_answer(f"{url} is of another issuer than OIDC_ISSUER")
        announced = answer.get("id_token_signing_alg_values_supported", ["RS256"])
        algorithms = ALGORITHMS.intersection(texts(announced))
        if not algorithms:
            raise invalid_answer(f"{url} names no algorithm with public keys")
        authorization_endpoint = self._endpoint(answer, "authorization_endpoint")
        if "?" in authorization_endpoint:  # mozilla-django-oidc would add a second one
            raise invalid_answer(f"authorization_endpoint of {url} has a query")
        ways = texts(answer.get("token_endpoint_auth_methods_supported", []))
        return Metadata(
            authorization_endpoint=authorization_endpoint,
            token_endpoint=self._endpoint(answer, "token_endpoint"),
            jwks_uri=self._endpoint(answer, "jwks_uri"),
            algorithms=algorithms,
            takes_secret_in_body="client_secret_post" in ways,
            names_issuer=answer.get("authorization_response_iss_parameter_supported") is True,
        )

    def _endpoint(self, answer: dict[str, Any], name: str) -> str:
        """An address of the metadata; `https`, unless the issuer itself is a local one."""
        url = answer.get(name)
        schemes = {"https", urlsplit(self.issuer).scheme}
        try:
            parts = urlsplit(url) if isinstance(url, str) and url.isascii() else None
        except ValueError:
            parts = None
        if parts is None or parts.scheme not in schemes or not parts.hostname or parts.fragment:
            raise invalid_answer(f"{name} of {self.issuer} is no address with https")
        return parts.geturl()

    def key(self, key_id: str | None, algorithm: str) -> jwt.PyJWK:
        """The key for a signature with this `kid` and `alg`. A token without a `kid` needs a
        provider with a single key that fits.

        The keys are read again if none fits, at most once in `KEYS_AGAIN_SECONDS`.
        """
        age = time.monotonic() - self._keys_at
        key = self._find_key(key_id, algorithm) if age < CACHED_SECONDS else None
        if key is None and age >= KEYS_AGAIN_SECONDS:
            self._read_keys()
            key = self._find_key(key_id, algorithm)
        if key is None:
            raise invalid_answer("the token is signed with an unknown key")
        return key

    def _read_keys(self) -> None:
        url = self.metadata().jwks_uri
        status, answer = request_json(url)
        keys = answer.get("keys")
        if status != 200 or not isinstance(keys, list):
            raise invalid_answer(f"status {status} without keys from {url}")
        self._keys = [key for key in keys if isinstance(key, dict)]
        self._keys_at = time.monotonic()

    def _find_key(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        keys = [key for row in self._keys if (key := _usable(row, algorithm))]
        if key_id is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.key_id == key_id), None)


def _usable(row: dict[str, Any], algorithm: str) -> jwt.PyJWK | None:
    """The key of an entry of the key set, if it is for such signatures."""
    if row.get("use", "sig") != "sig" or row.get("alg", algorithm) != algorithm:
        return None
    try:
        return jwt.PyJWK(row, algorithm=algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None  # of another kind, or a private extension


def texts(value: object) -> list[str]:
    """The texts of a list of JSON; a single text counts as a list."""
    values = [value] if isinstance(value, str) else value
    return [text for text in values if isinstance(text, str)] if isinstance(values, list) else []


@cache
def provider(issuer: str) -> Provider:
    """The provider with this issuer, with its cache."""
    return Provider(issuer)

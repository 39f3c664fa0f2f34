"""Digests of requests with a key, and the encryption of their answers.

An answer may contain a secret that is stored nowhere else, such as a new API token. It is encrypted
under a key derived from the `Idempotency-Key`, which is not stored, and from `SECRET_KEY`, which is
not in the database.
"""

from __future__ import annotations

import base64
from typing import Any

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.utils.crypto import salted_hmac

from apps.core import json


def digest_of(person: int, path: str, key: str) -> str:
    """The digest that identifies a request by person, path with query, and key."""
    return _digest("request", json.canonical([person, path, key]))


def digest_of_person(person: int) -> str:
    """The digest of a person, to count the answers of each."""
    return _digest("person", json.canonical(person))


def digest_of_body(body: Any) -> str:
    """The digest of a body, equal for bodies that are equal as JSON."""
    return _digest("body", json.canonical(body))


def _digest(kind: str, value: bytes) -> str:
    salt = f"apps.idempotency.{kind}"
    return salted_hmac(salt, value, algorithm="sha256").hexdigest()


class Seal:
    """Encrypts and decrypts the answer to one request."""

    def __init__(self, key: str, digest: str) -> None:
        derived = HKDF(SHA256(), 32, salt=digest.encode(), info=b"apps.idempotency.answer")
        secret = json.canonical([settings.SECRET_KEY, key])
        self.fernet = Fernet(base64.urlsafe_b64encode(derived.derive(secret)))

    def close(self, text: bytes) -> bytes:
        return self.fernet.encrypt(text)

    def open(self, sealed: bytes) -> bytes:
        """Decrypt; `cryptography.fernet.InvalidToken` for another key or an altered text."""
        return self.fernet.decrypt(bytes(sealed))

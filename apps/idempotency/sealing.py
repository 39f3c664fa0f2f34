"""What is stored of a key and of an answer: digests, and text that only the key itself opens.

An answer may hold a secret that is kept nowhere, such as the text of a new API token. So it is
encrypted under a key derived from the `Idempotency-Key`, which is not stored, and `SECRET_KEY`,
which is not in the database.
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
    """Finds a request by its key, person and path with query; 64 hexadecimal digits."""
    return _digest("request", json.canonical([person, path, key]))


def digest_of_person(person: int) -> str:
    """Tells the answers of one person from those of others."""
    return _digest("person", json.canonical(person))


def digest_of_body(body: Any) -> str:
    """The same for bodies that are equal as JSON, whatever the order of their properties."""
    return _digest("body", json.canonical(body))


def _digest(what: str, value: bytes) -> str:
    salt = f"apps.idempotency.{what}"
    return salted_hmac(salt, value, algorithm="sha256").hexdigest()


class Seal:
    """Encrypts and opens the answer of one request."""

    def __init__(self, key: str, digest: str) -> None:
        derived = HKDF(SHA256(), 32, salt=digest.encode(), info=b"apps.idempotency.answer")
        secret = json.canonical([settings.SECRET_KEY, key])
        self.fernet = Fernet(base64.urlsafe_b64encode(derived.derive(secret)))

    def close(self, text: bytes) -> bytes:
        return self.fernet.encrypt(text)

    def open(self, sealed: bytes) -> bytes:
        """`cryptography.fernet.InvalidToken` for what was sealed by another key, or altered."""
        return self.fernet.decrypt(bytes(sealed))

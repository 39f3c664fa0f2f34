"""The second factors of people: an authenticator app, recovery codes, and passkeys.

`User.has_second_factor` says whether there are any, so that nobody else's sign-in reads these
tables.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

PASSKEY_NAME_MAX = 100
CREDENTIAL_ID_MAX = 1400
"""Characters of the longest credential id, 1023 bytes, in base64url."""


class Authenticator(models.Model):
    """The authenticator app of a person: the key from which it makes a code every 30 seconds.

    The key is stored as it is, because each code is computed from it.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="authenticator"
    )
    key = models.CharField(max_length=64)
    """20 random bytes in hex."""
    last_step = models.BigIntegerField(default=0)
    """The time step of the last code that was used, in 30 seconds since 1970. Codes of this and
    earlier steps are refused.
    """
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"authenticator of {self.user_id}"


class RecoveryCode(models.Model):
    """A code that replaces the authenticator app once. Its row is deleted when it is used."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="recovery_codes"
    )
    digest = models.CharField(max_length=64)
    """The SHA-256 of the code, which has 80 random bits, in hex."""

    def __str__(self) -> str:
        return f"recovery code of {self.user_id}"


class Passkey(models.Model):
    """A credential of WebAuthn: a device or password manager that signs a challenge."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="passkeys"
    )
    name = models.CharField(max_length=PASSKEY_NAME_MAX)
    credential_id = models.CharField(max_length=CREDENTIAL_ID_MAX, unique=True)
    """In base64url."""
    public_key = models.BinaryField()
    """In COSE format."""
    sign_count = models.BigIntegerField(default=0)
    """The counter of the last signature. Many passkeys always send 0."""
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name

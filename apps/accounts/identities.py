"""The accounts of people at an OpenID provider, by which they sign in here."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

ISSUER_MAX = 255
SUBJECT_MAX = 255
"""Characters of the longest subject, by OpenID Connect."""
NAME_MAX = 255


class Identity(models.Model):
    """A subject of an issuer, and the account that it signs in to.

    Only this pair finds the account, and never a name or an address: the provider may give these to
    another person.
    """

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities"
    )
    issuer = models.CharField(max_length=ISSUER_MAX)
    subject = models.CharField(max_length=SUBJECT_MAX)
    name = models.CharField(max_length=NAME_MAX, blank=True)
    """The name at the provider when it was last used, to be shown."""
    gives_staff = models.BooleanField(default=False)
    """Whether the person is staff because of a group at the provider."""
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="identity_once"),
            models.UniqueConstraint(fields=["user", "issuer"], name="identity_of_issuer_once"),
        ]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"

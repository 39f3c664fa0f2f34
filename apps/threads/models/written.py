"""What threads and replies share: somebody wrote them, and changes them field by field."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

CREATOR = {"created_by_uuid": "created_by__uuid", "created_by_username": "created_by__username"}
"""Where the rows of lists find what a record calls so."""


class Created(models.Model):
    """Something that a person wrote, with the names that its record and its light rows share."""

    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        abstract = True

    @property
    def created_by_uuid(self) -> uuid.UUID:
        return self.created_by.uuid

    @property
    def created_by_username(self) -> str:
        return self.created_by.username

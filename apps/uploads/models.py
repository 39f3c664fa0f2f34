"""Files that people have uploaded to a repository, and the texts that refer to them.

`files.py` stores the bytes by SHA-256, so that equal contents are one file.
"""

from __future__ import annotations

import datetime as dt
import uuid
from fcntl import LOCK_EX, LOCK_NB

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone

from apps.core.locks import hold
from apps.repos.models import Repo
from apps.uploads import files

FILENAME_MAX = 255
AGE = dt.timedelta(days=1)
"""Age at which an upload is removed if no text refers to it."""


class Upload(models.Model):
    """A file of a repository, for everybody who may read the repository."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="uploads")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    filename = models.CharField(max_length=FILENAME_MAX)
    content_type = models.CharField(max_length=100)
    size = models.PositiveIntegerField()
    """The size in bytes."""
    sha256 = models.CharField(max_length=64, db_index=True)
    is_used = models.BooleanField(default=False)
    """Whether a text refers to the upload."""
    is_placed = models.BooleanField(default=False)
    """Whether its creator has ever referred to it in a text."""
    deleted_at = models.DateTimeField(null=True)
    """When the last text that referred to the upload was deleted. The row stays until it is a day
    old, because it counts towards its creator's daily limit.
    """
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [
            models.Index(fields=["created_by", "created_at"], name="upload_share"),
            models.Index(fields=["created_at"], name="upload_unused", condition=Q(is_used=False)),
        ]

    def __str__(self) -> str:
        return self.filename


class UploadUse(models.Model):
    """A text that refers to an upload: a thread, a reply or a review, by its uuid."""

    upload = models.ForeignKey(
        Upload, on_delete=models.CASCADE, related_name="uses", db_index=False
    )
    text = models.UUIDField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["upload", "text"], name="use_of_upload"),
        ]

    def __str__(self) -> str:
        return f"{self.upload_id} in {self.text}"


def remove_file_without_row(digest: str) -> int:
    """Remove the file if it has no row; return the number of removed files. `OSError`.

    It removes nothing while an import runs, whose files have no rows yet.
    """
    try:
        with files.removal_lock(LOCK_EX | LOCK_NB):
            return _remove_file_without_row(digest)
    except BlockingIOError:
        return 0


@transaction.atomic
def _remove_file_without_row(digest: str) -> int:
    """The lock makes an upload of the same content wait, or this wait for its row."""
    hold(files.lock_name(digest))
    if Upload.objects.filter(sha256=digest).exists():
        return 0
    files.remove(digest)
    return 1

"""The cache of git's answers."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from apps.repos.models import Repo

KEY_MAX = 64


class GitCache(models.Model):
    """An answer about full object names. Such an answer never changes."""

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=KEY_MAX)
    """SHA-256 of the question, in hexadecimal digits."""
    value = models.BinaryField()
    """JSON, packed by zlib."""
    bytes = models.IntegerField()
    """The approximate size of the row, `value` included."""
    used_at = models.DateTimeField(default=timezone.now)
    ends_at = models.DateTimeField(null=True)
    """The end of an answer that is incomplete or says only that git took too long; else None."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["repo", "key"], name="answer_once_in_repo")]
        # Includes `bytes`: in the table, SQLite would have to read past each `value` to find it.
        indexes = [models.Index(fields=["repo", "used_at", "bytes"], name="answer_sizes_by_use")]

    def __str__(self) -> str:
        return f"{self.key[:7]} in {self.repo_id}"

"""The models of a person's progress through the changes of a pull; only this person sees them."""

from __future__ import annotations

import hashlib

from django.conf import settings
from django.db import models

from apps.git.diff import FileChange


def change_key(file: FileChange) -> str:
    """A digest of the path of a file and of both its blobs and modes. Another version of a pull in
    which the file changes in the same way has the same key.
    """
    sides = (file.previous_sha, file.sha, file.previous_mode, file.mode)
    text = "\0".join(side or "" for side in sides).encode()
    return hashlib.sha256(file.path + b"\0" + text).hexdigest()


class ViewedFile(models.Model):
    """A change of a file that a person has marked as viewed."""

    pull = models.ForeignKey(
        "pulls.Pull", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=64)
    """See `change_key`."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pull", "user", "key"], name="viewed_once"),
        ]

    def __str__(self) -> str:
        return f"{self.key} of pull {self.pull_id} viewed by {self.user_id}"


class SeenVersion(models.Model):
    """The newest version of a pull whose changes a person has opened."""

    pull = models.ForeignKey(
        "pulls.Pull", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    version = models.BigIntegerField()
    previous_version = models.BigIntegerField(null=True)
    """The newest version that they had opened before that one."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pull", "user"], name="seen_version_of_person"),
        ]

    def __str__(self) -> str:
        return f"version {self.version} of pull {self.pull_id} seen by {self.user_id}"

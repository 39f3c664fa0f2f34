"""What a pull has been: a version for each head, with what it contains."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps.pulls.models.pull import SHA_MAX, Pull

IS_DUE = Q(due_at__isnull=False)


class PullVersion(models.Model):
    """A head that a pull has had. A ref of its own keeps its commits (`apps/pulls/tips.py`).

    When only the base moves, there is no new one, and this stays as it is: what is between
    merge base and head is what the pull has asked to be merged.
    """

    pull = models.ForeignKey(
        Pull, on_delete=models.CASCADE, related_name="versions", db_index=False
    )
    version = models.BigIntegerField()
    """From 1, without gaps."""
    head_sha = models.CharField(max_length=SHA_MAX)
    base_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: no target yet
    """The tip of the target when the version was made, or when there first was one."""
    merge_base_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: none
    """Null where the two have no common history, or git has not told yet (`is_known`)."""
    pushed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    is_forced = models.BooleanField(null=True)
    """Whether it lacks commits of the version before; null where git could not tell."""
    commit_count = models.BigIntegerField(null=True)
    additions = models.BigIntegerField(null=True)
    deletions = models.BigIntegerField(null=True)
    changed_files = models.BigIntegerField(null=True)
    """These four: null while git has not told."""
    due_at = models.DateTimeField(null=True)
    """When the worker makes what is missing, its ref or its contents; null when nothing is."""
    tries = models.PositiveSmallIntegerField(default=0)
    """How often git could not tell what it contains."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pull", "version"], name="version_number_in_pull"),
        ]
        indexes = [models.Index(fields=["due_at"], name="version_due", condition=IS_DUE)]

    def __str__(self) -> str:
        return f"version {self.version} of pull {self.pull_id}"

    @property
    def is_known(self) -> bool:
        """Whether it is stored what it contains."""
        return self.commit_count is not None


class VersionContents(models.Model):
    """The commits and the files of a version, apart from it: lists of versions need none of them.

    JSON, packed by zlib. What was too much to be listed is left out; the version's own numbers are
    the true ones.
    """

    version = models.OneToOneField(
        PullVersion, on_delete=models.CASCADE, primary_key=True, related_name="contents"
    )
    commits = models.BinaryField()
    """Oldest first."""
    files = models.BinaryField()
    """In git's order."""

    class Meta:
        verbose_name_plural = "contents of versions"

    def __str__(self) -> str:
        return f"contents of {self.version_id}"

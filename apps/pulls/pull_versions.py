"""The versions of a pull: the heads that it has had, with their commits and files."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

SHA_MAX = 40
IS_DUE = Q(due_at__isnull=False)


class PullVersion(models.Model):
    """A head that a pull has or had. A ref of its own keeps its commits (`apps/pulls/heads.py`).

    A move of the base creates and changes none: the pull proposed the commits since the merge base.
    """

    pull = models.ForeignKey(
        "pulls.Pull", on_delete=models.CASCADE, related_name="versions", db_index=False
    )
    version = models.BigIntegerField()
    """The number, from 1 without gaps."""
    head_sha = models.CharField(max_length=SHA_MAX)
    base_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: no target yet
    """The tip of the target when the version was pushed, or when the target was created."""
    merge_base_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: none
    """Null if there is no common history, or while the contents are not known (`is_known`)."""
    pushed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    is_forced = models.BooleanField(null=True)
    """Whether it lacks commits of the previous version; null if git could not tell."""
    commit_count = models.BigIntegerField(null=True)
    additions = models.BigIntegerField(null=True)
    deletions = models.BigIntegerField(null=True)
    changed_files = models.BigIntegerField(null=True)
    """These four numbers are null while the contents are not known."""
    due_at = models.DateTimeField(null=True)
    """When the worker creates its missing ref or reads its contents; null if it is complete."""
    tries = models.PositiveSmallIntegerField(default=0)
    """How often git could not tell its contents."""
    changes_due_at = models.DateTimeField(null=True)
    """When the worker caches its changes for their first reader; while a worker does, the end of
    its lease. Null if that is done, or the contents are not known."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pull", "version"], name="version_number_in_pull"),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="version_due", condition=IS_DUE),
            models.Index(
                fields=["changes_due_at"],
                name="version_changes_due",
                condition=Q(changes_due_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"version {self.version} of pull {self.pull_id}"

    @property
    def is_known(self) -> bool:
        """Whether its contents are stored."""
        return self.commit_count is not None


class VersionContents(models.Model):
    """The commits and changed files of a version, which lists of versions do not need.

    Packed by `apps/browse/cache.py`. Long lists are truncated; the version's numbers count all.
    """

    version = models.OneToOneField(
        PullVersion, on_delete=models.CASCADE, primary_key=True, related_name="contents"
    )
    commits = models.BinaryField()
    """The commits, oldest first."""
    files = models.BinaryField()
    """The changed files, in git's order."""

    class Meta:
        verbose_name_plural = "contents of versions"

    def __str__(self) -> str:
        return f"contents of {self.version_id}"

"""The stored heads of refs, and the journal of those who are about to move them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from apps.repos.models.repo import Repo

REF_MAX = 300
"""Characters of a full name: git's own part, and 255 bytes of a branch's or tag's."""


class Ref(models.Model):
    """The stored head of a branch or tag, written with the event of the push that moved it."""

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="refs")
    full_name = models.CharField(max_length=REF_MAX)
    sha = models.CharField(max_length=40)
    pushed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    """Who moved it here, where that is known: nobody reviews what they pushed."""
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["repo", "full_name"], name="ref_once_in_a_repo"),
        ]

    def __str__(self) -> str:
        return f"{self.full_name} {self.sha[:7]}"


class PushJournal(models.Model):
    """A step of a ref that somebody is about to make: committed before git may make it.

    Should the process die between ref and rows, this says who moved the ref, and in which
    steps. A row lives until the push's events are written, or git has refused it.
    """

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="journal")
    push = models.UUIDField()
    """One value for all refs of one push."""
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    full_name = models.CharField(max_length=REF_MAX)
    old = models.CharField(max_length=40)
    new = models.CharField(max_length=40)
    created_at = models.DateTimeField(default=timezone.now)
    is_overtaken = models.BooleanField(default=False, db_default=False)
    """The ref has been moved from where this step begins. It can still come, should the ref return
    there, and then says who made it; with other steps it makes no chain.
    """

    class Meta:
        indexes = [models.Index(fields=["repo", "full_name", "id"], name="journal_of_a_ref")]

    def __str__(self) -> str:
        return f"{self.full_name} {self.old[:7]} to {self.new[:7]}"

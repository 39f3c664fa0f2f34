"""Commits that texts name, and the accounts that pushed commits: read instead of asking git."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from apps.repos.models.repo import Repo

NAME_MAX = 40
UNSOUGHT = Q(wanted__gt=F("done"))


class NamedCommit(models.Model):
    """A word in a text of the repository that may begin a commit's name."""

    repo = models.ForeignKey(
        Repo, on_delete=models.CASCADE, related_name="named_commits", db_index=False
    )
    name = models.CharField(max_length=NAME_MAX)
    """7 to 40 hexadecimal digits, in lower case."""
    sha = models.CharField(max_length=NAME_MAX, default="")
    """The full name; empty while there is no such commit."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["repo", "name"], name="commit_name_in_repo"),
        ]
        indexes = [
            models.Index(fields=["repo", "-id"], name="commit_not_found", condition=Q(sha="")),
        ]

    def __str__(self) -> str:
        return f"{self.name} is {self.sha or 'not known'}"


class CommitSearch(models.Model):
    """The job of a repository that asks git for the names that were not found.

    A text with such a name, and a push of commits, each increase `wanted` by one.
    """

    repo = models.OneToOneField(Repo, on_delete=models.CASCADE, primary_key=True)
    wanted = models.BigIntegerField(default=1)
    done = models.BigIntegerField(default=0)
    """The newest of `wanted` that git has been asked for."""

    class Meta:
        verbose_name_plural = "commit searches"
        indexes = [models.Index(fields=["repo"], name="commit_search_due", condition=UNSOUGHT)]

    def __str__(self) -> str:
        return f"search {self.done} of {self.wanted} in {self.repo_id}"


class CommitPush(models.Model):
    """The first push that brought a commit to a repository, and the account that made it.

    The worker stores it soon after the push; see apps/browse/pushers.py. Commits without a row have
    an unknown pusher.
    """

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="commit_pushes")
    sha = models.CharField(max_length=NAME_MAX)
    pushed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,  # nothing asks for the commits of a person
    )
    pushed_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "commit pushes"
        constraints = [
            models.UniqueConstraint(fields=["sha", "repo"], name="commit_push_in_repo"),
        ]

    def __str__(self) -> str:
        return f"{self.sha[:7]} pushed by {self.pushed_by_id}"

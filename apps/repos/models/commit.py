"""Names of commits in texts, and which commits they are: what reads use instead of git."""

from __future__ import annotations

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

"""Answers of git as rows: the heads of refs, commits that texts name, pushers of commits. Also the
journal of moves that git is about to make.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Left, Substr
from django.db.models.lookups import Exact
from django.utils import timezone

from apps.core.search import holds
from apps.repos.models.repo import BRANCHES, TAGS, Repo

UNREAD = Q(peeled_sha=None)
"""The tip has not been read from git yet."""
SHA_MAX = 40
UNSOUGHT = Q(wanted__gt=F("done"))
REF_MAX = 300
"""Characters of a full name: a prefix such as `refs/heads/` and at most 255 bytes of a name."""
TIP_COLUMNS = (
    "peeled_sha",
    "commit_subject",
    "commit_author",
    "committed_at",
    "tag_message",
    "tagger_name",
    "tagger_email",
    "tagged_at",
)
"""The columns of a ref's commit or annotated tag."""


class RefRow(NamedTuple):
    """The columns of the record of a branch or tag, for lists."""

    full_name: str
    sha: str
    peeled_sha: str | None
    commit_subject: str
    commit_author: str
    committed_at: str
    tag_message: str | None
    tagger_name: str
    tagger_email: str
    tagged_at: str
    updated_at: dt.datetime
    pushed_by__uuid: UUID | None
    pushed_by__username: str | None
    pushed_by__is_bot: bool | None


class RefQuerySet(models.QuerySet["Ref"]):
    # `is_tag__in`, because Django writes `is_tag=True` without a comparison, for which SQLite does
    # not use the index.

    def branches(self) -> RefQuerySet:
        """The refs of branches, with the alias `short_name` for searches."""
        rows = self.filter(is_tag__in=[False])
        return rows.alias(short_name=Substr("full_name", len(BRANCHES) + 1))

    def tags(self) -> RefQuerySet:
        """The refs of tags, with the alias `short_name` for searches."""
        return self.filter(is_tag__in=[True]).alias(short_name=Substr("full_name", len(TAGS) + 1))

    def rows(self) -> models.QuerySet[Any, Any]:
        """Light rows for lists, like `RefRow`."""
        return self.values_list(*RefRow._fields, named=True)

    def search(self, text: str) -> RefQuerySet:
        """The refs of `branches` or `tags` with this text in their name, ignoring case."""
        return self.filter(holds("short_name", text))

    def in_order(self, ordering: str) -> RefQuerySet:
        """Order by `name`, `-name` or `-updated_at`; for equal times the newest row comes first."""
        if ordering == "-updated_at":
            return self.order_by("-updated_at", "-id")
        return self.order_by(ordering.replace("name", "full_name"))


class Ref(models.Model):
    """The stored head of a branch or tag, written together with the event of its push.

    The columns of its commit or annotated tag are read from git before. If that fails, `peeled_sha`
    is null until the worker has read them (apps/repos/tips.py).
    """

    repo = models.ForeignKey(
        Repo,
        on_delete=models.CASCADE,
        related_name="refs",
        db_index=False,  # `ref_once_in_a_repo` begins with this column
    )
    full_name = models.CharField(max_length=REF_MAX)
    is_tag = models.GeneratedField(
        expression=Exact(Left("full_name", len(TAGS)), Value(TAGS)),
        output_field=models.BooleanField(),
        db_persist=True,
    )
    """For the indexes of the lists of branches and of tags."""
    sha = models.CharField(max_length=40)
    """The commit, or the object of an annotated tag."""
    peeled_sha = models.CharField(max_length=40, null=True)  # noqa: DJ001 - null: not read yet
    """The commit of the branch or tag; "" for a tag of a tree or blob."""
    commit_subject = models.TextField(default="", db_default="")
    commit_author = models.TextField(default="", db_default="")
    """The name of the commit's author."""
    committed_at = models.CharField(max_length=40, default="", db_default="")
    """ISO 8601 with the committer's own offset."""
    tag_message = models.TextField(null=True)  # noqa: DJ001 - null: not an annotated tag
    """The first `TEXT_MAX` characters of the message, and one more if it is longer."""
    tagger_name = models.TextField(default="", db_default="")
    tagger_email = models.TextField(default="", db_default="")
    tagged_at = models.CharField(max_length=40, default="", db_default="")
    pushed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    """The person who moved the ref here, if known: nobody may review their own push."""
    updated_at = models.DateTimeField(default=timezone.now)

    objects = RefQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["repo", "full_name"], name="ref_once_in_a_repo"),
        ]
        indexes = [
            models.Index(fields=["repo", "is_tag", "full_name"], name="ref_by_name"),
            models.Index(fields=["repo", "is_tag", "updated_at", "id"], name="ref_by_update"),
            models.Index(fields=["repo"], condition=UNREAD, name="ref_unread"),
        ]

    def __str__(self) -> str:
        return f"{self.full_name} {self.sha[:7]}"

    @property
    def name(self) -> str:
        """The short name: `main`, `v1.0`."""
        return short_name(self.full_name)


def short_name(full_name: str) -> str:
    """`main` of `refs/heads/main`."""
    return full_name.split("/", 2)[2]


def twin(full_name: str) -> str:
    """The full name of the tag with this branch's name, or of the branch with this tag's name."""
    prefix = BRANCHES if full_name.startswith(TAGS) else TAGS
    return prefix + short_name(full_name)


class PushJournal(models.Model):
    """A step of a ref that a push is about to make, committed before git makes it.

    If the process dies before the events are written, the row tells the actor and the step. It is
    deleted once the push's events are written or git has refused the step.
    """

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="journal")
    push = models.UUIDField()
    """The same for all refs of one push."""
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    full_name = models.CharField(max_length=REF_MAX)
    old = models.CharField(max_length=40)
    new = models.CharField(max_length=40)
    created_at = models.DateTimeField(default=timezone.now)
    is_overtaken = models.BooleanField(default=False, db_default=False)
    """Whether the ref has left the value at which this step begins. If it returns, git may still
    make the step, whose actor is then known; it is not part of a chain with other steps.
    """
    is_made = models.BooleanField(default=False, db_default=False)
    """Whether git has reported that it has made the step."""

    class Meta:
        indexes = [models.Index(fields=["repo", "full_name", "id"], name="journal_of_a_ref")]

    def __str__(self) -> str:
        return f"{self.full_name} {self.old[:7]} to {self.new[:7]}"


class NamedCommit(models.Model):
    """A word in a text of the repository that may begin a commit's name."""

    repo = models.ForeignKey(
        Repo, on_delete=models.CASCADE, related_name="named_commits", db_index=False
    )
    name = models.CharField(max_length=SHA_MAX)
    """7 to 40 hexadecimal digits, in lower case."""
    sha = models.CharField(max_length=SHA_MAX, default="")
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
    sha = models.CharField(max_length=SHA_MAX)
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

"""The stored heads of refs, and the journal of those who are about to move them."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Left, Substr
from django.db.models.lookups import Exact
from django.utils import timezone

from apps.core.search import holds
from apps.repos.models.repo import BRANCHES, TAGS, Repo

UNREAD = Q(peeled_sha=None)
"""What it leads to is not known yet."""
REF_MAX = 300
"""Characters of a full name: git's own part, and 255 bytes of a branch's or tag's."""


REF_ROW = (
    *("full_name", "sha", "peeled_sha", "commit_subject", "commit_author", "committed_at"),
    *("tag_message", "tagger_name", "tagger_email", "tagged_at", "updated_at"),
    *("pushed_by__uuid", "pushed_by__username"),
)


class RefQuerySet(models.QuerySet["Ref"]):
    # `is_tag__in`, because Django writes `is_tag=True` without a comparison, and SQLite then does
    # not use the index.

    def branches(self) -> RefQuerySet:
        """Those of branches, with `short_name` to search by."""
        return self.filter(is_tag__in=[False]).alias(
            short_name=Substr("full_name", len(BRANCHES) + 1)
        )

    def tags(self) -> RefQuerySet:
        """Those of tags, likewise."""
        return self.filter(is_tag__in=[True]).alias(short_name=Substr("full_name", len(TAGS) + 1))

    def rows(self) -> models.QuerySet[Any, Any]:
        """Light rows for lists: what a record needs, with who pushed each."""
        return self.values_list(*REF_ROW, named=True)

    def search(self, text: str) -> RefQuerySet:
        """Those of `branches` or `tags` with this text in their name, ignoring case."""
        return self.filter(holds("short_name", text))

    def in_order(self, ordering: str) -> RefQuerySet:
        """Sorted by `name`, `-name` or `-updated_at`; of one moment the one that was made last
        comes first.
        """
        if ordering == "-updated_at":
            return self.order_by("-updated_at", "-id")
        return self.order_by(ordering.replace("name", "full_name"))


class Ref(models.Model):
    """The stored head of a branch or tag, written with the event of the push that moved it.

    What the head leads to is read from git before, and stored with it. Where git could not tell
    then, `peeled_sha` is null until the worker has asked again (apps/repos/tips.py).
    """

    repo = models.ForeignKey(
        Repo,
        on_delete=models.CASCADE,
        related_name="refs",
        db_index=False,  # `ref_once_in_a_repo` begins with it
    )
    full_name = models.CharField(max_length=REF_MAX)
    is_tag = models.GeneratedField(
        expression=Exact(Left("full_name", len(TAGS)), Value(TAGS)),
        output_field=models.BooleanField(),
        db_persist=True,
    )
    """What the lists of branches and of tags have an index by."""
    sha = models.CharField(max_length=40)
    """The commit, or the object of an annotated tag."""
    peeled_sha = models.CharField(max_length=40, null=True)  # noqa: DJ001 - null: not known yet
    """The commit that it leads to; "" for a tag of a file or a folder, which leads to none."""
    commit_subject = models.TextField(default="", db_default="")
    commit_author = models.TextField(default="", db_default="")
    """A name."""
    committed_at = models.CharField(max_length=40, default="", db_default="")
    """ISO 8601 with the committer's own offset."""
    tag_message = models.TextField(null=True)  # noqa: DJ001 - null: no annotated tag
    """Its first `TEXT_MAX` characters, and one more where there are more."""
    tagger_name = models.TextField(default="", db_default="")
    tagger_email = models.TextField(default="", db_default="")
    tagged_at = models.CharField(max_length=40, default="", db_default="")
    pushed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    """Who moved it here, where that is known: nobody reviews what they pushed."""
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
    """The full name of the tag that is called like this branch, or of the branch like this tag."""
    place = BRANCHES if full_name.startswith(TAGS) else TAGS
    return place + short_name(full_name)


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

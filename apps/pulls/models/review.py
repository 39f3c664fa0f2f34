"""Reviews of pulls."""

from __future__ import annotations

import uuid
from enum import StrEnum

from django.conf import settings
from django.db import models
from django.db.models import OuterRef, Subquery
from django.utils import timezone

from apps.core.rendered import Rendered
from apps.events.record import Keys, Target
from apps.pulls.models.pull import SHA_MAX, Pull
from apps.repos.models import Repo
from apps.teams.models import Member


class ReviewStatus(StrEnum):
    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"
    COMMENTED = "commented"
    DISMISSED = "dismissed"
    """Set on a review by the repository's admins."""


class ReviewQuerySet(models.QuerySet["Review"]):
    def with_people(self, repo: Repo) -> ReviewQuerySet:
        """What a record needs, in the same query; `author_role` is the one in the repo's team."""
        roles = Member.objects.filter(team=repo.owner_team_id, user=OuterRef("created_by"))
        people = self.select_related("created_by", "dismissed_by").defer("body_html")
        return people.annotate(author_role=Subquery(roles.values("role")[:1]))

    def decisions(self) -> ReviewQuerySet:
        """Those that are no comments, in the order in which they were decided."""
        rows = self.exclude(status=ReviewStatus.COMMENTED.value)
        return rows.order_by("decided_at", "id")


class Review(Rendered):
    """A person's review of a pull. Always stored; whether it counts is computed when read."""

    pull = models.ForeignKey(Pull, on_delete=models.CASCADE, related_name="reviews")
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    status = models.CharField(max_length=20)
    body = models.TextField(blank=True)
    commit_sha = models.CharField(max_length=SHA_MAX, null=True)  # noqa: DJ001 - null: no head yet
    """The head when the decision was made."""
    by_pusher = models.BooleanField(default=True)
    """Whether its author had pushed that commit, or may have: then it approves nothing, whatever
    becomes the head."""
    decided_at = models.DateTimeField(default=timezone.now)
    """Of several decisions of one person the newest counts."""
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    dismissed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = ReviewQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["pull", "created_at", "id"], name="review_oldest")]

    def __str__(self) -> str:
        return f"{self.status} by {self.created_by_id} on pull {self.pull_id}"

    def event_keys(self) -> Keys:
        return self.pull.event_keys()

    def event_target(self) -> Target:
        ident = {"uuid": str(self.uuid), "pull_number": self.pull.number}
        api = f"{self.pull.segment}/reviews/{self.uuid}"
        return Target("review", ident, web=self.pull.segment, api=api)

    def event_title(self) -> str:
        return self.pull.event_title()

"""Reviews that their author has not sent yet, and the comments in them.

They have tables of their own, so that no query of reviews or replies can find them. Each person has
at most one for a pull.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Prefetch
from django.utils import timezone

from apps.core.errors import NotFound
from apps.core.lookup import get_or_missing
from apps.core.rendered import Rendered

DRAFT_COMMENTS_MAX = 100
"""Most comments of a draft: all of them are sent in one transaction."""


class DraftReview(Rendered):
    """A review that only its author can read. The review that is sent has the same uuid."""

    pull = models.ForeignKey(
        "pulls.Pull", on_delete=models.CASCADE, related_name="draft_reviews", db_index=False
    )
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="draft_reviews"
    )
    body = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pull", "created_by"], name="draft_review_of_person"),
        ]

    def __str__(self) -> str:
        return f"draft by {self.created_by_id} on pull {self.pull_id}"

    def touch(self) -> None:
        """Set `updated_at` to now, because a comment has changed."""
        self.updated_at = timezone.now()
        self.save(update_fields=["updated_at"])


class DraftComment(Rendered):
    """A comment on lines, or an answer to a reply, that is sent with its draft. The reply that is
    sent has the same uuid.
    """

    draft = models.ForeignKey(
        DraftReview, on_delete=models.CASCADE, related_name="comments", db_index=False
    )
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    kind = models.CharField(max_length=30)
    body = models.TextField()
    parent_number = models.BigIntegerField(null=True)
    """The reply that this answers; null for a comment on lines."""
    # The columns of `Anchor`; those that can be null are null for an answer.
    commit_sha = models.CharField(max_length=40, null=True)  # noqa: DJ001 - null: an answer
    path = models.BinaryField(null=True)
    side = models.CharField(max_length=3, null=True)  # noqa: DJ001 - null: an answer
    start_line = models.PositiveIntegerField(null=True)
    line = models.PositiveIntegerField(null=True)
    blob_sha = models.CharField(max_length=40, null=True)  # noqa: DJ001 - null: an answer
    snippet = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [models.Index(fields=["draft", "id"], name="draft_comments")]

    def __str__(self) -> str:
        return f"comment {self.uuid} of {self.draft_id}"


def find_draft(pull: Any, person_id: int | None) -> DraftReview | None:
    """The draft of this person, who is the caller, with its comments in the order of writing; None
    if there is none. One query, two if there is a draft, none without a person.
    """
    if person_id is None:
        return None
    comments = Prefetch("comments", DraftComment.objects.order_by("pk"))
    rows = DraftReview.objects.filter(pull=pull, created_by=person_id)
    draft: DraftReview | None = rows.prefetch_related(comments).first()
    if draft is not None:
        draft.pull = pull
    return draft


def own_draft(pull: Any, person: Any) -> DraftReview:
    """The draft of this person, who is the caller, for a pull; 404."""
    draft = DraftReview.objects.filter(pull=pull, created_by=person).first()
    if draft is None:
        raise NotFound("not_found", "You have no draft review of this pull.")
    draft.pull = pull
    return draft


def own_comment(pull: Any, person: Any, comment_uuid: uuid.UUID) -> DraftComment:
    """A comment in the draft of this person, who is the caller, for a pull; 404."""
    rows = DraftComment.objects.filter(draft__pull=pull, draft__created_by=person)
    comment: DraftComment = get_or_missing(
        rows.select_related("draft"), "comment", "your draft", uuid=comment_uuid
    )
    return comment

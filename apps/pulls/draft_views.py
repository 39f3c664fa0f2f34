"""`…/pulls/{number}/reviews/draft`: the caller's review that has not been sent."""

from __future__ import annotations

from typing import Any

from rest_framework.decorators import action

from apps.core.access import Level, Permission
from apps.core.operation import operation
from apps.pulls import actions
from apps.pulls.approval import Eligibility
from apps.pulls.draft_reviews import DraftComment, DraftReview, own_draft
from apps.pulls.draft_serializers import (
    CreateDraftComment,
    DraftCommentRecord,
    DraftReviewRecord,
    UpdateDraft,
    UpdateDraftComment,
    draft_comment_record,
    draft_record,
)
from apps.pulls.models import Pull
from apps.pulls.queries import get_pull, list_reviews
from apps.pulls.serializers import CreateReview, ReviewRecord, review_record
from apps.pulls.views import HeadQuery
from apps.threads.serializers import RenderQuery, StoredHtml, add_html
from apps.threads.views import BodyViewSet

PLACE_ERRORS = ("commit_not_found", "invalid_path", "line_not_found", "not_a_file", "too_expensive")
PARENT_ERRORS = ("parent_reply_deleted", "parent_reply_not_found", "reply_too_deep")


class OfPull(BodyViewSet):
    """The common part of the viewsets for drafts."""

    schema_tags = ["pulls"]
    html = StoredHtml(DraftReview.objects)
    pull: Pull

    def load_objects(self) -> None:
        self.pull = get_pull(self.repo, self.kwargs["number"])


class DraftReviewViewSet(OfPull):
    """…/pulls/{number}/reviews/draft"""

    @operation(Level.READ, response=DraftReviewRecord, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read the caller's draft review of a pull, with its comments in the order of writing.

        Nobody else can read it, staff included. 404 if the caller has none.
        """
        record = draft_record(own_draft(self.pull, self.access.user))
        if "render" in self.validated_query:
            stored = (self.html, StoredHtml(DraftComment.objects))
            add_html(self.access, self.base_url, [record, *record["comments"]], *stored)
        return record

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=UpdateDraft,
        response=DraftReviewRecord,
    )
    def update(self) -> dict[str, Any]:
        """Change the text of the caller's draft review, or begin one."""
        values = self.validated_data
        return draft_record(actions.update_draft(access=self.access, pull=self.pull, **values))

    @operation(Level.READ, permission=Permission.WRITE, status=204)
    def destroy(self) -> None:
        """Discard the caller's draft review with all of its comments."""
        actions.discard_draft(access=self.access, pull=self.pull)

    @action(detail=True, methods=["post"])
    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=CreateReview,
        response=ReviewRecord,
        status=201,
        query=HeadQuery,
        errors=("head_changed", "target_changed"),
    )
    def submit(self) -> dict[str, Any]:
        """Send the caller's draft as a review of the current head, with all of its comments.

        The review keeps the uuid of the draft, and each reply that of its comment. All of it is one
        event, `review-created`, and pings each person once. `body` replaces the text of the draft.
        Comments are sent even if their lines have changed since.
        """
        values = {**self.validated_query, **self.validated_data}
        review = actions.submit_draft(access=self.access, pull=self.pull, **values)
        row = list_reviews(self.pull).get(pk=review.pk)
        return review_record(row, Eligibility.of(self.pull))


class DraftCommentViewSet(OfPull):
    """…/pulls/{number}/reviews/draft/comments"""

    lookup_url_kwarg = "comment_uuid"
    lookup_value_converter = "uid"

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=CreateDraftComment,
        response=DraftCommentRecord,
        status=201,
        errors=("draft_limit", *PARENT_ERRORS, *PLACE_ERRORS),
    )
    def create(self) -> dict[str, Any]:
        """Add a comment to the caller's draft review, which begins with its first comment.

        A comment is on lines of a version of the pull, or with `parent_reply_number` an answer to a
        reply in its thread.
        """
        values = self.validated_data
        comment = actions.add_draft_comment(access=self.access, pull=self.pull, **values)
        return draft_comment_record(comment)

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=UpdateDraftComment,
        response=DraftCommentRecord,
    )
    def update(self) -> dict[str, Any]:
        """Change the text or kind of a comment in the caller's draft review."""
        comment = actions.update_draft_comment(
            access=self.access,
            pull=self.pull,
            comment_uuid=self.kwargs["comment_uuid"],
            **self.validated_data,
        )
        return draft_comment_record(comment)

    @operation(Level.READ, permission=Permission.WRITE, status=204)
    def destroy(self) -> None:
        """Delete a comment of the caller's draft review."""
        uuid = self.kwargs["comment_uuid"]
        actions.delete_draft_comment(access=self.access, pull=self.pull, comment_uuid=uuid)

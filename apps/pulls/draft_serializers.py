"""The requests and records of draft reviews and their comments."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.browse.names import PATH_MAX, path_fields
from apps.core.serializers import (
    RecordSerializer,
    RequestSerializer,
    RuleCharField,
    StrictCharField,
    StrictChoiceField,
    StrictIntegerField,
    TimestampField,
)
from apps.pulls import rules
from apps.pulls.draft_reviews import DraftComment, DraftReview
from apps.pulls.models import SHA_MAX
from apps.pulls.serializers import BODY_MAX, COMMENT_KINDS, LINE_MAX
from apps.threads.anchors import Side
from apps.threads.serializers import Html

DRAFT_KINDS = [*COMMENT_KINDS, "answer"]
"""The kinds of comments on lines, and that of an answer to a reply."""


class UpdateDraft(RequestSerializer):
    body = StrictCharField(max_length=BODY_MAX, allow_blank=True)


class CreateDraftComment(RequestSerializer):
    body = StrictCharField(max_length=BODY_MAX)
    kind = StrictChoiceField(DRAFT_KINDS, required=False)
    parent_reply_number = StrictIntegerField(required=False)
    commit_sha = RuleCharField(
        problem=rules.sha_problem, max_length=SHA_MAX, pattern="^[0-9a-f]{40}$", required=False
    )
    path = StrictCharField(max_length=PATH_MAX, required=False)
    path_base64 = StrictCharField(max_length=2 * PATH_MAX, required=False)
    side = StrictChoiceField(Side, required=False)
    line = StrictIntegerField(min_value=1, max_value=LINE_MAX, required=False)
    start_line = StrictIntegerField(min_value=1, max_value=LINE_MAX, required=False)

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        place = values.keys() & {*self.fields} - {"body", "kind", "parent_reply_number"}
        if "parent_reply_number" in values:
            if place:
                text = "An answer to a reply has no lines of its own."
                raise serializers.ValidationError(dict.fromkeys(sorted(place), text))
            return values
        missing = {"commit_sha", "line"} - place
        if missing:
            text = "Send this, or `parent_reply_number` for an answer to a reply."
            raise serializers.ValidationError(dict.fromkeys(sorted(missing), text))
        if not {"path", "path_base64"} & place:
            raise serializers.ValidationError({"path": "Send `path`, or `path_base64` instead."})
        return values


class UpdateDraftComment(RequestSerializer):
    body = StrictCharField(max_length=BODY_MAX, required=False)
    kind = StrictChoiceField(DRAFT_KINDS, required=False)


class DraftPlaceRecord(RecordSerializer):
    """The lines that a comment of a draft is about."""

    commit_sha = serializers.CharField()
    path = serializers.CharField()
    path_base64 = serializers.CharField(required=False)
    side = serializers.ChoiceField([*map(str, Side)])
    start_line = serializers.IntegerField()
    line = serializers.IntegerField()
    snippet = serializers.ListField(child=serializers.CharField(allow_blank=True))


class DraftCommentRecord(RecordSerializer):
    """A comment that is sent with its draft review."""

    uuid = serializers.UUIDField()
    kind = serializers.ChoiceField(DRAFT_KINDS)
    body = serializers.CharField()
    body_html = Html()
    parent_reply_number = serializers.IntegerField(allow_null=True)
    anchor = DraftPlaceRecord(allow_null=True)
    created_at = TimestampField()
    updated_at = TimestampField()


class DraftReviewRecord(RecordSerializer):
    """A review that its author has not sent."""

    uuid = serializers.UUIDField()
    pull_number = serializers.IntegerField()
    status = serializers.ChoiceField(["draft"])
    body = serializers.CharField(allow_blank=True)
    body_html = Html()
    comments = DraftCommentRecord(many=True)
    created_at = TimestampField()
    updated_at = TimestampField()


def draft_record(draft: DraftReview) -> dict[str, Any]:
    """The record of a draft with its comments in the order of writing; one query, none if they are
    prefetched.
    """
    comments = sorted(draft.comments.all(), key=lambda comment: comment.pk)
    return {
        "uuid": draft.uuid,
        "pull_number": draft.pull.number,
        "status": "draft",
        "body": draft.body,
        "comments": [draft_comment_record(comment) for comment in comments],
        "created_at": draft.created_at,
        "updated_at": draft.updated_at,
    }


def draft_comment_record(comment: DraftComment) -> dict[str, Any]:
    anchor = None
    if comment.commit_sha is not None:
        names = ("commit_sha", "side", "start_line", "line", "snippet")
        anchor = {name: getattr(comment, name) for name in names}
        anchor |= path_fields(bytes(comment.path or b""))
    return {
        "uuid": comment.uuid,
        "kind": comment.kind,
        "body": comment.body,
        "parent_reply_number": comment.parent_number,
        "anchor": anchor,
        "created_at": comment.created_at,
        "updated_at": comment.updated_at,
    }

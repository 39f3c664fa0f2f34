"""`…/pulls` and `…/pulls/{number}/reviews`: pull requests, merging and reviews."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from apps.core.access import Level
from apps.core.lookup import get_or_missing
from apps.core.operation import operation
from apps.core.query import QuerySerializer, TextParameter
from apps.core.statements import values_of
from apps.git.repo import is_sha
from apps.pulls import actions
from apps.pulls.approval import Eligibility, readiness_of
from apps.pulls.filters import CrossRepoPullFilterSet, PullFilterSet
from apps.pulls.models import PULL_ROW, Pull, Review
from apps.pulls.queries import PULLS, get_pull, list_pulls, list_reviews
from apps.pulls.serializers import (
    CreatePull,
    CreateReview,
    MergePull,
    MergeRecord,
    PullProtectionRecord,
    PullRecord,
    ReviewRecord,
    SetPullStatus,
    UpdatePull,
    UpdateReview,
    merge_record,
    pull_protection_record,
    pull_records,
    review_record,
)
from apps.repos.protection_rules import RULES
from apps.threads.models import ThreadKind
from apps.threads.serializers import RenderQuery, StoredHtml
from apps.threads.views import BodyViewSet, CrossRepoQuery, CrossRepoViewSet


@extend_schema_field({"type": "string", "pattern": "^[0-9A-Fa-f]{40}$"})
class ShaParameter(TextParameter):
    """The full name of a commit, in lower case whatever was sent."""

    def to_internal_value(self, data: Any) -> str:
        if not is_sha(data.lower()):
            raise ValidationError("Must be a full commit name of 40 hexadecimal digits.")
        return str(data.lower())


class MergeQuery(QuerySerializer):
    expected_head_sha = ShaParameter(
        required=False, help_text="Merge only if this is the head: the commit that you have seen."
    )


class ReviewQuery(QuerySerializer):
    expected_head_sha = ShaParameter(
        required=False, help_text="Review only if this is the head: the commit that you have seen."
    )


class CrossRepoPullViewSet(CrossRepoViewSet):
    """/pulls"""

    schema_tags = ["pulls"]
    queryset = Pull.objects.filter(thread__kind=ThreadKind.PULL.value)
    filterset_class = CrossRepoPullFilterSet
    thread = "thread__"

    @operation(Level.NONE, response=PullRecord, query=CrossRepoQuery, errors=("invalid_cursor",))
    def list(self) -> Response:
        """List pulls of all repositories that the caller may read, newest activity first.

        `next` leads to older activity and `previous` to newer.
        """
        rows = [(row.values, row.repo) for row in self.page(PULL_ROW.values())]
        return self.get_paginated_response(pull_records(rows, self.principal, self.base_url))


class PullViewSet(BodyViewSet):
    """/{owner}/repos/{repo_slug}/pulls"""

    schema_tags = ["pulls"]
    lookup_url_kwarg = "number"
    lookup_value_converter = "number"
    queryset = Pull.objects.all()
    filterset_class = PullFilterSet
    html = StoredHtml(Pull.objects, "thread__")
    pull: Pull

    def load_objects(self) -> None:
        """Load the pull; changing it is for its author and for those with a role."""
        if "number" not in self.kwargs:
            return
        self.pull = get_pull(self.repo, self.kwargs["number"])
        if self.action in {"update", "set_status"}:
            self.access.require_author_or(Level.WRITE, self.pull.thread.created_by_id, "pull")

    @operation(Level.READ, response=PullRecord, query=RenderQuery)
    def list(self) -> Response:
        """List a repository's pulls."""
        repo = self.repo.pk
        rows = self.paginate(list_pulls(repo) if self.filterset else PULLS.of(repo=repo))
        placed = ((row, self.repo) for row in rows)
        records = pull_records(placed, self.principal, self.base_url)
        return self.page_with_html(self.get_paginated_response(records))

    @operation(
        Level.READ,
        request=CreatePull,
        response=PullRecord,
        status=201,
        errors=("pull_already_exists", "role_required", "same_branch", "source_not_found"),
    )
    def create(self) -> dict[str, Any]:
        """Open a pull. Its branches need not exist yet."""
        self.pull = actions.create_pull(by=self.access, **self.validated_data)
        return self.record()

    @operation(Level.READ, response=PullRecord, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read a pull."""
        return self.record_with_html(self.record())

    @operation(
        Level.READ,
        request=UpdatePull,
        response=PullRecord,
        errors=(
            "invalid_transition",
            "pull_already_exists",
            "pull_already_merged",
            "role_required",
        ),
    )
    def update(self) -> dict[str, Any]:
        """Change title, body or status: its author, or with write access."""
        actions.update_pull(by=self.access, pull=self.pull, **self.validated_data)
        return self.record()

    @action(detail=True, methods=["put"], url_path="status")
    @operation(
        Level.READ,
        request=SetPullStatus,
        response=PullRecord,
        errors=(
            "invalid_transition",
            "pull_already_exists",
            "pull_already_merged",
            "role_required",
        ),
    )
    def set_status(self) -> dict[str, Any]:
        """Open, draft or close a pull: its author, or with write access."""
        actions.update_pull(by=self.access, pull=self.pull, **self.validated_data)
        return self.record()

    def record(self) -> dict[str, Any]:
        row = values_of(self.pull, PULL_ROW)
        [record] = pull_records([(row, self.repo)], self.principal, self.base_url)
        return record

    @action(detail=True, methods=["post"])
    @operation(
        Level.WRITE,
        request=MergePull,
        response=MergeRecord,
        query=MergeQuery,
        errors=(
            *(rule.code for rule in RULES),
            "branch_missing",
            "fast_forward_impossible",
            "head_changed",
            "merge_conflict",
            "merge_in_progress",
            "nothing_to_merge",
            "pull_already_merged",
            "pull_closed",
            "pull_is_draft",
            "strategy_differs",
        ),
    )
    def merge(self) -> dict[str, Any]:
        """Merge a pull into its target.

        A refusal names everything that stands in the way; `error` is the first.
        """
        actions.merge_pull(
            by=self.access,
            pull=self.pull,
            asked_since=self.asked_since,
            **self.validated_query,
            **self.validated_data,
        )
        return merge_record(self.pull, self.record())

    @action(detail=True, methods=["get"])
    @operation(Level.READ, response=PullProtectionRecord)
    def protection(self) -> dict[str, Any]:
        """Read what stands in the way of merging a pull.

        All blockers at once, and for each approval whether it counts.
        """
        return pull_protection_record(readiness_of(self.pull), self.access)


class ReviewViewSet(BodyViewSet):
    """/{owner}/repos/{repo_slug}/pulls/{number}/reviews"""

    schema_tags = ["pulls"]
    lookup_url_kwarg = "review_uuid"
    html = StoredHtml(Review.objects)
    lookup_value_converter = "uid"
    pull: Pull
    review: Review

    def load_objects(self) -> None:
        """Load the pull, and the review that must be on it."""
        self.pull = get_pull(self.repo, self.kwargs["number"])
        if "review_uuid" in self.kwargs:
            rows = list_reviews(self.pull)
            self.review = get_or_missing(
                rows, "review", "this pull", uuid=self.kwargs["review_uuid"]
            )

    @operation(Level.READ, response=ReviewRecord, query=RenderQuery)
    def list(self) -> Response:
        """List a pull's reviews, oldest first."""
        eligibility = Eligibility.of(self.pull)
        rows = list_reviews(self.pull)
        return self.page_with_html(self.page_of(rows, lambda row: review_record(row, eligibility)))

    @operation(
        Level.READ,
        request=CreateReview,
        response=ReviewRecord,
        status=201,
        query=ReviewQuery,
        errors=("head_changed",),
    )
    def create(self) -> dict[str, Any]:
        """Review a pull. Always recorded; `is_eligible` says whether it counts."""
        wanted = {**self.validated_query, **self.validated_data}
        review = actions.create_review(by=self.access, pull=self.pull, **wanted)
        return self.record(list_reviews(self.pull).get(pk=review.pk))

    @operation(Level.READ, response=ReviewRecord, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read a review."""
        return self.record_with_html(self.record(self.review))

    @operation(
        Level.READ,
        request=UpdateReview,
        response=ReviewRecord,
        query=ReviewQuery,
        errors=("head_changed", "invalid_transition", "not_creator", "role_required"),
    )
    def update(self) -> dict[str, Any]:
        """Change one's own review; `dismissed` is for the repository's admins."""
        wanted = {**self.validated_query, **self.validated_data}
        actions.update_review(by=self.access, review=self.review, **wanted)
        return self.record(self.review)

    def record(self, review: Review) -> dict[str, Any]:
        return review_record(review, Eligibility.of(self.pull))

    @operation(Level.READ, status=204, errors=("not_creator",))
    def destroy(self) -> None:
        """Delete a review: its author, an owner of the repository, or staff."""
        actions.delete_review(by=self.access, review=self.review)

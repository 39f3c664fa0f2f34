"""`…/pulls` and `…/pulls/{number}/reviews`: pull requests, merging and reviews."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.shortcuts import get_object_or_404
from rest_framework.decorators import action

from apps.core.access import Level
from apps.core.operation import operation
from apps.core.parsers import Query, choice_query, text_query
from apps.git.repo import is_sha
from apps.pulls import actions, rules
from apps.pulls.doors import find_pull
from apps.pulls.models import Pull, PullQuerySet, PullStatus, Review, pull_rows
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
    pull_record,
    review_record,
)
from apps.pulls.sources import paths_known_to
from apps.repos.doors import InRepo


def _full_sha(text: str) -> str:
    if not is_sha(text.lower()):
        raise ValueError("Must be a full commit name of 40 hexadecimal digits.")
    return text.lower()


EXPECTED_HEAD = Query(
    "expected_head_sha",
    _full_sha,
    {"type": "string", "pattern": "^[0-9A-Fa-f]{40}$"},
    "Merge only if this is the head: the commit that you have seen.",
)
FILTERS = (
    choice_query("status", [*PullStatus]),
    text_query("created_by", "The author's username, ignoring case."),
    text_query("search", "Part of a title or body, ignoring case."),
    choice_query("ordering", rules.ORDERINGS, "The default is `-number`: newest first."),
)


def pull_records(pulls: Sequence[Any], view: InRepo) -> list[dict[str, Any]]:
    """The records of these pulls, as the caller may know them."""
    known = paths_known_to(view.caller, pulls, view.repo)
    return [pull_record(pull, view.repo, view.base, known) for pull in pulls]


class WithSources:
    """Light rows as records: each page asks once for the repositories that its pulls come from."""

    def __init__(self, rows: Any, view: InRepo) -> None:
        self.rows, self.view = rows, view

    def __getitem__(self, part: slice) -> list[dict[str, Any]]:
        return pull_records(list(self.rows[part]), self.view)


class PullViewSet(InRepo):
    """/{owner}/repos/{repo_slug}/pulls"""

    family = "pulls"
    lookup_url_kwarg = "number"
    lookup_value_converter = "number"
    pull: Pull

    def enter(self) -> None:
        """Load the pull; changing it is for its author and for those with a role."""
        if "number" not in self.kwargs:
            return
        self.pull = find_pull(self.repo, self.kwargs["number"])
        if self.action in {"update", "set_status"}:
            rules.check_may_edit(self.pull, self.caller, self.level)

    @operation(Level.READ, gives=PullRecord, paged=True, query=FILTERS)
    def list(self) -> dict[str, Any]:
        """List a repository's pulls."""
        ordering = self.params["ordering"] or rules.ORDERINGS[0]
        rows = self.filtered(pull_rows().filter(repo=self.repo.pk)).in_order(ordering)
        return self.page(WithSources(rows, self), lambda record, _: record)

    def filtered(self, pulls: PullQuerySet) -> PullQuerySet:
        if self.params["status"]:
            pulls = pulls.filter(status=self.params["status"])
        if self.params["created_by"]:
            author = self.params["created_by"].lower()
            pulls = pulls.filter(thread__created_by__username_key=author)
        return pulls.search(self.params["search"]) if self.params["search"] else pulls

    @operation(Level.READ, takes=CreatePull, gives=PullRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Open a pull. Its branches need not exist yet."""
        self.pull = actions.create_pull(actor=self.caller, repo=self.repo, **self.input)
        return self.record()

    @operation(Level.READ, gives=PullRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a pull."""
        return self.record()

    @operation(Level.READ, takes=UpdatePull, gives=PullRecord)
    def update(self) -> dict[str, Any]:
        """Change title, body or status: its author, or with write access."""
        actions.update_pull(actor=self.caller, pull=self.pull, **self.input)
        return self.record()

    @action(detail=True, methods=["put"], url_path="status")
    @operation(Level.READ, takes=SetPullStatus, gives=PullRecord)
    def set_status(self) -> dict[str, Any]:
        """Open, draft or close a pull: its author, or with write access."""
        actions.update_pull(actor=self.caller, pull=self.pull, **self.input)
        return self.record()

    def record(self) -> dict[str, Any]:
        [record] = pull_records([self.pull], self)
        return record

    @action(detail=True, methods=["post"])
    @operation(Level.WRITE, takes=MergePull, gives=MergeRecord, query=(EXPECTED_HEAD,))
    def merge(self) -> dict[str, Any]:
        """Merge a pull into its target.

        A refusal names everything that stands in the way; `error` is the first.
        """
        head = self.params["expected_head_sha"]
        actions.merge_pull(actor=self.caller, pull=self.pull, expected_head_sha=head, **self.input)
        return merge_record(self.pull, self.record())

    @action(detail=True, methods=["get"])
    @operation(Level.READ, gives=PullProtectionRecord)
    def protection(self) -> dict[str, Any]:
        """Read what stands in the way of merging a pull.

        All blockers at once, and for each approval whether it counts.
        """
        return pull_protection_record(rules.readiness_of(self.pull), self.caller, self.level)


class ReviewViewSet(InRepo):
    """/{owner}/repos/{repo_slug}/pulls/{number}/reviews"""

    family = "pulls"
    lookup_url_kwarg = "review_uuid"
    lookup_value_converter = "uid"
    pull: Pull
    review: Review

    def enter(self) -> None:
        """Load the pull, and the review that must be on it."""
        self.pull = find_pull(self.repo, self.kwargs["number"])
        if "review_uuid" in self.kwargs:
            rows = self.pull.reviews.with_people(self.repo)
            self.review = get_object_or_404(rows, uuid=self.kwargs["review_uuid"])

    @operation(Level.READ, gives=ReviewRecord, paged=True)
    def list(self) -> dict[str, Any]:
        """List a pull's reviews, oldest first."""
        rows = self.pull.reviews.with_people(self.repo)
        eligibility = rules.Eligibility.of(self.pull)
        return self.page(
            rows.order_by("created_at", "id"), lambda row, _: review_record(row, eligibility)
        )

    @operation(Level.READ, takes=CreateReview, gives=ReviewRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Review a pull. Always recorded; `is_eligible` says whether it counts."""
        review = actions.create_review(actor=self.caller, pull=self.pull, **self.input)
        return self.record(self.pull.reviews.with_people(self.repo).get(pk=review.pk))

    @operation(Level.READ, gives=ReviewRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a review."""
        return self.record(self.review)

    @operation(Level.READ, takes=UpdateReview, gives=ReviewRecord)
    def update(self) -> dict[str, Any]:
        """Change one's own review; `dismissed` is for the repository's admins."""
        actions.update_review(actor=self.caller, review=self.review, **self.input)
        return self.record(self.review)

    def record(self, review: Review) -> dict[str, Any]:
        return review_record(review, rules.Eligibility.of(self.pull))

    @operation(Level.READ, status=204)
    def destroy(self) -> None:
        """Delete a review: its author, an owner of the repository, or staff."""
        actions.delete_review(actor=self.caller, review=self.review)

"""`…/pulls/{number}/reviewers`: the people who are asked to review a pull."""

from __future__ import annotations

from typing import Any

from apps.core.access import Level, Permission
from apps.core.operation import operation
from apps.pulls import actions
from apps.pulls.models import Pull
from apps.pulls.queries import get_pull
from apps.pulls.review_requests import list_requests, may_ask
from apps.pulls.reviewer_serializers import ReviewersRecord, UpdateReviewers, reviewers_record
from apps.pulls.reviewer_suggestions import Suggestion, suggestions
from apps.repos.access import RepoScoped
from apps.repos.http.transfer_slots import caller_of


class ReviewersViewSet(RepoScoped):
    """…/pulls/{number}/reviewers"""

    schema_tags = ["pulls"]
    pull: Pull

    def load_objects(self) -> None:
        """Load the pull. Only its author and people with write access may change its reviewers."""
        self.pull = get_pull(self.repo, self.kwargs["number"])
        if self.action == "update":
            self.access.require_author_or(Level.WRITE, self.pull.thread.created_by_id, "pull")

    @operation(Level.READ, response=ReviewersRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read who is asked to review a pull.

        `reviewers` are the people whose review is pending, `requests` these and the people who have
        made it since. `suggestions` are for people who may ask, and empty for others.
        """
        return self.record()

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=UpdateReviewers,
        response=ReviewersRecord,
        errors=(
            "pull_already_merged",
            "pull_closed",
            "reviewer_lacks_access",
            "role_required",
            "user_not_found",
        ),
    )
    def update(self) -> dict[str, Any]:
        """Ask these people, and no others, to review a pull.

        A person who has reviewed it already is asked again.
        """
        actions.set_reviewers(access=self.access, pull=self.pull, **self.validated_data)
        return self.record()

    def record(self) -> dict[str, Any]:
        requests = list_requests(self.pull)
        suggested: list[Suggestion] = []
        if may_ask(self.access, self.pull):
            throttle_key = caller_of(self.http_request, self.principal)
            names = {row.user.username for row in requests}
            suggested = suggestions(self.pull, self.principal, names, throttle_key)
        return reviewers_record(self.pull, requests, suggested)

"""The operations of pulls that push to the source branch."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError

from apps.core.access import Level, Permission
from apps.core.operation import operation
from apps.core.query import QuerySerializer, TextParameter
from apps.pulls import actions
from apps.pulls.models import Pull
from apps.pulls.rules import sha_problem
from apps.pulls.serializers import (
    AppliedSuggestionsRecord,
    ApplySuggestions,
    PullRecord,
    UpdateBranch,
    applied_record,
    pull_record,
)
from apps.threads.views import BodyViewSet


@extend_schema_field({"type": "string", "pattern": "^[0-9A-Fa-f]{40}$"})
class ShaParameter(TextParameter):
    """The full name of a commit, converted to lower case."""

    def to_internal_value(self, data: Any) -> str:
        if problem := sha_problem(data.lower()):
            raise ValidationError(problem)
        return str(data.lower())


class SourceHeadQuery(QuerySerializer):
    expected_head_sha = ShaParameter(
        required=False,
        help_text="The commit that the branch has to be at; the head of the pull without it.",
    )


MOVE_ERRORS = ("branch_missing", "branch_protected", "quota_reached", "role_required")
"""The codes with which a move of the source branch may be refused."""
SUGGESTION_ERRORS = (
    *MOVE_ERRORS,
    "head_changed",
    "not_a_suggestion",
    "nothing_to_commit",
    "pull_already_merged",
    "pull_closed",
    "suggestion_outdated",
    "suggestions_overlap",
    "too_expensive",
)


class SourceBranchViewSet(BodyViewSet):
    """The part of the viewset of pulls about the source branch."""

    pull: Pull

    def record(self) -> dict[str, Any]:
        return pull_record(self.pull, self.principal, self.base_url)

    @action(detail=True, methods=["put"], url_path="update-branch")
    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=UpdateBranch,
        response=PullRecord,
        errors=(
            *MOVE_ERRORS,
            "head_changed",
            "merge_conflict",
            "nothing_to_update",
            "pull_already_merged",
            "pull_closed",
        ),
    )
    def update_branch(self) -> dict[str, Any]:
        """Merge the target of a pull into its source branch.

        The caller pushes the merge commit to the source, and needs write access there.
        """
        actions.update_branch(access=self.access, pull=self.pull, **self.validated_data)
        return self.record()

    @action(detail=True, methods=["post"], url_path="apply-suggestions")
    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=ApplySuggestions,
        response=AppliedSuggestionsRecord,
        status=201,
        errors=SUGGESTION_ERRORS,
    )
    def apply_suggestions(self) -> dict[str, Any]:
        """Apply the suggestions in several comments by one commit on the source branch of a pull.

        The caller pushes the commit, and needs write access to the source. The comments are
        resolved.
        """
        sha = actions.apply_suggestions(
            access=self.access,
            pull=self.pull,
            asked_since=self.asked_since,
            **self.validated_data,
        )
        numbers = self.validated_data["comments"]
        return applied_record(self.pull, sha, numbers, self.principal, self.base_url)

    @action(detail=True, methods=["put"], url_path="source-branch")
    @operation(
        Level.READ,
        permission=Permission.WRITE,
        response=PullRecord,
        errors=(*MOVE_ERRORS, "branch_exists"),
    )
    def restore_source_branch(self) -> dict[str, Any]:
        """Create the deleted source branch of a pull again, at the head of the pull."""
        actions.restore_source_branch(access=self.access, pull=self.pull)
        return self.record()

    @restore_source_branch.mapping.delete
    @operation(
        Level.READ,
        permission=Permission.WRITE,
        status=204,
        query=SourceHeadQuery,
        errors=(*MOVE_ERRORS, "branch_in_use", "default_branch", "head_changed"),
    )
    def delete_source_branch(self) -> None:
        """Delete the source branch of a merged or closed pull.

        No open pull may be from or into it.
        """
        actions.delete_source_branch(access=self.access, pull=self.pull, **self.validated_query)

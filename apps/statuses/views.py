"""The resources `…/commits/{sha}/statuses` and `…/commits/{sha}/status`."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from apps.core.access import Level, Permission
from apps.core.filters import StrictFilterSet, TextFilter
from apps.core.operation import operation
from apps.repos.access import RepoScoped
from apps.statuses import actions, queries
from apps.statuses.models import CommitStatus
from apps.statuses.rules import check_commit, combined
from apps.statuses.serializers import (
    CombinedStatusRecord,
    CreateStatus,
    StatusRecord,
    status_record,
)

MOST_CONTEXTS = 1000
"""Most contexts in a combined status."""


class StatusFilterSet(StrictFilterSet):
    context = TextFilter("Only statuses of this context.")


class StatusViewSet(RepoScoped):
    """…/repos/{repo_slug}/commits/{sha}/statuses"""

    schema_tags = ["commits"]
    queryset = CommitStatus.objects.all()
    filterset_class = StatusFilterSet

    @operation(Level.READ, response=StatusRecord)
    def list(self) -> Response:
        """List the statuses of a commit, newest first.

        The newest 100 of each context are kept.
        """
        sha = self.kwargs["sha"]
        page = self.paginate(queries.list_statuses(self.repo, sha))
        if not page:
            check_commit(self.repo, sha)
        return self.get_paginated_response([status_record(status) for status in page])

    @operation(
        Level.WRITE,
        permission=Permission.WRITE,
        request=CreateStatus,
        response=StatusRecord,
        status=201,
    )
    def create(self) -> dict[str, Any]:
        """Report the status of a commit, such as the result of a build.

        The latest status of a `context` replaces those before it.
        """
        status = actions.create_status(
            access=self.access, sha=self.kwargs["sha"], **self.validated_data
        )
        return status_record(status)


class CombinedStatusViewSet(RepoScoped):
    """…/repos/{repo_slug}/commits/{sha}/status"""

    schema_tags = ["commits"]

    @operation(Level.READ, response=CombinedStatusRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read the combined status of a commit, and the latest status of each context, by name.

        `state` is `failure` if any is a failure or an error, else `pending` if any is, else
        `success`; `none` without a status. At most 1,000 contexts are listed; `state` counts all.
        """
        sha = self.kwargs["sha"]
        latest = [*queries.latest_statuses(self.repo, sha)[: MOST_CONTEXTS + 1]]
        if not latest:
            check_commit(self.repo, sha)
        state = combined(status.state for status in latest)
        if len(latest) > MOST_CONTEXTS:
            state = queries.states_of([(self.repo.pk, sha)])[self.repo.pk, sha]
        return {
            "sha": sha,
            "state": state,
            "contexts": [status_record(status) for status in latest[:MOST_CONTEXTS]],
            "contexts_truncated": len(latest) > MOST_CONTEXTS,
        }

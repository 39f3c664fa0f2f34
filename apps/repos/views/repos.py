"""`/{owner}/repos`: the repositories of a team or a user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework.response import Response

from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.availability import REPO_SLUGS, Availability, SlugQuery
from apps.core.operation import operation
from apps.repos import actions, queries
from apps.repos.access import OwnerAccess, OwnerScoped, RepoAccess, open_repo_of
from apps.repos.filters import RepoFilterSet
from apps.repos.models import Repo
from apps.repos.serializers import CreateRepo, RepoRecord, UpdateRepo, repo_record


def repo_records(
    repos: Sequence[Any], principal: Principal, owner: str, level: Level, base: str
) -> list[dict[str, Any]]:
    """The records of repositories of one owner, as a caller with this level on them may know
    them: one query says what forks were made from.
    """
    upstreams = [repo.upstream_id for repo in repos]
    known = Repo.objects.paths_known_to(principal, upstreams)
    return [repo_record(repo, owner, level, base, known.get(repo.upstream_id)) for repo in repos]


class RepoViewSet(OwnerScoped):
    """/{owner}/repos, /{owner}/repos/{repo_slug}"""

    queryset = Repo.objects.all()
    filterset_class = RepoFilterSet
    access: Any

    schema_tags = ["repos"]
    lookup_url_kwarg = "repo_slug"
    lookup_value_converter = "repo_slug"

    def open(self) -> OwnerAccess | RepoAccess | None:
        """The owner's space for the list, the repository for one."""
        if "repo_slug" in self.kwargs:
            return open_repo_of(self)
        return super().open()

    @operation(Level.NONE, response=RepoRecord)
    def list(self) -> Response:
        """List the repositories that the caller may read."""
        space, base = self.access, self.base_url
        repos = self.paginate(queries.list_repos(space))
        shown = max(space.level, Level.READ)
        records = repo_records(repos, self.principal, space.owner.path, shown, base)
        return self.get_paginated_response(records)

    @operation(Level.WRITE, request=CreateRepo, response=RepoRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Create a repository."""
        space = self.access
        repo = actions.create_repo(by=space, **self.validated_data)
        return repo_record(repo, space.owner.path, space.level, self.base_url)

    @operation(Level.READ, response=RepoRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a repository."""
        return self.record()

    @operation(Level.ADMIN, request=UpdateRepo, response=RepoRecord)
    def update(self) -> dict[str, Any]:
        """Change name, slug, description or visibility."""
        actions.update_repo(by=self.access, **self.validated_data)
        return self.record()

    def record(self) -> dict[str, Any]:
        repo, level = self.access.repo, self.access.level
        owner, base = repo.owner.path, self.base_url
        [record] = repo_records([repo], self.principal, owner, level, base)
        return record


class CheckRepoSlugViewSet(OwnerScoped):
    """/{owner}/check-repo-slug"""

    schema_tags = ["repos"]

    @operation(
        Level.READ, response=Availability, query=SlugQuery, other_responses={409: Availability}
    )
    def retrieve(self) -> Response:
        """Tell whether a repository's slug can be had in this space."""
        taken = self.access.owner.repos.taken
        return REPO_SLUGS.answer(self.validated_query.get("slug"), taken)

"""`/{owner}/repos`: the repositories of a team or a user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework.response import Response

from apps.core.access import Level, Place
from apps.core.availability import REPO_SLUGS, Availability, name_query
from apps.core.operation import operation
from apps.core.parsers import text_query
from apps.core.views import ApiViewSet
from apps.repos import actions
from apps.repos.doors import InOwner, InRepo
from apps.repos.models import Repo
from apps.repos.serializers import CreateRepo, RepoRecord, UpdateRepo, repo_record


def repo_records(
    repos: Sequence[Any], view: ApiViewSet, owner: str, level: Level
) -> list[dict[str, Any]]:
    """The records of repositories of one owner, as a caller with this level on them may know
    them: one query says what forks were made from.
    """
    known = Repo.objects.paths_known_to(view.caller, [repo.upstream_id for repo in repos])
    return [
        repo_record(repo, owner, level, view.base, known.get(repo.upstream_id)) for repo in repos
    ]


class WithUpstreams:
    """Light rows as records: each page asks once for what its forks were made from."""

    def __init__(self, rows: Any, view: InOwner, level: Level) -> None:
        self.rows, self.view, self.level = rows, view, level

    def __getitem__(self, part: slice) -> list[dict[str, Any]]:
        return repo_records(list(self.rows[part]), self.view, self.view.owner.path, self.level)


class RepoViewSet(InRepo, InOwner):
    """/{owner}/repos, /{owner}/repos/{repo_slug}"""

    family = "repos"
    lookup_url_kwarg = "repo_slug"
    lookup_value_converter = "repo_slug"

    def find_place(self) -> Place | None:
        """The owner for the list, the repository for one."""
        if "repo_slug" in self.kwargs:
            return InRepo.find_place(self)
        return InOwner.find_place(self)

    @operation(
        Level.NONE,
        gives=RepoRecord,
        paged=True,
        query=(text_query("search", "Part of a name, slug or description, ignoring case."),),
    )
    def list(self) -> dict[str, Any]:
        """List the repositories that the caller may read."""
        level = self.found_level or Level.NONE
        rows = self.owner.repos.order_by("slug")
        if level is Level.NONE:
            rows = rows & Repo.objects.visible_to(self.caller)
        if self.params["search"]:
            rows = rows & Repo.objects.search(self.params["search"])
        shown = max(level, Level.READ)
        return self.page(WithUpstreams(rows.rows(), self, shown), lambda record, _: record)

    @operation(Level.WRITE, takes=CreateRepo, gives=RepoRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Create a repository."""
        repo = actions.create_repo(actor=self.caller, owner=self.owner, **self.input)
        return repo_record(repo, self.owner.path, self.level, self.base)

    @operation(Level.READ, gives=RepoRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a repository."""
        return self.record()

    @operation(Level.ADMIN, takes=UpdateRepo, gives=RepoRecord)
    def update(self) -> dict[str, Any]:
        """Change name, slug, description or visibility."""
        actions.update_repo(actor=self.caller, repo=self.repo, **self.input)
        return self.record()

    def record(self) -> dict[str, Any]:
        [record] = repo_records([self.repo], self, self.repo.owner.path, self.level)
        return record


class CheckRepoSlugViewSet(InOwner):
    """/{owner}/check-repo-slug"""

    family = "repos"

    @operation(
        Level.READ, gives=Availability, query=(name_query("slug"),), refuses={409: Availability}
    )
    def list(self) -> Response:
        """Tell whether a repository's slug can be had in this space."""
        return REPO_SLUGS.answer(self.params["slug"], self.owner.repos.taken)

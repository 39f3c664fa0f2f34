"""`…/forks` of a repository, `…/fork` of a fork, and `/forks/{uuid}` to poll one."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.shortcuts import get_object_or_404

from apps.core.access import Level, check_level
from apps.core.errors import Forbidden
from apps.core.operation import operation
from apps.core.parsers import text_query
from apps.core.views import ApiViewSet
from apps.repos import actions
from apps.repos.doors import InRepo
from apps.repos.models import Fork, Repo
from apps.repos.serializers import ForkRecord, fork_record
from apps.teams.doors import find_team


def records_of(forks: list[Fork], view: ApiViewSet) -> dict[int, dict[str, Any]]:
    """Their records by id; one query says which repositories the caller may know."""
    ids = {fork.upstream_id for fork in forks} | {fork.repo_id for fork in forks if fork.repo_id}
    known = Repo.objects.visible_to(view.caller).filter(pk__in=ids)
    readable = set(known.values_list("pk", flat=True)) if ids else set()
    return {fork.pk: fork_record(fork, readable) for fork in forks}


def record_of(fork: Fork | None, view: ApiViewSet) -> dict[str, Any]:
    """The record of one; 404 for None."""
    if fork is None:
        raise Http404
    return records_of([fork], view)[fork.pk]


class ForkViewSet(ApiViewSet):
    """/forks/{fork_uuid}"""

    family = "forks"
    lookup_url_kwarg = "fork_uuid"
    lookup_value_converter = "uid"

    def enter(self) -> None:
        """Whoever reads the upstream, reads the fork or started it (behaviour.md §9)."""
        found = Fork.objects.with_paths()
        self.fork = get_object_or_404(found, uuid=self.kwargs["fork_uuid"])
        ids = [self.fork.upstream_id, self.fork.repo_id]
        readable = Repo.objects.visible_to(self.caller).filter(pk__in=filter(None, ids))
        if self.fork.created_by_id != self.caller.pk and not readable.exists():
            raise Forbidden("forbidden", "You have no access to this fork.")

    @operation(Level.NONE, gives=ForkRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a fork. Poll this until its status is `completed` or `failed`."""
        return record_of(self.fork, self)


class ForksOfRepoViewSet(InRepo):
    """…/repos/{repo_slug}/forks"""

    family = "forks"

    @operation(Level.READ, gives=ForkRecord, paged=True)
    def list(self) -> dict[str, Any]:
        """List the forks that the caller may read, newest first."""
        forks = self.repo.forks.with_paths().visible_to(self.caller)
        rows = PageOf(forks.order_by("-created_at", "-id"), self)
        return self.page(rows, lambda record, _: record)

    @operation(
        Level.READ,
        gives=ForkRecord,
        status=201,
        query=(text_query("team_slug", "Fork into this team instead of the caller's own space."),),
    )
    def create(self) -> dict[str, Any]:
        """Fork a repository. The copy is made afterwards: poll `/forks/{fork_uuid}`."""
        owner: Any = self.caller
        if self.params["team_slug"] is not None:
            slug = self.params["team_slug"].lower()
            owner, level = find_team(slug, self.caller, former=False)
            owner.check_open(self.caller, writing=True)
            check_level(owner, self.caller, Level.WRITE, known=level)
        return record_of(
            actions.create_fork(actor=self.caller, upstream=self.repo, owner=owner), self
        )


class PageOf:
    """Forks as a list of records: each page asks once what its reader may know."""

    def __init__(self, forks: Any, view: ApiViewSet) -> None:
        self.forks, self.view = forks, view

    def __getitem__(self, part: slice) -> list[dict[str, Any]]:
        found = list(self.forks[part])
        return list(records_of(found, self.view).values())


class ForkOfRepoViewSet(InRepo):
    """…/repos/{repo_slug}/fork"""

    family = "forks"

    @operation(Level.READ, gives=ForkRecord)
    def list(self) -> dict[str, Any]:
        """Read the fork that made this repository; 404 for one that is no fork."""
        return record_of(Fork.objects.with_paths().filter(repo=self.repo).first(), self)


class ForkOfUserViewSet(InRepo):
    """…/repos/{repo_slug}/forks/user/{fork_username}"""

    family = "forks"
    lookup_url_kwarg = "fork_username"
    lookup_value_converter = "username"

    @operation(Level.READ, gives=ForkRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a user's fork of this repository: the one that has not failed, else the last."""
        name = self.kwargs["fork_username"]
        return record_of(self.repo.forks.of_owner(owner_user__username_key=name), self)


class ForkOfTeamViewSet(InRepo):
    """…/repos/{repo_slug}/forks/team/{fork_team_slug}"""

    family = "forks"
    lookup_url_kwarg = "fork_team_slug"
    lookup_value_converter = "team_slug"

    @operation(Level.READ, gives=ForkRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a team's fork of this repository: the one that has not failed, else the last."""
        slug = self.kwargs["fork_team_slug"]
        return record_of(self.repo.forks.of_owner(owner_team__slug=slug), self)

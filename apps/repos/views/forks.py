"""`…/forks` of a repository, `…/fork` of a fork, and `/forks/{uuid}` to poll one."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.shortcuts import get_object_or_404
from rest_framework.response import Response

from apps.accounts.access import access_to_user
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.errors import Forbidden
from apps.core.operation import operation
from apps.core.query import QuerySerializer, TextParameter
from apps.core.views import ApiViewSet
from apps.repos import actions, queries
from apps.repos.access import OwnerAccess, RepoScoped
from apps.repos.models import Fork, Repo
from apps.repos.serializers import ForkRecord, fork_record
from apps.teams.access import open_team


def fork_records(forks: list[Fork], principal: Principal) -> list[dict[str, Any]]:
    """Their records; one query says which repositories the caller may know."""
    ids = {fork.upstream_id for fork in forks} | {fork.repo_id for fork in forks if fork.repo_id}
    known = Repo.objects.visible_to(principal).filter(pk__in=ids)
    readable = set(known.values_list("pk", flat=True)) if ids else set()
    return [fork_record(fork, readable) for fork in forks]


def one_record(fork: Fork | None, principal: Principal) -> dict[str, Any]:
    """The record of one; 404 for None."""
    if fork is None:
        raise Http404
    [record] = fork_records([fork], principal)
    return record


class ForkQuery(QuerySerializer):
    team_slug = TextParameter(
        required=False, help_text="Fork into this team instead of the caller's own space."
    )


class ForkViewSet(ApiViewSet):
    """/forks/{fork_uuid}"""

    principal: Principal
    schema_tags = ["forks"]
    lookup_url_kwarg = "fork_uuid"
    lookup_value_converter = "uid"

    def load_objects(self) -> None:
        """Whoever reads the upstream, reads the fork or started it."""
        found = Fork.objects.with_paths()
        self.fork = get_object_or_404(found, uuid=self.kwargs["fork_uuid"])
        ids = [self.fork.upstream_id, self.fork.repo_id]
        readable = Repo.objects.visible_to(self.principal).filter(pk__in=filter(None, ids))
        if self.fork.created_by_id != self.principal.user.pk and not readable.exists():
            raise Forbidden("forbidden", "You have no access to this fork.")

    @operation(Level.NONE, response=ForkRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a fork. Poll this until its status is `completed` or `failed`."""
        return one_record(self.fork, self.principal)


class ForksOfRepoViewSet(RepoScoped):
    """…/repos/{repo_slug}/forks"""

    schema_tags = ["forks"]

    @operation(Level.READ, response=ForkRecord)
    def list(self) -> Response:
        """List the forks that the caller may read, newest first."""
        forks = self.paginate(queries.list_forks(self.principal, self.repo))
        return self.get_paginated_response(fork_records(forks, self.principal))

    @operation(
        Level.READ,
        response=ForkRecord,
        status=201,
        query=ForkQuery,
    )
    def create(self) -> dict[str, Any]:
        """Fork a repository. The copy is made afterwards: poll `/forks/{fork_uuid}`."""
        self.access.check_writable()  # before the space is looked for
        slug = self.validated_query.get("team_slug")
        into: OwnerAccess = access_to_user(self.principal, self.principal.user)
        if slug is not None:
            into = open_team(self.principal, slug.lower(), needs=Level.WRITE, writing=True)
        fork = actions.create_fork(by=self.access, into=into)
        return one_record(fork, self.principal)


class ForkOfRepoViewSet(RepoScoped):
    """…/repos/{repo_slug}/fork"""

    schema_tags = ["forks"]

    @operation(Level.READ, response=ForkRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read the fork that made this repository; 404 for one that is no fork."""
        fork = Fork.objects.with_paths().filter(repo=self.repo).first()
        return one_record(fork, self.principal)


class ForkOfUserViewSet(RepoScoped):
    """…/repos/{repo_slug}/forks/user/{fork_username}"""

    schema_tags = ["forks"]
    lookup_url_kwarg = "fork_username"
    lookup_value_converter = "username"

    @operation(Level.READ, response=ForkRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a user's fork of this repository: the one that has not failed, else the last."""
        name = self.kwargs["fork_username"]
        fork = self.repo.forks.of_owner(owner_user__username_key=name)
        return one_record(fork, self.principal)


class ForkOfTeamViewSet(RepoScoped):
    """…/repos/{repo_slug}/forks/team/{fork_team_slug}"""

    schema_tags = ["forks"]
    lookup_url_kwarg = "fork_team_slug"
    lookup_value_converter = "team_slug"

    @operation(Level.READ, response=ForkRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a team's fork of this repository: the one that has not failed, else the last."""
        slug = self.kwargs["fork_team_slug"]
        fork = self.repo.forks.of_owner(owner_team__slug=slug)
        return one_record(fork, self.principal)

"""The resources `…/repos`, `…/protections` and `…/forks`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet, prefetch_related_objects
from django.http import Http404
from rest_framework.response import Response

from apps.accounts.access import access_to_user
from apps.accounts.principal import Principal
from apps.accounts.rules import named_user
from apps.accounts.serializers import ConfirmQuery, DeletionRecord, deletion_record
from apps.core.access import Level, Permission
from apps.core.availability import REPO_SLUGS, Availability, SlugQuery
from apps.core.errors import Forbidden
from apps.core.filters import SearchFilter, StrictFilterSet
from apps.core.lookup import get_or_missing
from apps.core.operation import operation
from apps.core.query import QuerySerializer, TextParameter
from apps.core.views import ApiViewSet
from apps.repos import actions, queries
from apps.repos.access import OwnerAccess, OwnerScoped, RepoScoped
from apps.repos.models import Approver, Fork, Protection, Repo
from apps.repos.rules import Collaborators
from apps.repos.serializers import (
    AddApprover,
    ApproverRecord,
    CreateProtection,
    CreateRepo,
    ForkRecord,
    ProtectionRecord,
    RepoRecord,
    UpdateProtection,
    UpdateRepo,
    approver_record,
    fork_record,
    protection_record,
    repo_record,
)
from apps.teams.access import open_team


def repo_records(
    repos: Sequence[Any], principal: Principal, owner: str, level: Level, base: str
) -> list[dict[str, Any]]:
    """The records of repositories of one owner, for a caller with this level. One query finds the
    upstreams of forks that the caller may read.
    """
    upstreams = [repo.upstream_id for repo in repos]
    paths = Repo.objects.paths_known_to(principal, upstreams)
    return [repo_record(repo, owner, level, base, paths.get(repo.upstream_id)) for repo in repos]


class RepoFilterSet(StrictFilterSet):
    search = SearchFilter("Part of a name, slug or description, ignoring case.")


class RepoViewSet(OwnerScoped, RepoScoped):
    """/{owner}/repos, /{owner}/repos/{repo_slug}"""

    queryset = Repo.objects.all()
    filterset_class = RepoFilterSet
    schema_tags = ["repos"]
    lookup_url_kwarg = "repo_slug"
    lookup_value_converter = "repo_slug"

    def open(self) -> Any:
        """Open the owner's space for the list, else the repository."""
        return RepoScoped.open(self) if "repo_slug" in self.kwargs else OwnerScoped.open(self)

    @operation(Level.NONE, response=RepoRecord)
    def list(self) -> Response:
        """List the repositories that the caller may read."""
        space, base = self.access, self.base_url
        repos = self.paginate(queries.list_repos(space, to_filter=bool(self.filterset)))
        level = max(space.level, Level.READ)
        records = repo_records(repos, self.principal, space.owner.path, level, base)
        return self.get_paginated_response(records)

    @operation(
        Level.WRITE,
        permission=Permission.ADMIN,
        request=CreateRepo,
        response=RepoRecord,
        status=201,
        errors=("person_required", "slug_taken"),
    )
    def create(self) -> dict[str, Any]:
        """Create a repository."""
        space = self.access
        repo = actions.create_repo(access=space, **self.validated_data)
        return repo_record(repo, space.owner.path, space.level, self.base_url)

    @operation(Level.READ, response=RepoRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a repository."""
        return self.record()

    @operation(Level.ADMIN, request=UpdateRepo, response=RepoRecord, errors=("slug_taken",))
    def update(self) -> dict[str, Any]:
        """Change a repository's properties, archive it or open it again.

        An archived repository accepts only requests with `is_archived: false`; these may change
        other properties too. `default_branch` must be an existing branch, unless the repository is
        empty.
        """
        actions.update_repo(access=self.access, **self.validated_data)
        return self.record()

    @operation(Level.ADMIN, query=ConfirmQuery, response=DeletionRecord, status=202)
    def destroy(self) -> dict[str, Any]:
        """Delete a repository with everything in it, also an archived one.

        `confirm` is its owner and slug, such as `acme/api`. It is gone at once for everybody. Staff
        can restore it until `purge_at`; its address is reserved until then.
        """
        deletion = actions.delete_repo(access=self.access, **self.validated_query)
        return deletion_record(deletion)

    def record(self) -> dict[str, Any]:
        owner, level = self.repo.owner.path, self.access.level
        return repo_records([self.repo], self.principal, owner, level, self.base_url)[0]


class CheckRepoSlugViewSet(OwnerScoped):
    """/{owner}/check-repo-slug"""

    schema_tags = ["repos"]

    @operation(
        Level.READ, response=Availability, query=SlugQuery, other_responses={409: Availability}
    )
    def retrieve(self) -> Response:
        """Check whether a repository's slug is available in this space."""
        taken = self.access.owner.repos.taken
        return REPO_SLUGS.answer(self.validated_query.get("slug"), taken)


def protection_records(repo: Repo, protections: Sequence[Protection]) -> list[dict[str, Any]]:
    """The records of protections. At most two queries find whether enough people could approve."""
    collaborators = Collaborators.of(repo, protections)
    return [protection_record(protection, collaborators) for protection in protections]


def get_protection(view: RepoScoped, rows: QuerySet[Protection]) -> Protection:
    """The protection in the URL, with its repository; 404."""
    uuid = view.kwargs["protection_uuid"]
    protection: Protection = get_or_missing(rows, "protection", view.repo.path, uuid=uuid)
    protection.repo = view.repo
    return protection


OF_REPORTERS = ("approver_lacks_access", "user_not_found")


class ProtectionViewSet(RepoScoped):
    """/{owner}/repos/{repo_slug}/protections"""

    schema_tags = ["protections"]
    lookup_url_kwarg = "protection_uuid"
    lookup_value_converter = "uid"
    protection: Protection

    def load_objects(self) -> None:
        """Load the protection in the URL."""
        if "protection_uuid" in self.kwargs:
            self.protection = get_protection(self, queries.list_protections(self.repo))

    @operation(Level.READ, response=ProtectionRecord)
    def list(self) -> Response:
        """List a repository's branch protections, oldest first."""
        page = self.paginate(queries.list_protections(self.repo))
        return self.get_paginated_response(protection_records(self.repo, page))

    @operation(
        Level.ADMIN,
        request=CreateProtection,
        response=ProtectionRecord,
        status=201,
        errors=(*OF_REPORTERS, "protection_exists", "too_many_protections"),
    )
    def create(self) -> dict[str, Any]:
        """Protect a branch, or all branches that match a pattern.

        In `branch`, `*` matches anything but `/`. The branch need not exist: a push may create it,
        and from then on it changes only by merging. `required_approvals` is 1 by default.
        """
        protection = actions.create_protection(access=self.access, **self.validated_data)
        prefetch_related_objects([protection], "approvers")
        return self.record(protection)

    @operation(Level.READ, response=ProtectionRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a branch protection."""
        return self.record(self.protection)

    @operation(
        Level.ADMIN,
        request=UpdateProtection,
        response=ProtectionRecord,
        errors=(*OF_REPORTERS, "protection_exists"),
    )
    def update(self) -> dict[str, Any]:
        """Change the pattern or the settings of a branch protection."""
        actions.update_protection(
            access=self.access, protection=self.protection, **self.validated_data
        )
        return self.record(self.protection)

    @operation(Level.ADMIN, status=204)
    def destroy(self) -> None:
        """Remove a branch protection."""
        actions.delete_protection(access=self.access, protection=self.protection)

    def record(self, protection: Protection) -> dict[str, Any]:
        return protection_records(self.repo, [protection])[0]


class ApproverViewSet(RepoScoped):
    """/{owner}/repos/{repo_slug}/protections/{protection_uuid}/approvers"""

    schema_tags = ["protections"]
    lookup_url_kwarg = "user_uuid"
    lookup_value_converter = "uid"
    protection: Protection
    approver: Approver

    def load_objects(self) -> None:
        """Load the protection and its approver."""
        self.protection = get_protection(self, self.repo.protections.all())
        if "user_uuid" in self.kwargs:
            approvers = queries.list_approvers(self.protection)
            self.approver = get_or_missing(
                approvers, "approver", "this protection", user__uuid=self.kwargs["user_uuid"]
            )
            self.approver.protection = self.protection

    @operation(Level.READ, response=ApproverRecord)
    def list(self) -> Response:
        """List the approvers, oldest first. With none, everybody with write access may approve."""
        return self.page_of(queries.list_approvers(self.protection), approver_record)

    @operation(
        Level.ADMIN,
        request=AddApprover,
        response=ApproverRecord,
        status=201,
        errors=(*OF_REPORTERS, "approver_exists"),
    )
    def create(self) -> dict[str, Any]:
        """Add an approver, who must be able to read the repository."""
        user = named_user(self.validated_data["username"])
        approver = actions.add_approver(access=self.access, protection=self.protection, user=user)
        return approver_record(approver)

    @operation(Level.ADMIN, status=204)
    def destroy(self) -> None:
        """Remove an approver."""
        actions.remove_approver(access=self.access, approver=self.approver)


def fork_records(forks: Sequence[Fork], principal: Principal) -> list[dict[str, Any]]:
    """The records of forks. One query finds the repositories that the caller may read."""
    ids = [pk for fork in forks for pk in (fork.upstream_id, fork.repo_id)]
    paths = Repo.objects.paths_known_to(principal, ids)
    return [fork_record(fork, paths) for fork in forks]


def one_record(fork: Fork | None, principal: Principal) -> dict[str, Any]:
    """The record of a fork; 404 for None."""
    if fork is None:
        raise Http404
    return fork_records([fork], principal)[0]


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
        """Load the fork, for its creator and for readers of its upstream or of its copy; 403."""
        forks = Fork.objects.with_paths()
        self.fork = get_or_missing(forks, "fork", uuid=self.kwargs["fork_uuid"])
        ids = [self.fork.upstream_id, self.fork.repo_id]
        self.paths = Repo.objects.paths_known_to(self.principal, ids)
        if self.paths:
            return
        is_own = self.fork.created_by_id == self.principal.user.pk
        if not is_own and not Repo.objects.paths_known_to(self.principal.unlimited, ids):
            raise Forbidden("forbidden", "You have no access to this fork.")
        self.principal.check_permission(Permission.READ)

    @operation(Level.NONE, takes_limited=True, response=ForkRecord, errors=("forbidden",))
    def retrieve(self) -> dict[str, Any]:
        """Read a fork. Poll this until its status is `completed` or `failed`."""
        return fork_record(self.fork, self.paths)


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
        permission=Permission.WRITE,
        response=ForkRecord,
        status=201,
        query=ForkQuery,
        errors=(
            "fork_exists",
            "person_required",
            "quota_reached",
            "role_required",
            "team_inactive",
        ),
    )
    def create(self) -> dict[str, Any]:
        """Fork a repository. The copy is made later: poll `/forks/{fork_uuid}`."""
        self.access.check_writable()  # before the 404 and 403 of the space
        fork = actions.create_fork(access=self.access, into=self.open_space())
        return one_record(fork, self.principal)

    def open_space(self) -> OwnerAccess:
        """Access to the space of the fork; 403, 404."""
        slug = self.validated_query.get("team_slug")
        if slug is None:
            return access_to_user(self.principal, self.principal.user)
        return open_team(self.principal, slug.lower(), needs=Level.WRITE, writing=True)

    def check_again(self, stored: Any) -> None:
        super().check_again(stored)
        self.open_space()


class ForkOfRepoViewSet(RepoScoped):
    """…/repos/{repo_slug}/fork"""

    schema_tags = ["forks"]

    @operation(Level.READ, response=ForkRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read the fork that made this repository; 404 if it is not a fork."""
        fork = Fork.objects.with_paths().filter(repo=self.repo).first()
        return one_record(fork, self.principal)


class ForkOfUserViewSet(RepoScoped):
    """…/repos/{repo_slug}/forks/user/{fork_username}"""

    schema_tags = ["forks"]
    lookup_url_kwarg = "fork_username"
    lookup_value_converter = "username"

    @operation(Level.READ, response=ForkRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a user's fork of this repository: the one that did not fail, else the latest."""
        fork = self.repo.forks.of_owner(owner_user__username_key=self.kwargs["fork_username"])
        return one_record(fork, self.principal)


class ForkOfTeamViewSet(RepoScoped):
    """…/repos/{repo_slug}/forks/team/{fork_team_slug}"""

    schema_tags = ["forks"]
    lookup_url_kwarg = "fork_team_slug"
    lookup_value_converter = "team_slug"

    @operation(Level.READ, response=ForkRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a team's fork of this repository: the one that did not fail, else the latest."""
        fork = self.repo.forks.of_owner(owner_team__slug=self.kwargs["fork_team_slug"])
        return one_record(fork, self.principal)

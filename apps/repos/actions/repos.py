"""Making and changing repositories."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.accounts.rules import check_staff
from apps.core.changes import given, set_changed
from apps.core.errors import Conflict, Invalid
from apps.core.json import quoted
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.repos.access import access_to
from apps.repos.models import RANK, FormerRepoSlug, Repo, Visibility

if TYPE_CHECKING:
    from apps.teams.models import Team


@transaction.atomic
def create_repo(
    *,
    actor: User,
    owner: Team | User,
    name: str,
    slug: str,
    description: str | None = None,
    visibility: str = Visibility.PRIVATE,
) -> Repo:
    """Make a repository, its row and its empty git store. 409 `slug_taken`.

    The store is made inside the transaction: should the commit fail, an empty folder with a
    random name is left, which nothing refers to.
    """
    owned = {"owner_user": owner} if isinstance(owner, User) else {"owner_team": owner}
    try:
        with transaction.atomic():
            repo = Repo.objects.create(
                name=name, slug=slug, description=description, visibility=visibility, **owned
            )
    except IntegrityError:
        raise _slug_taken(slug) from None
    repo.take_slug()
    repo.git.create(repo.default_branch)
    record(Kind.REPO_CREATED, actor=actor, about=repo)
    return repo


@transaction.atomic
def update_repo(
    *,
    actor: User,
    repo: Repo,
    name: str,
    slug: str,
    description: str | EllipsisType | None = ...,
    visibility: str | None = None,
) -> None:
    """Change what people see of a repository; what is not given stays. Locks it.

    The slug it had leads to it until another takes it. 409 `slug_taken`,
    422 for a fork that would be more visible than its upstream.
    """
    lock(repo)
    if visibility is not None:
        _check_visibility(repo, visibility)
    wanted = given(name=name, slug=slug)
    if description is not ...:
        wanted["description"] = description
    former = repo.slug
    changed = set_changed(repo, wanted | given(visibility=visibility))
    if not changed:
        return
    repo.updated_at = timezone.now()
    try:
        with transaction.atomic():
            repo.save(update_fields=[*changed, "updated_at"])
    except IntegrityError:
        raise _slug_taken(slug) from None
    if slug != former:
        repo.take_slug()
        FormerRepoSlug.objects.create(repo=repo, slug=former)
    record(Kind.REPO_UPDATED, actor=actor, about=repo, data={"changed": changed})


@transaction.atomic
def set_archived(*, actor: User, repo: Repo, archived: bool) -> None:
    """Close a repository to changes and pushes, or open it again. Locks it. 403 `staff_required`.

    What is so already is no change, and no event.
    """
    check_staff(actor)
    lock(repo)
    if repo.is_archived == archived:
        return
    repo.is_archived, repo.updated_at = archived, timezone.now()
    repo.save(update_fields=["is_archived", "updated_at"])
    record(Kind.REPO_UPDATED, actor=actor, about=repo, data={"changed": ["is_archived"]})


@transaction.atomic
def set_default_branch(*, actor: User, repo: Repo, branch: str) -> None:
    """Choose what a clone checks out; git's HEAD follows. Locks the repository.

    Errors: 409 `repo_archived`, 422 for a branch that is not there. Should the commit fail after
    git was told, HEAD names a branch that exists, and choosing again puts both right.
    """
    lock(repo)
    access_to(Principal(actor), repo).check_writable()
    if repo.branch_sha(branch) is None:
        raise Invalid("validation_failed", f"default_branch: There is no branch {quoted(branch)}.")
    if repo.default_branch == branch:
        return
    repo.default_branch, repo.updated_at = branch, timezone.now()
    repo.save(update_fields=["default_branch", "updated_at"])
    repo.git.set_head_branch(branch)
    record(Kind.REPO_UPDATED, actor=actor, about=repo, data={"changed": ["default_branch"]})


def _check_visibility(repo: Repo, visibility: str) -> None:
    """A fork shows no more people what its upstream hides from them."""
    upstream = repo.upstream
    widened = RANK[Visibility(visibility)] > RANK[Visibility(repo.visibility)]
    if (
        upstream
        and widened
        and RANK[Visibility(visibility)] > RANK[Visibility(upstream.visibility)]
    ):
        raise Invalid(
            "validation_failed",
            f"visibility: A fork may not be more visible than its upstream: {upstream.visibility}.",
        )


def _slug_taken(slug: str) -> Conflict:
    return Conflict("slug_taken", f'The repository slug "{slug}" is taken here.')

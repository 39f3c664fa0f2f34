"""Actions on repositories: create and update."""

from __future__ import annotations

from types import EllipsisType
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.core.access import Level
from apps.core.changes import ChangeReport, differing, given, set_changed
from apps.core.errors import Conflict
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind
from apps.events.record import record
from apps.repos.access import OwnerAccess, RepoAccess
from apps.repos.head import point_head_on_commit
from apps.repos.models import FormerRepoSlug, Repo, Visibility
from apps.repos.rules import check_default_branch
from apps.repos.visibility import check_visibility, hide, lock_with_forks

PUBLIC = ("name", "slug", "description", "visibility", "is_archived", "default_branch")
"""Fields that an event may contain: all of them are visible to readers of the repository."""


@final_transaction
def create_repo(
    *,
    by: OwnerAccess,
    name: str,
    slug: str,
    description: str | None = None,
    visibility: str = Visibility.PRIVATE,
) -> Repo:
    """Create a repository, its row and its empty folder, in a space with write access.

    Errors: those of `check_open` and `require_change`, 409 `slug_taken`. The folder is created
    inside the transaction. If the commit fails, an empty folder is left, which the worker removes.
    """
    by.check_open(writing=True)
    by.require_change(Level.WRITE)
    try:
        with transaction.atomic():
            repo = by.owner.repos.create(
                name=name, slug=slug, description=description, visibility=visibility
            )
    except IntegrityError:
        raise _slug_taken(slug) from None
    repo.take_slug()
    repo.git.create(repo.default_branch)
    record(Kind.REPO_CREATED, actor=by.user, about=repo)
    return repo


@transaction.atomic
def update_repo(
    *,
    by: RepoAccess,
    name: str | None = None,
    slug: str | None = None,
    description: str | EllipsisType | None = ...,
    visibility: str | None = None,
    is_archived: bool | None = None,
    default_branch: str | None = None,
) -> None:
    """Change a repository's properties, for its admins. Arguments that are None change nothing.

    The former slug leads to the repository until another one takes it. All forks below become at
    most as visible as the repository, with a `repo-updated` event each. git's HEAD follows the
    default branch. Errors: 401, 403, 409 `repo_archived` (see `_check_accepts`), 409 `slug_taken`,
    422 for a fork that would be more visible than its upstream, 422 for a default branch that does
    not exist. Locks the more visible forks, the repository, and its upstream if the repository
    becomes more visible.
    """
    by.principal.check_may_change()
    by.require(Level.ADMIN)
    repo, forks = by.repo, lock_with_forks(by, visibility)
    values = given(name=name, slug=slug, visibility=visibility, is_archived=is_archived)
    values |= given(default_branch=default_branch)
    if description is not ...:
        values["description"] = description
    changed = differing(repo, values)
    _check_accepts(by, changed, is_archived)
    if not changed:
        return
    _check_values(repo, values, changed)
    changes = [ChangeReport(repo, *PUBLIC), *(ChangeReport(fork, "visibility") for fork in forks)]
    _save(repo, values)
    hide(forks, repo.visibility)
    record(Kind.REPO_UPDATED, actor=by.user, about=repo, data=changes[0].data(changed))
    for fork, fork_changes in zip(forks, changes[1:], strict=True):
        record(Kind.REPO_UPDATED, actor=by.user, about=fork, data=fork_changes.data(["visibility"]))


def _check_accepts(by: RepoAccess, changed: list[str], is_archived: bool | None) -> None:
    """403 if the owner is inactive, 409 `repo_archived` if the repository is archived.

    A request that opens an archived repository may also change it. Archiving it again is no change
    and no error. The caller has locked the repository.
    """
    stays_archived = is_archived is True and not changed
    if is_archived is False or stays_archived:
        by.check_open(writing=True)
    else:
        by.check_writable()


def _check_values(repo: Repo, values: dict[str, Any], changed: list[str]) -> None:
    """422 for a visibility or a default branch that the repository cannot have. Locks the upstream
    if the repository becomes more visible.
    """
    if "visibility" in changed:
        check_visibility(repo, values["visibility"])
    if "default_branch" in changed:
        check_default_branch(repo, values["default_branch"])


def _save(repo: Repo, values: dict[str, Any]) -> None:
    """Store the changes; 409 `slug_taken`."""
    former = repo.slug
    changed = set_changed(repo, values)
    if "default_branch" in changed:
        point_head_on_commit(repo)
    repo.updated_at = timezone.now()
    try:
        with transaction.atomic():
            repo.save(update_fields=[*changed, "head_due", "updated_at"])
    except IntegrityError:
        raise _slug_taken(repo.slug) from None
    if repo.slug != former:
        repo.take_slug()
        FormerRepoSlug.objects.create(repo=repo, slug=former)


def _slug_taken(slug: str) -> Conflict:
    return Conflict("slug_taken", f'The repository slug "{slug}" is taken here.')

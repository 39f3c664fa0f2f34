"""Making and changing repositories."""

from __future__ import annotations

from types import EllipsisType
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.core.access import Level
from apps.core.changes import Told, differing, given, set_changed
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
"""What an event may tell of a repository: all that its readers see of it."""


@final_transaction
def create_repo(
    *,
    by: OwnerAccess,
    name: str,
    slug: str,
    description: str | None = None,
    visibility: str = Visibility.PRIVATE,
) -> Repo:
    """Make a repository, its row and its empty git store, where one may write.

    Errors: those of `check_open` and `require_change`, 409 `slug_taken`. The store is made inside
    the transaction: should the commit fail, an empty folder with a random name is left, which
    nothing refers to.
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
    """Change what people see of a repository; what is not given stays. Its admins may.

    The slug it had leads to it until another takes it. Forks become no more visible than it, all
    the way down, with a `repo-updated` each. git's HEAD follows the default branch. Errors: 401,
    403, 409 `repo_archived` (see `_check_takes`), 409 `slug_taken`, 422 for a fork that would be
    more visible than its upstream, 422 for a default branch that is not there. Locks the forks
    that are more visible, then the repository, then its upstream where it becomes more visible.
    """
    by.principal.check_may_change()
    by.require(Level.ADMIN)
    repo, forks = by.repo, lock_with_forks(by, visibility)
    wanted = given(name=name, slug=slug, visibility=visibility, is_archived=is_archived)
    wanted |= given(default_branch=default_branch)
    if description is not ...:
        wanted["description"] = description
    changed = differing(repo, wanted)
    _check_takes(by, changed, is_archived)
    if not changed:
        return
    _check_values(repo, wanted, changed)
    told = [Told(repo, *PUBLIC), *(Told(fork, "visibility") for fork in forks)]
    _save(repo, wanted)
    hide(forks, repo.visibility)
    record(Kind.REPO_UPDATED, actor=by.user, about=repo, data=told[0].data(changed))
    for fork, of_fork in zip(forks, told[1:], strict=True):
        record(Kind.REPO_UPDATED, actor=by.user, about=fork, data=of_fork.data(["visibility"]))


def _check_takes(by: RepoAccess, changed: list[str], is_archived: bool | None) -> None:
    """Whether the repository takes these changes now: 403 `team_inactive`, 409 `repo_archived`.

    An archived one can be opened, and changed by the same request. To archive it again is no
    change. The caller has locked it.
    """
    stays_archived = is_archived is True and not changed
    if is_archived is False or stays_archived:
        by.check_open(writing=True)
    else:
        by.check_writable()


def _check_values(repo: Repo, wanted: dict[str, Any], changed: list[str]) -> None:
    """422 for a visibility or a default branch that it cannot have. Locks its upstream where it
    becomes more visible.
    """
    if "visibility" in changed:
        check_visibility(repo, wanted["visibility"])
    if "default_branch" in changed:
        check_default_branch(repo, wanted["default_branch"])


def _save(repo: Repo, wanted: dict[str, Any]) -> None:
    """Store the changes; 409 `slug_taken`."""
    former = repo.slug
    changed = set_changed(repo, wanted)
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

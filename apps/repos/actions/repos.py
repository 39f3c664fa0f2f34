"""Making and changing repositories."""

from __future__ import annotations

from types import EllipsisType

from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.core.access import Level
from apps.core.changes import given, set_changed
from apps.core.errors import Conflict, Invalid
from apps.core.json import quoted
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.repos.access import OwnerAccess, RepoAccess
from apps.repos.models import FormerRepoSlug, Repo, Visibility
from apps.repos.visibility import check_visibility, hide, lock_with_forks


@transaction.atomic
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
    name: str,
    slug: str,
    description: str | EllipsisType | None = ...,
    visibility: str | None = None,
) -> None:
    """Change what people see of a repository; what is not given stays. Its admins may.

    The slug it had leads to it until another takes it. Forks become no more visible than it, all
    the way down, with a `repo-updated` each. Errors: those of `require_change`, 409 `slug_taken`,
    422 for a fork that would be more visible than its upstream. Locks the forks that are more
    visible, then the repository, then its upstream where it becomes more visible.
    """
    by.require_change(Level.ADMIN)
    repo, forks = by.repo, lock_with_forks(by, visibility)
    if visibility is not None:
        check_visibility(repo, visibility)
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
    hide(forks, repo.visibility)
    record(Kind.REPO_UPDATED, actor=by.user, about=repo, data={"changed": changed})
    for fork in forks:
        record(Kind.REPO_UPDATED, actor=by.user, about=fork, data={"changed": ["visibility"]})


@transaction.atomic
def set_archived(*, by: RepoAccess, archived: bool) -> None:
    """Close a repository to changes and pushes, or open it again. Locks it. 403 `staff_required`.

    What is so already is no change, and no event.
    """
    by.principal.check_may_change()
    by.principal.check_staff()
    repo = by.repo
    lock(repo)
    if repo.is_archived == archived:
        return
    repo.is_archived, repo.updated_at = archived, timezone.now()
    repo.save(update_fields=["is_archived", "updated_at"])
    record(Kind.REPO_UPDATED, actor=by.user, about=repo, data={"changed": ["is_archived"]})


@transaction.atomic
def set_default_branch(*, by: RepoAccess, branch: str) -> None:
    """Choose what a clone checks out; git's HEAD follows. Admins may. Locks the repository.

    Errors: those of `require_change`, 422 for a branch that is not there. Should the commit fail
    after git was told, HEAD names a branch that exists, and choosing again puts both right.
    """
    by.require_change(Level.ADMIN)
    repo = by.locked()
    if repo.branch_sha(branch) is None:
        raise Invalid("validation_failed", f"default_branch: There is no branch {quoted(branch)}.")
    if repo.default_branch == branch:
        return
    repo.default_branch, repo.updated_at = branch, timezone.now()
    repo.save(update_fields=["default_branch", "updated_at"])
    repo.git.set_head_branch(branch)
    record(Kind.REPO_UPDATED, actor=by.user, about=repo, data={"changed": ["default_branch"]})


def _slug_taken(slug: str) -> Conflict:
    return Conflict("slug_taken", f'The repository slug "{slug}" is taken here.')

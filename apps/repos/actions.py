"""Actions on repositories, forks, protections and approvers.

Each is one transaction with one change and its event. Changes of protections lock the repository,
like the acceptance of a push and like a merge.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import EllipsisType
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from apps.accounts.models import Deletion, User
from apps.accounts.principal import Principal
from apps.accounts.rules import check_confirmed, check_no_bot
from apps.core.access import Level, Permission
from apps.core.availability import REPO_SLUGS
from apps.core.changes import ChangeReport, differing, given, set_changed
from apps.core.errors import ApiError, Conflict, Forbidden, Invalid, unavailable
from apps.core.locks import lock
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind
from apps.events.record import Change, Deleted, Keys, record, record_all
from apps.git.repo import GitRepo
from apps.git.store import bytes_in
from apps.repos import rules
from apps.repos.access import OwnerAccess, RepoAccess, access_to, access_to_owner
from apps.repos.auto_merge import auto_merges
from apps.repos.models import (
    BRANCHES,
    MOST_PROTECTIONS,
    RANK,
    TIP_COLUMNS,
    Approver,
    Fork,
    ForkStatus,
    FormerRepoSlug,
    Protection,
    Ref,
    Repo,
    Visibility,
)
from apps.repos.protection_rules import check_settings, defaults, settings_of
from apps.repos.pushes import point_head_on_commit
from apps.repos.quota import check_copy, check_import
from apps.repos.rules import check_default_branch
from apps.teams.models import Team

TRIES = 5
"""Most attempts to lock all forks, and to find a free slug, if others interfere each time."""
PUBLIC = ("name", "slug", "description", "visibility", "is_archived", "default_branch")
"""Fields that an event may contain: all of them are visible to readers of the repository."""


@contextmanager
def _unique_or(refusal: ApiError) -> Iterator[None]:
    """Raise this refusal if the rows that the block writes violate a constraint."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError:
        raise refusal from None


@final_transaction
def create_repo(
    *,
    access: OwnerAccess,
    name: str,
    slug: str,
    description: str | None = None,
    visibility: str = Visibility.PRIVATE,
) -> Repo:
    """Create a repository, its row and its empty folder, in a space with write access.

    Locks the owner. Errors: those of `check_open` and `require_change`, 409 `slug_taken`. The
    folder is created inside the transaction. If the commit fails, an empty folder is left, which
    the worker removes.
    """
    access.check_open(writing=True)
    access.require_change(Level.WRITE, Permission.ADMIN)
    lock(access.owner)  # it may not be deleted in the meantime
    with _unique_or(_slug_taken(slug)):
        repo = access.owner.repos.create(
            name=name, slug=slug, description=description, visibility=visibility
        )
    repo.take_slug()
    repo.git.create(repo.default_branch)
    record(Kind.REPO_CREATED, actor=access.user, about=repo)
    return repo


@transaction.atomic
def import_repo(
    *,
    owner: Team | User,
    values: dict[str, Any],
    made: GitRepo,
    source: str,
    fill: Callable[[Repo], None],
) -> Repo:
    """Add a repository from elsewhere: its row with these values, its folder `made`, and all rows
    that `fill` writes. `source`: the address that it had.

    For operators: nobody's access is checked. Locks the owner. Errors: 403 for an inactive owner,
    409 `slug_taken`, `quota_reached`, those of `fill`. The folder is moved inside the transaction.
    """
    lock(owner)
    if isinstance(owner, User):
        check_no_bot(owner, "owner")
    if not owner.is_active:
        raise Forbidden("owner_inactive", f"{owner.path} is deactivated.")
    size, refs = bytes_in(made.path), made.refs()
    check_import(size, owner)
    has_branches = any(name.startswith(BRANCHES) for name in refs)
    with _unique_or(_slug_taken(values["slug"])):
        repo = owner.repos.create(disk_bytes=size, is_empty=not has_branches, **values)
    repo.take_slug()
    made.path.rename(repo.git.path)  # OSError if the target exists
    moved_at = repo.pushed_at or repo.created_at
    rows = (Ref(repo=repo, full_name=name, sha=refs[name], updated_at=moved_at) for name in refs)
    Ref.objects.bulk_create(rows, batch_size=1000)
    fill(repo)
    record(Kind.REPO_IMPORTED, actor=None, about=repo, data={"source": source})
    return repo


@transaction.atomic
def update_repo(
    *,
    access: RepoAccess,
    name: str | None = None,
    slug: str | None = None,
    description: str | EllipsisType | None = ...,
    visibility: str | None = None,
    is_archived: bool | None = None,
    default_branch: str | None = None,
) -> None:
    """Change a repository's properties, for its admins. Arguments that are None change nothing.

    All forks below become at most as visible as the repository, with a `repo-updated` event each.
    Locks the more visible forks, the repository, and its upstream if it becomes more visible.
    Errors: 401, 403, 409 `repo_archived` (see `_check_accepts`), 409 `slug_taken`, 422 for a fork
    that would be more visible than its upstream or a default branch that does not exist.
    """
    access.principal.check_signed_in()
    access.require(Level.ADMIN)
    repo, forks = access.repo, _lock_with_forks(access, visibility)
    values = given(name=name, slug=slug, visibility=visibility, is_archived=is_archived)
    values |= given(default_branch=default_branch)
    if description is not ...:
        values["description"] = description
    changed = differing(repo, values)
    _check_accepts(access, changed, is_archived)
    if not changed:
        return
    if "visibility" in changed:
        _check_visibility(repo, values["visibility"])
    if "default_branch" in changed:
        check_default_branch(repo, values["default_branch"])
    changes = [ChangeReport(repo, *PUBLIC), *(ChangeReport(fork, "visibility") for fork in forks)]
    _save(repo, values)
    for fork in forks:
        fork.visibility, fork.updated_at = repo.visibility, timezone.now()
        fork.save(update_fields=["visibility", "updated_at"])
    record(Kind.REPO_UPDATED, actor=access.user, about=repo, data=changes[0].data(changed))
    for fork, hidden in zip(forks, changes[1:], strict=True):
        record(Kind.REPO_UPDATED, actor=access.user, about=fork, data=hidden.data(["visibility"]))


@transaction.atomic
def delete_repo(*, access: RepoAccess, confirm: str) -> Deletion:
    """Delete a repository, also an archived one, for its admins. `confirm` is its `full_name`.

    It is gone for everybody at once. Staff can restore it until the deletion's `purge_at`. Its
    address stays reserved until it is purged. Locks it. Errors: 401, 403, 404, 422.
    """
    access.principal.check_signed_in()
    access.require(Level.ADMIN)
    access.check_open(writing=True)
    repo = access.repo
    check_confirmed(repo.full_name, confirm)
    lock(repo)
    deletion = Deletion.begin(repo.path, access.user)
    Repo.objects.filter(pk=repo.pk).hide(deletion)
    keys = Keys(team=repo.owner_team_id, private_to=repo.owner_user_id, audit_repo=repo.pk)
    about, data = Deleted(repo, keys), deletion.event_data()
    record(Kind.REPO_DELETED, actor=access.user, about=about, data=data)
    return deletion


def _check_accepts(access: RepoAccess, changed: list[str], is_archived: bool | None) -> None:
    """403 if the owner is inactive, 409 `repo_archived` if the repository is archived.

    A request that opens an archived repository may also change it. Archiving it again is no change
    and no error. The caller has locked the repository.
    """
    if is_archived is False or (is_archived and not changed):
        access.check_open(writing=True)
    else:
        access.check_writable()


def _save(repo: Repo, values: dict[str, Any]) -> None:
    """Store the changes; 409 `slug_taken`."""
    former = repo.slug
    changed = set_changed(repo, values)
    if "default_branch" in changed:
        point_head_on_commit(repo)
    repo.updated_at = timezone.now()
    with _unique_or(_slug_taken(repo.slug)):
        repo.save(update_fields=[*changed, "head_due", "updated_at"])
    if repo.slug != former:
        repo.take_slug()
        FormerRepoSlug.objects.create(repo=repo, slug=former)


def _slug_taken(slug: str) -> Conflict:
    text = f'The repository slug "{slug}" is taken here, perhaps by one that was deleted recently.'
    return Conflict("slug_taken", text)


@final_transaction
def create_fork(*, access: RepoAccess, into: OwnerAccess) -> Fork:
    """Request a copy of a readable repository into a space with write access.

    The worker makes the copy, and checks both accesses again. Errors: those of `require_change`,
    403 `person_required` for a bot, 409 `fork_exists` if the owner has a fork that has not failed,
    409 `quota_reached`. The event is recorded when the fork completes or fails.
    """
    access.require_change(Level.READ)
    access.principal.check_person()
    into.check_open(writing=True)
    into.require_change(Level.WRITE)
    check_copy(access.repo, into.owner)
    with _unique_or(Conflict("fork_exists", f"{into.name} already has a fork of this.")):
        fork: Fork = into.owner.forks.create(upstream=access.repo, created_by=access.user)
    return fork


@transaction.atomic
def complete_fork(*, actor: User, fork: Fork, token: uuid.UUID, copied: GitRepo) -> bool:
    """Turn a finished copy into a repository. Locks its owner, the upstream, then the fork.

    Returns False if the lease is lost: another worker has the fork. Errors: 403 if the creator may
    no longer read the upstream or write to the owner's space, 422 for an inactive account.
    """
    lock(fork.owner)
    lock(fork.upstream)
    lock(fork)
    if not fork.is_held(token):
        return False
    _check_still_allowed(fork)
    repo = _insert(fork, copied)
    repo.take_slug()
    copied.path.rename(repo.git.path)  # OSError if the target exists
    _store_heads(repo, fork.upstream)
    Repo.objects.filter(pk=fork.upstream_id).update(fork_count=F("fork_count") + 1)
    fork.repo, fork.status, fork.completed_at = repo, ForkStatus.COMPLETED, timezone.now()
    fork.lease_token = fork.lease_until = None
    fork.save()
    record(Kind.FORK_CREATED, actor=actor, about=fork)
    return True


@transaction.atomic
def fail_fork(*, actor: User, fork: Fork, token: uuid.UUID, reason: str) -> None:
    """Mark a fork as failed unless its lease is lost; `reason` is a sentence for its creator."""
    lock(fork)
    if not fork.is_held(token):
        return
    fork.status, fork.error, fork.completed_at = ForkStatus.FAILED, reason, timezone.now()
    fork.lease_token = fork.lease_until = None
    fork.save()
    record(Kind.FORK_FAILED, actor=actor, about=fork, data={"error": reason})


def _store_heads(repo: Repo, upstream: Repo) -> None:
    """Store the copied heads with their tips, and with `pushed_by`, because pushers cannot approve
    their commits in pulls. The worker reads the tips of heads that moved during the copy.
    """
    columns = ("pushed_by_id", *TIP_COLUMNS)
    rows = upstream.refs.values_list("full_name", "sha", *columns)
    stored = {(name, sha): dict(zip(columns, others, strict=True)) for name, sha, *others in rows}
    Ref.objects.bulk_create(
        Ref(repo=repo, full_name=name, sha=sha, **stored.get((name, sha), {}))
        for name, sha in repo.git.refs().items()
    )


def _check_still_allowed(fork: Fork) -> None:
    """Check the creator's access again, because copying may have taken minutes."""
    fork = Fork.objects.with_paths().get(pk=fork.pk)
    if not fork.created_by.is_active:
        raise Invalid("validation_failed", "The account that asked for the fork is not active.")
    principal = Principal(fork.created_by)
    upstream = access_to(principal, fork.upstream)
    upstream.check_open(writing=False)
    upstream.require(Level.READ)
    space = access_to_owner(principal, fork.owner)
    space.check_open(writing=True)
    space.require(Level.WRITE)
    check_copy(fork.upstream, fork.owner)


def _insert(fork: Fork, copied: GitRepo) -> Repo:
    """Insert the copy's row, with the upstream's slug or a free one like it."""
    upstream = fork.upstream
    repos = fork.owner.repos
    names = REPO_SLUGS.candidates(upstream.slug)
    for _ in range(TRIES):
        taken = repos.taken(names)
        free = next(name for name in names if name not in taken)
        try:
            with transaction.atomic():
                return repos.create(
                    uuid=fork.repo_uuid,
                    upstream=upstream,
                    slug=free,
                    name=upstream.name,
                    description=upstream.description,
                    visibility=upstream.visibility,
                    default_branch=copied.head_branch(),
                    is_empty=not any(name.startswith(BRANCHES) for name in copied.refs()),
                    pushed_at=upstream.pushed_at,
                    disk_bytes=bytes_in(copied.path),
                )
        except IntegrityError:
            continue
    raise ApiError("slug_taken", f'No slug like "{upstream.slug}" is free.')


@final_transaction
def create_protection(
    *,
    access: RepoAccess,
    branch: str,
    required_approvals: int | None = None,
    required_statuses: Sequence[str] | None = None,
    status_reporters: Sequence[str] | None = None,
    resolved_required: bool | None = None,
) -> Protection:
    """Protect a branch, or a glob of branches, from pushes. Locks the repository.

    Settings that are None get their defaults. Errors: 409 `protection_exists` for the same pattern,
    409 `too_many_protections`, 422 as in `_checked`.
    """
    access.require_change(Level.ADMIN)
    settings = _checked(
        access,
        required_approvals=required_approvals,
        required_statuses=required_statuses,
        status_reporters=status_reporters,
        resolved_required=resolved_required,
    )
    repo = access.locked()
    if repo.protections.count() >= MOST_PROTECTIONS:
        text = f"A repository may have {MOST_PROTECTIONS} protections. Use a pattern with *."
        raise Conflict("too_many_protections", text)
    protection = Protection(
        repo=repo, branch=branch, created_by=access.user, **defaults() | settings
    )
    with _unique_or(_exists(branch)):
        protection.save(force_insert=True)
    data = _protection_data(protection)
    _record_rules(Change(Kind.PROTECTION_CREATED, access.user, protection, data), access, branch)
    return protection


@transaction.atomic
def update_protection(
    *,
    access: RepoAccess,
    protection: Protection,
    branch: str | None = None,
    required_approvals: int | None = None,
    required_statuses: Sequence[str] | None = None,
    status_reporters: Sequence[str] | None = None,
    resolved_required: bool | None = None,
) -> None:
    """Change a protection. Locks repository and protection. 409 `protection_exists`, 422."""
    access.require_change(Level.ADMIN)
    _lock(access, protection)
    settings = _checked(
        access,
        protection.status_reporters,
        required_approvals=required_approvals,
        required_statuses=required_statuses,
        status_reporters=status_reporters,
        resolved_required=resolved_required,
    )
    before = _protection_data(protection)
    values = given(branch=branch, **settings)
    changed = set_changed(protection, values)
    if not changed:
        return
    protection.updated_at = timezone.now()
    with _unique_or(_exists(protection.branch)):
        protection.save(update_fields=[*changed, "updated_at"])
    data = {**_protection_data(protection), "before": before, "changed": changed}
    change = Change(Kind.PROTECTION_UPDATED, access.user, protection, data)
    _record_rules(change, access, before["branch"], protection.branch)


@transaction.atomic
def delete_protection(*, access: RepoAccess, protection: Protection) -> None:
    """Remove a protection. Locks the repository, then the protection."""
    access.require_change(Level.ADMIN)
    _lock(access, protection)
    Protection.objects.filter(pk=protection.pk).delete()
    change = Change(Kind.PROTECTION_DELETED, access.user, protection, _protection_data(protection))
    _record_rules(change, access, protection.branch)


@final_transaction
def add_approver(*, access: RepoAccess, protection: Protection, user: User) -> Approver:
    """Add an approver. Locks the repository, then the protection.

    Errors: 422 `approver_lacks_access`, 422 for a bot or an inactive account, 409
    `approver_exists`.
    """
    access.require_change(Level.ADMIN)
    _lock(access, protection)
    rules.check_may_approve(access.repo, user)
    with _unique_or(Conflict("approver_exists", f"{user.username} is already an approver.")):
        approver = Approver.objects.create(protection=protection, user=user, added_by=access.user)
    change = Change(Kind.APPROVER_ADDED, access.user, approver, _approver_data(approver))
    _record_rules(change, access, protection.branch)
    return approver


@transaction.atomic
def remove_approver(*, access: RepoAccess, approver: Approver) -> None:
    """Remove an approver. Locks the repository, the protection, then the approver."""
    access.require_change(Level.ADMIN)
    _lock(access, approver.protection)
    lock(approver)
    Approver.objects.filter(pk=approver.pk).delete()
    change = Change(Kind.APPROVER_REMOVED, access.user, approver, _approver_data(approver))
    _record_rules(change, access, approver.protection.branch)


def _record_rules(change: Change, access: RepoAccess, *patterns: str) -> None:
    """Record a change of the rules of these branches, and the auto-merges that it ends."""
    record_all([change, *auto_merges().end_under(access.repo, patterns, access.user)])


def _lock(access: RepoAccess, protection: Protection) -> None:
    access.check_holds(protection)
    access.locked()
    lock(protection)


def _checked(access: RepoAccess, reporters: Collection[str] = (), **values: Any) -> dict[str, Any]:
    """The given settings of a protection that has these reporters.

    Errors: 422 as in `check_settings`; `user_not_found` and `approver_lacks_access` for new
    reporters.
    """
    settings = given(**values)
    check_settings(settings)
    if names := settings.get("status_reporters"):
        settings["status_reporters"] = rules.reporters_named(access.repo, names, reporters)
    return settings


def _protection_data(protection: Protection) -> dict[str, Any]:
    return {"branch": protection.branch, **settings_of(protection)}


def _approver_data(approver: Approver) -> dict[str, Any]:
    return {"username": approver.user.username, "branch": approver.protection.branch}


def _exists(branch: str) -> Conflict:
    return Conflict("protection_exists", f'"{branch}" is already protected.')


def _check_visibility(repo: Repo, visibility: str) -> None:
    """422 for a fork that would become more visible than its upstream. Locks the upstream."""
    if RANK[visibility] <= RANK[repo.visibility] or repo.upstream is None:
        return
    lock(repo.upstream, even_deleted=True)
    if RANK[visibility] > RANK[repo.upstream.visibility]:
        text = "A fork may not be more visible than its upstream"
        raise Invalid("validation_failed", f"visibility: {text}: {repo.upstream.visibility}.")


def _lock_with_forks(access: RepoAccess, visibility: str | None) -> list[Repo]:
    """Lock the forks that must be hidden too, and then the repository; return the forks, deepest
    first. 503 if new forks keep appearing. The caller checks whether the repository may be changed.

    Forks are locked first, as by a push to a fork with a pull, but can be found only while the
    repository is locked. Therefore its lock is released and all locks are taken again, until no new
    fork is found. Then none can be added: creating a fork, or making one more visible, locks its
    upstream.
    """
    forks: list[Repo] = []
    for _ in range(TRIES):
        point = transaction.savepoint()
        for fork in forks:
            lock(fork, even_deleted=True)
        repo = access.repo
        lock(repo)
        if visibility is None or RANK[visibility] >= RANK[repo.visibility]:
            return []
        current, above = list[Repo](), [repo]
        while above := list(Repo.objects.filter(upstream__in=above).order_by("-pk")):
            current += above
        current = [fork for fork in current[::-1] if RANK[fork.visibility] > RANK[visibility]]
        if {fork.pk for fork in current} <= {fork.pk for fork in forks}:
            return current
        transaction.savepoint_rollback(point)
        forks = current
    raise unavailable()

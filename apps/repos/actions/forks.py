"""Actions on forks: create, complete, fail."""

from __future__ import annotations

import uuid

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.availability import REPO_SLUGS
from apps.core.errors import ApiError, Conflict, Invalid
from apps.core.locks import lock
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind
from apps.events.record import record
from apps.git.repo import GitRepo
from apps.git.store import bytes_in
from apps.repos.access import OwnerAccess, RepoAccess, access_to, access_to_owner
from apps.repos.models import BRANCHES, Fork, ForkStatus, Ref, Repo
from apps.repos.quota import check_copy
from apps.repos.tips import TIP_COLUMNS

TRIES = 5
"""Most attempts to find a free slug, if others keep taking it."""


@final_transaction
def create_fork(*, by: RepoAccess, into: OwnerAccess) -> Fork:
    """Request a copy of a readable repository into a space with write access.

    The worker makes the copy, and checks both accesses again. Errors: those of `require_change`,
    409 `fork_exists` if the owner has a fork that has not failed, 409 `quota_reached`. The event is
    recorded when the fork completes or fails.
    """
    by.require_change(Level.READ)
    into.check_open(writing=True)
    into.require_change(Level.WRITE)
    check_copy(by.repo, into.owner)
    try:
        with transaction.atomic():
            return into.owner.forks.create(upstream=by.repo, created_by=by.user)
    except IntegrityError:
        raise Conflict("fork_exists", f"{into.name} already has a fork of this.") from None


@transaction.atomic
def complete_fork(*, actor: User, fork: Fork, token: uuid.UUID, copied: GitRepo) -> bool:
    """Turn a finished copy into a repository. Locks the upstream, then the fork.

    Returns False if the lease is lost: another worker has the fork. Errors: 403 if the creator may
    no longer read the upstream or write to the owner's space, 422 for an inactive account.
    """
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
    """Mark a fork as failed; `reason` is a sentence for its creator. Locks the fork.

    Does nothing if the lease is lost.
    """
    lock(fork)
    if not fork.is_held(token):
        return
    fork.status, fork.error, fork.completed_at = ForkStatus.FAILED, reason, timezone.now()
    fork.lease_token = fork.lease_until = None
    fork.save()
    record(Kind.FORK_FAILED, actor=actor, about=fork, data={"error": reason})


def _store_heads(repo: Repo, upstream: Repo) -> None:
    """Store the copied heads with `pushed_by`, because pushers cannot approve their commits in
    pulls.

    The tips are copied too. The worker reads those of heads that moved during the copy.
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

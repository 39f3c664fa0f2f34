"""The actions on the source branch of a pull: merge the target into it, delete it, restore it.

Each is a push by the caller (`apps/repos/branches.py`), in this repository or in a fork.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import DatabaseError
from django.db.models import Q
from django.http import Http404
from django.utils import timezone

from apps.core.access import Level
from apps.core.errors import ApiError, Conflict, NotFound, as_api_error, git_failed, plain_error
from apps.core.locks import lock
from apps.git import cache
from apps.git.merge import Built, NothingToMerge, Strategy, build
from apps.git.run import GitError
from apps.pulls import rules
from apps.pulls.heads import access_to_source, fetch_into_source
from apps.pulls.models import IS_ACTIVE, Pull
from apps.repos.access import RepoAccess
from apps.repos.branches import move_branch
from apps.repos.models import Ref, Repo
from apps.repos.rules import ZERO

GONE = {"not_found", "branch_missing"}
"""The codes of refusals to delete a branch that has been deleted already."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceDeletion:
    """The outcome of deleting the source branch after a merge. `error`: the refusal; None if the
    branch is deleted.
    """

    error: ApiError | None = None


def update_branch(*, access: RepoAccess, pull: Pull, expected_head_sha: str | None = None) -> None:
    """Merge the target of an open or draft pull into its source branch, by a commit of the caller.

    Requires read access here, and write access to the repository of the source. `pull` has the new
    head afterwards. Errors: 409 `pull_already_merged`, `pull_closed`, `branch_missing`,
    `head_changed`, `nothing_to_update`, `merge_conflict`, and those of `move_branch`; 503 if git
    fails.
    """
    access.require_change(Level.READ)
    access.check_holds(pull)
    source = access_to_source(access, pull)
    rules.check_active(pull)
    head, target = tips_to_update(pull)
    rules.check_head(head, expected_head_sha)
    with reporting_git(pull):
        new = _merge_of_target(source, pull, head, target)
        move_branch(
            access=source,
            branch=pull.source_branch,
            old=head,
            new=new,
            check=lambda: check_still_active(pull),
        )
    pull.refresh_from_db()


def tips_to_update(pull: Pull) -> tuple[str, str]:
    """The heads of source and target; 409 as `check_source`, and if there is no target."""
    source, target = pull.tip_refs()
    head = check_source(pull, source)
    if target is None:
        raise rules.MergeRefused([rules.missing_branch(pull, head)])
    return head, target.sha


def check_source(pull: Pull, source: Ref | None) -> str:
    """The head of the source branch, whose stored ref is given. 409 `branch_missing`, or
    `head_changed` if the branch has commits that the pull does not show.
    """
    if source is None:
        raise rules.MergeRefused([rules.missing_branch(pull, None)])
    if source.sha != pull.head_sha:
        text = f"{pull.source_branch} is at {source.sha}, which this pull does not show."
        raise Conflict("head_changed", text)
    return source.sha


def _merge_of_target(source: RepoAccess, pull: Pull, head: str, target: str) -> str:
    """The commit that merges the target into the head, in the repository of the source."""
    fetch_into_source(pull, target)
    git, person = source.repo.git, rules.signature(source.user)
    with cache.building(git, Strategy.MERGE, head, target):
        outcome = build(
            git,
            Strategy.MERGE,
            head,
            target,
            author=person,
            committer=person,
            message=f"Merge branch '{pull.target_branch}' into {pull.source_branch}",
            when=timezone.now(),
        )
    if isinstance(outcome, NothingToMerge):
        text = f"{pull.source_branch} has all commits of {pull.target_branch} already."
        raise Conflict("nothing_to_update", text)
    if not isinstance(outcome, Built):
        raise rules.MergeRefused([rules.outcome_blocker(outcome)])
    return outcome.sha


def check_still_active(pull: Pull) -> None:
    """409 unless the pull is open or a draft. Locks its repository and the pull; the caller holds
    the lock of the source.
    """
    if pull.is_from_fork:
        lock(pull.repo)
    lock(pull)
    rules.check_active(pull)


def delete_source_branch(
    *, access: RepoAccess, pull: Pull, expected_head_sha: str | None = None
) -> None:
    """Delete the source branch of a merged or closed pull, if no open pull uses it.

    `expected_head_sha`: the head that the branch must have, by default that of the pull: commits
    that were pushed later are not deleted unknowingly. Requires read access here, and write access
    to the repository of the source. Errors: 404 without the branch; 409 `head_changed`,
    `branch_in_use`, and those of `move_branch`.
    """
    access.require_change(Level.READ)
    access.check_holds(pull)
    source = access_to_source(access, pull)
    head = source.repo.branch_sha(pull.source_branch)
    if head is None:
        raise NotFound("not_found", f"There is no branch {pull.source_branch}.")
    check_unused(source.repo, pull.source_branch)
    rules.check_head(head, expected_head_sha or pull.head_sha)
    with reporting_git(pull):
        move_branch(
            access=source,
            branch=pull.source_branch,
            old=head,
            new=ZERO,
            check=lambda: check_unused(source.repo, pull.source_branch),
        )


def check_unused(repo: Repo, branch: str) -> None:
    """409 `branch_in_use` if an open or draft pull is from or into the branch. The text names no
    pull of another repository.
    """
    from_it = Q(source_repo=repo, source_branch=branch)
    pulls = Pull.objects.filter(IS_ACTIVE, from_it | Q(repo=repo, target_branch=branch))
    pull = pulls.filter(repo__deletion=None).order_by("number").first()
    if pull is None:
        return
    if pull.repo_id != repo.pk:
        raise Conflict("branch_in_use", f"An open pull of another repository is from {branch}.")
    preposition = "into" if pull.target_branch == branch else "from"
    raise Conflict("branch_in_use", f"Pull {pull.number} {preposition} {branch} is open.")


def restore_source_branch(*, access: RepoAccess, pull: Pull) -> None:
    """Create the source branch of a pull again, at the head of the pull.

    Requires read access here, and write access to the repository of the source. `pull` is reloaded.
    Errors: 404 if the pull has no head or git no longer has it; 409 `branch_exists`, and those of
    `move_branch`.
    """
    access.require_change(Level.READ)
    access.check_holds(pull)
    source = access_to_source(access, pull)
    head = pull.head_sha
    if source.repo.branch_sha(pull.source_branch) is not None:
        raise Conflict("branch_exists", f"There is a branch {pull.source_branch} already.")
    with reporting_git(pull):
        if head is not None:
            fetch_into_source(pull, head)
        if head is None or not source.repo.git.has_commit(head):
            raise NotFound("not_found", f"Pull {pull.number} has no commit to restore.")
        move_branch(access=source, branch=pull.source_branch, old=ZERO, new=head)
    pull.refresh_from_db()


def delete_after_merge(access: RepoAccess, pull: Pull) -> SourceDeletion:
    """Delete the source branch of a pull that the caller has just merged. Never raises a refusal:
    the merge is made. A branch that is gone counts as deleted.
    """
    try:
        delete_source_branch(access=access, pull=pull)
    except (ApiError, Http404, DatabaseError, OSError) as error:
        refusal = as_api_error(error)
        if refusal is not None and refusal.code in GONE:
            return SourceDeletion()
        if refusal is None:
            logger.exception("The source branch of pull %s could not be deleted", pull.number)
        return SourceDeletion(refusal or plain_error(500))
    return SourceDeletion()


@contextmanager
def reporting_git(pull: Pull) -> Iterator[None]:
    """503 if git fails in this block. The log names the pull."""
    try:
        yield
    except GitError as error:
        text = "The source branch of pull %s of repository %s could not be moved"
        logger.exception(text, pull.number, pull.repo.uuid)
        raise git_failed(error) from None

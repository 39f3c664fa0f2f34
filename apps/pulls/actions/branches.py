"""The actions on the source branch of a pull: merge the target into it, delete it, restore it.

Each is a push by the caller (`apps/repos/branches.py`), in this repository or in a fork.
"""

from __future__ import annotations

import logging

from django.db import DatabaseError
from django.http import Http404
from django.utils import timezone

from apps.core.access import Level
from apps.core.errors import ApiError, Conflict, NotFound, as_api_error, plain_error
from apps.git import cache
from apps.git.merge import Built, NothingToMerge, Strategy, build
from apps.pulls import rules
from apps.pulls.heads import access_to_source, fetch_into_source
from apps.pulls.models import Pull
from apps.pulls.source_branch import (
    SourceDeletion,
    check_still_active,
    check_unused,
    reporting_git,
    tips_to_update,
)
from apps.repos.access import RepoAccess
from apps.repos.branches import move_branch
from apps.repos.rules import ZERO

GONE = {"not_found", "branch_missing"}
"""The codes of refusals to delete a branch that has been deleted already."""
logger = logging.getLogger(__name__)


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


def delete_after_merge(*, access: RepoAccess, pull: Pull) -> SourceDeletion:
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

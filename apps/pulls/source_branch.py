"""The source branch of a pull: its head, and the conditions for moving or deleting it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db.models import Q

from apps.core.errors import ApiError, Conflict, git_failed
from apps.core.locks import lock
from apps.git.run import GitError
from apps.pulls import rules
from apps.pulls.models import IS_ACTIVE, Pull
from apps.repos.models import Ref, Repo

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceDeletion:
    """The outcome of deleting the source branch after a merge. `error`: the refusal; None if the
    branch is deleted.
    """

    error: ApiError | None = None


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


def check_still_active(pull: Pull) -> None:
    """409 unless the pull is open or a draft. Locks its repository and the pull; the caller holds
    the lock of the source.
    """
    if pull.is_from_fork:
        lock(pull.repo)
    lock(pull)
    rules.check_active(pull)


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


@contextmanager
def reporting_git(pull: Pull) -> Iterator[None]:
    """503 if git fails in this block. The log names the pull."""
    try:
        yield
    except GitError as error:
        text = "The source branch of pull %s of repository %s could not be moved"
        logger.exception(text, pull.number, pull.repo.uuid)
        raise git_failed(error) from None

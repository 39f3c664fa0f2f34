"""Rules about pulls and reviews: changes of status, reviewers, and the blockers of a merge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from apps.accounts.models import User
from apps.core.controls import without_controls
from apps.core.errors import Conflict, Forbidden, Invalid
from apps.core.json import quoted
from apps.events.kinds import Kind
from apps.git import merge
from apps.git.merge import Strategy
from apps.git.repo import Person, is_sha
from apps.pulls.models import IS_ACTIVE, Pull, PullStatus, Review, ReviewStatus
from apps.repos.models import Repo
from apps.repos.rules import branch_problem

ORDERINGS = ["-number", "number", "-updated_at", "updated_at"]
SETTABLE = [PullStatus.OPEN, PullStatus.DRAFT, PullStatus.CLOSED]
"""The statuses that people can set. `merged` is set by a merge or a push."""
TRANSITIONS = {
    (PullStatus.OPEN, PullStatus.DRAFT): Kind.PULL_DRAFTED,
    (PullStatus.DRAFT, PullStatus.OPEN): Kind.PULL_READIED,
    (PullStatus.OPEN, PullStatus.CLOSED): Kind.PULL_CLOSED,
    (PullStatus.DRAFT, PullStatus.CLOSED): Kind.PULL_CLOSED,
    (PullStatus.CLOSED, PullStatus.OPEN): Kind.PULL_REOPENED,
}
"""The changes of status that people can make, each with its event."""
WITH_MESSAGE = (Strategy.MERGE, Strategy.SQUASH)
"""The strategies that make one commit, with a message of its own."""
DECISIONS = [ReviewStatus.APPROVED, ReviewStatus.CHANGES_REQUESTED, ReviewStatus.COMMENTED]
"""The statuses that reviewers can set. `dismissed` is set by admins."""


def source_problem(text: str) -> str | None:
    """The reason why this is no `source_branch`, such as `topic` or `bob:topic`; else None."""
    return branch_problem(text.rpartition(":")[2])


def sha_problem(text: str) -> str | None:
    """The reason why this is no full name of a commit; None if it is one."""
    return None if is_sha(text) else "Must be a full commit name of 40 hexadecimal digits."


def check_branches_differ(pull: Pull) -> None:
    """422 `same_branch` if source and target are the same branch of the same repository."""
    if pull.source_branch == pull.target_branch and not pull.is_from_fork:
        raise Invalid("same_branch", f'"{pull.target_branch}" cannot be merged into itself.')


def check_not_open_already(pull: Pull) -> None:
    """409 `pull_already_exists` if another open or draft pull has the same source and target.

    A source that does not exist yet may have several pulls. The caller holds the repository's lock.
    """
    if pull.source_repo is None or pull.source_repo.branch_sha(pull.source_branch) is None:
        return
    same = pull.repo.pulls.filter(
        IS_ACTIVE,
        source_repo=pull.source_repo,
        source_branch=pull.source_branch,
        target_branch=pull.target_branch,
    )
    other = same.exclude(pk=pull.pk).first()
    if other is not None:
        raise Conflict(
            "pull_already_exists",
            f"Pull {other.number} already proposes to merge {pull.source_branch} into "
            f"{pull.target_branch}.",
        )


def check_takes_target(pull: Pull, branch: str) -> None:
    """409 as `check_active`; 422 unless the repository has a branch of this name."""
    check_active(pull)
    if pull.repo.branch_sha(branch) is None:
        text = f"target_branch: There is no branch {quoted(branch)}."
        raise Invalid("validation_failed", text)


def check_target(pull: Pull, expected: str | None) -> None:
    """409 `target_changed` if the caller expects another target branch."""
    if expected is not None and pull.target_branch != expected:
        text = f"The target branch is now {pull.target_branch}, not {expected}."
        raise Conflict("target_changed", text)


def kind_of_transition(pull: Pull, status: PullStatus) -> Kind:
    """The event of a change to this status; 409 `pull_already_merged`, `invalid_transition`."""
    if pull.status == PullStatus.MERGED:
        raise Conflict("pull_already_merged", f"Pull {pull.number} has been merged.")
    kind = TRANSITIONS.get((PullStatus(pull.status), status))
    if kind is None:
        raise Conflict("invalid_transition", f"A {pull.status} pull cannot become {status}.")
    return kind


def takes_changes(repo: Repo) -> bool:
    """Whether people other than staff may change the repository, whose owner is loaded."""
    return repo.owner.is_active and not repo.is_archived


# Reviews


def check_reviewer(review: Review, actor: User) -> None:
    """403 `not_creator` unless this person is the review's author; staff is refused too."""
    if review.created_by_id != actor.pk:
        raise Forbidden("not_creator", "Only the author of a review may do this.")


def check_not_dismissed(review: Review) -> None:
    """409 `invalid_transition` if the review is dismissed."""
    if review.status == ReviewStatus.DISMISSED:
        raise Conflict("invalid_transition", "A dismissed review cannot change its status.")


def has_decided_since(review: Review) -> bool:
    """Whether its author has decided in a newer review; a comment is no decision."""
    own = review.pull.reviews.filter(created_by=review.created_by_id)
    newer = own.exclude(pk=review.pk).filter(decided_at__gte=review.decided_at)
    return newer.exclude(status=ReviewStatus.COMMENTED).exists()


# Merging


@dataclass(frozen=True)
class Blocker:
    """One reason why a pull cannot be merged now."""

    code: str
    text: str
    conflict_paths: Sequence[str] | None = None


def state_blockers(pull: Pull) -> list[Blocker]:
    """A list with the blocker of the pull's status; empty if the pull is open."""
    if pull.status == PullStatus.MERGED:
        return [Blocker("pull_already_merged", f"Pull {pull.number} has been merged.")]
    if pull.status == PullStatus.CLOSED:
        return [Blocker("pull_closed", f"Pull {pull.number} is closed.")]
    if pull.status == PullStatus.DRAFT:
        return [Blocker("pull_is_draft", f"Pull {pull.number} is a draft.")]
    return []


def check_active(pull: Pull) -> None:
    """409 `pull_already_merged` or `pull_closed` unless the pull is open or a draft."""
    if not pull.is_active:
        check_unblocked(state_blockers(pull))


def missing_branch(pull: Pull, source: str | None) -> Blocker:
    """The blocker of a missing branch: of the source if `source` is None, else of the target."""
    name = pull.source_branch if source is None else pull.target_branch
    return Blocker("branch_missing", f"There is no branch {name}.")


def outcome_blocker(
    outcome: merge.NothingToMerge
    | merge.FastForwardImpossible
    | merge.StrategyDiffers
    | merge.Conflict,
) -> Blocker:
    """The blocker of a merge that git cannot make."""
    if isinstance(outcome, merge.NothingToMerge):
        return Blocker("nothing_to_merge", "The target already has all of these changes.")
    if isinstance(outcome, merge.FastForwardImpossible):
        text = "The target has commits that are not in the source, so it cannot be fast-forwarded."
        return Blocker("fast_forward_impossible", text)
    if isinstance(outcome, merge.StrategyDiffers):
        text = "A rebase would give a different result than a merge. Choose merge or squash."
        return Blocker("strategy_differs", text)
    # Without paths, git cannot merge the two at all.
    text = "Git cannot merge the two branches."
    if outcome.paths:
        count = len(outcome.paths)
        files = f"{count} file{'' if count == 1 else 's'}"
        text = f"The two branches change the same lines in {files}."
    return Blocker("merge_conflict", text, outcome.paths)


class MergeRefused(Conflict):
    """409 for a merge. Its code is that of the first of its blockers; its text contains all."""

    def __init__(self, blockers: Sequence[Blocker]) -> None:
        first, self.blockers = blockers[0], blockers
        paths = None if first.conflict_paths is None else list(first.conflict_paths)
        text = " ".join(f"{blocker.code}: {blocker.text}" for blocker in blockers)
        detail = text if len(blockers) > 1 else first.text
        super().__init__(first.code, detail, conflict_paths=paths)


def check_unblocked(blockers: Sequence[Blocker]) -> None:
    """409 with these blockers if there are any."""
    if blockers:
        raise MergeRefused(blockers)


def merge_in_progress(pull: Pull) -> Conflict:
    """The refusal while another merge of the pull is under way."""
    text = f"Pull {pull.number} is being merged. Try again soon."
    return Conflict("merge_in_progress", text, headers={"Retry-After": "1"})


def check_head(head: str | None, expected: str | None) -> None:
    """409 `head_changed` if the caller expects another head."""
    if expected is not None and head != expected:
        raise Conflict("head_changed", f"The head is now {head}, not {expected}.")


def signature(user: User) -> Person:
    """A person's name and a no-reply address, for commits by the site: the own address stays
    private.
    """
    host = urlsplit(settings.BASE_URL).hostname or "localhost"
    return Person(user.display_name or user.username, f"{user.username}@users.noreply.{host}")


def squash_author(pull: Pull, people: Iterable[Person]) -> Person:
    """The author of a squashed commit: the pull's, with their own address only if one of `people`,
    the authors of its commits, has it. Else they would also be listed as a co-author.
    """
    author = pull.thread.created_by
    if author.email and author.email.lower() in {person.email.lower() for person in people}:
        return Person(signature(author).name, author.email)
    return signature(author)


def check_message(message: str | None, strategy: Strategy) -> None:
    """422 for a message with a strategy that writes no new one."""
    if message is None or strategy in WITH_MESSAGE:
        return
    text = "A rebase keeps the messages of the commits."
    if strategy is Strategy.FAST_FORWARD:
        text = "A fast-forward makes no commit."
    raise Invalid("validation_failed", f"message: {text}")


def merge_message(pull: Pull, strategy: Strategy) -> str:
    """The default message of a merge or squash: one line, even if an old title has several."""
    title = without_controls(" ".join(pull.thread.title.split()))
    if strategy is Strategy.SQUASH:
        return f"{title} (#{pull.number})"
    return f"Merge pull #{pull.number}: {title}"

"""Who may change a review, and whose decision counts (docs/protections.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.errors import Conflict, Forbidden
from apps.pulls.models import Pull, Review, ReviewStatus
from apps.repos.access import level_on
from apps.repos.models import Protection

DECISIONS = [ReviewStatus.APPROVED, ReviewStatus.CHANGES_REQUESTED, ReviewStatus.COMMENTED]
"""What reviewers say; `dismissed` is said about a review."""


def level_of_author(review: Review) -> Level:
    """The level of who wrote a row of `ReviewQuerySet.with_people`."""
    role: str | None = getattr(review, "author_role", None)
    return level_on(Principal(review.created_by), review.pull.repo, role)


@dataclass(frozen=True)
class Eligibility:
    """Whose decision counts on a pull now, with or without protections of its target."""

    pull: Pull
    protections: Sequence[Protection]

    @classmethod
    def of(cls, pull: Pull) -> Self:
        """Reads the protections; two queries at most."""
        return cls(pull, pull.repo.protections.matching(pull.target_branch))

    def reason_against(self, person: User, level: Level) -> str | None:
        """Why a decision of this person would not count; None when it would.

        It is about the person and the pull: whether a review decides anything is its status, and
        whether it is stale its `is_stale`.
        """
        if not self.pull.is_active:
            return f"The pull is {self.pull.status}."
        if person.pk == self.pull.thread.created_by_id:
            return "The author of the pull."
        if person.pk == self.pull.head_pushed_by_id:
            return "Pushed the current head."
        if not person.is_active:
            return "The account has been deactivated."
        if level < Level.READ:
            return "No access to the repository."
        return self._not_asked(person, level)

    def _not_asked(self, person: User, level: Level) -> str | None:
        if any(asks(protection, person, level) for protection in self.protections):
            return None
        if self.protections and all(map(names_approvers, self.protections)):
            named = ", ".join(protection.branch for protection in self.protections)
            return f"Not an approver of {named}."
        if not self.protections and level >= Level.WRITE:
            return None
        return "No write access to the repository."


def asks(protection: Protection, person: User, level: Level) -> bool:
    """Whether this protection wants that person's approval: by name, else by write access."""
    if names_approvers(protection):
        return person.pk in {approver.user_id for approver in protection.approvers.all()}
    return level >= Level.WRITE


def names_approvers(protection: Protection) -> bool:
    """Whether it has a list, however many of those on it can still approve."""
    return bool(protection.approvers.all())


def check_reviewer(review: Review, actor: User) -> None:
    """Only its author changes a review, not even staff does: 403 `not_creator`."""
    if review.created_by_id != actor.pk:
        raise Forbidden("not_creator", "Only its author may do this with a review.")


def check_not_dismissed(review: Review) -> None:
    """A dismissed review takes no new decision: 409 `invalid_transition`."""
    if review.status == ReviewStatus.DISMISSED:
        raise Conflict("invalid_transition", "A dismissed review cannot be decided anew.")


def has_decided_since(review: Review) -> bool:
    """Whether its author has decided otherwise in a newer review of the pull."""
    own = review.pull.reviews.filter(created_by=review.created_by_id)
    newer = own.exclude(pk=review.pk).filter(decided_at__gte=review.decided_at)
    return newer.exclude(status=ReviewStatus.COMMENTED).exists()

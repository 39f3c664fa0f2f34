"""What the reviews of a pull say about merging it, and everything that blocks it.

docs/protections.md says whose approval counts, and for how long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic
from typing import Self

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.errors import git_failed
from apps.git import cache, merge
from apps.git.cache import GitFacts
from apps.git.merge import Mergeability, Strategy
from apps.git.run import GitError
from apps.pulls.models import Pull, PullStatus, Review, ReviewStatus
from apps.pulls.rules import Blocker, missing_branch, outcome_blocker, state_blockers
from apps.repos.access import level_on
from apps.repos.models import Protection, protections_of
from apps.repos.protection_rules import RULES
from apps.repos.rules import Collaborators, is_satisfiable_without

PATIENCE = 5.0
"""Seconds for which the records of one request ask git whether reviews are stale."""


def level_of_author(review: Review) -> Level:
    """The level of who wrote a row of `ReviewQuerySet.with_people`."""
    role: str | None = getattr(review, "author_role", None)
    return level_on(Principal(review.created_by), review.pull.repo, role)


@dataclass(frozen=True)
class Eligibility:
    """Whose decision counts on a pull now, and for which commits, with or without protections.

    `facts` has what git was asked before a lock. `until` ends the time that records wait for git.
    """

    pull: Pull
    protections: Sequence[Protection]
    facts: GitFacts
    until: float = field(default_factory=lambda: monotonic() + PATIENCE)

    @classmethod
    def of(cls, pull: Pull, facts: GitFacts | None = None) -> Self:
        """Reads the protections; two queries at most."""
        protections = protections_of(pull.repo, pull.target_branch)
        return cls(pull, protections, facts or GitFacts())

    def is_stale(self, review: Review) -> bool:
        """Whether merging the head would give another result than merging what was reviewed.

        Compares the trees of both merges into the target as it is now. Asks git only where the
        head has moved since and the pull is active; `GitError` when git cannot tell.
        """
        commit, head, target = review.commit_sha, self.pull.head_sha, self.pull.base_sha
        if commit == head:
            return False
        if commit is None or head is None or target is None or not self.pull.is_active:
            return True
        try:
            reviewed = self._tree(target, commit)
        except GitError:
            if self.pull.repo.git.has_commit(commit):
                raise
            return True
        return reviewed is None or reviewed != self._tree(target, head)

    def shows_stale(self, review: Review) -> bool:
        """`is_stale` as a record says it: true as well where git cannot tell in time."""
        if review.commit_sha == self.pull.head_sha:
            return False
        try:
            return monotonic() > self.until or self.is_stale(review)
        except GitError:
            return True

    def _tree(self, target: str, head: str) -> str | None:
        return self.facts.ask(cache.merged_tree, self.pull.repo.git, target, head)

    def reason_against(self, person: User, level: Level) -> str | None:
        """Why a decision of this person would not count; None when it would.

        It is about the person and the pull: whether a review decides anything is its status.
        """
        if not self.pull.is_active:
            return f"The pull is {self.pull.status}."
        if person.pk == self.pull.thread.created_by_id:
            return "The author of the pull."
        if (reason := self._pushed_head(person)) is not None:
            return reason
        if not person.is_active:
            return "The account has been deactivated."
        if level < Level.READ:
            return "No access to the repository."
        return self._not_asked(person, level)

    def reason_against_review(self, review: Review) -> str | None:
        """Why it does not count: `reason_against` its author, a row of `with_people`, or that it
        approves what its author has pushed.
        """
        reason = self.reason_against(review.created_by, level_of_author(review))
        own = review.by_pusher and review.status == ReviewStatus.APPROVED
        return reason or ("Pushed the approved commit, or nobody knows who did." if own else None)

    def _pushed_head(self, person: User) -> str | None:
        """Where nobody knows who pushed the head it may have been anybody: nobody is eligible."""
        if not self.pull.may_be_pushed_by(person):
            return None
        known = self.pull.head_pushed_by_id is not None
        return "Pushed the current head." if known else "Nobody knows who pushed the current head."

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


@dataclass(frozen=True)
class Approval:
    """The latest decision of each person, and who may decide."""

    eligibility: Eligibility

    @cached_property
    def decisions(self) -> list[Review]:
        """Each person's review that was decided last, oldest first, without comments; one query."""
        pull = self.eligibility.pull
        return decided_last(pull.reviews.with_people(pull.repo).defer("body").decisions())

    @property
    def protections(self) -> Sequence[Protection]:
        return self.eligibility.protections

    def reason_against(self, review: Review) -> str | None:
        """Why it does not count; None when it does."""
        return self.eligibility.reason_against_review(review)

    @property
    def approvals(self) -> list[Review]:
        """All that approve, also those that do not count."""
        return [one for one in self.decisions if one.status == ReviewStatus.APPROVED]

    @cached_property
    def counting(self) -> list[Review]:
        """Those that are not stale, of people who are eligible. 503 when git cannot tell."""
        of_people = [one for one in self.approvals if self.reason_against(one) is None]
        try:
            return [one for one in of_people if not self.eligibility.is_stale(one)]
        except GitError as error:
            raise git_failed(error) from None

    @cached_property
    def changes_requested_by(self) -> list[str]:
        """Usernames. A push does not take a request for changes away, as it may an approval."""
        asking = [one for one in self.decisions if one.status == ReviewStatus.CHANGES_REQUESTED]
        return [one.created_by.username for one in asking if self.reason_against(one) is None]

    def given(self, protection: Protection) -> int:
        """How many of the approvals this protection counts."""
        return sum(asks(protection, one.created_by, level_of_author(one)) for one in self.counting)

    def missing(self, protection: Protection) -> int:
        """How many more it requires."""
        return max(0, protection.required_approvals - self.given(protection))

    @cached_property
    def named(self) -> dict[int, tuple[User, Level]]:
        """The approvers by name who could approve, by id, each with their level."""
        found: dict[int, tuple[User, Level]] = {}
        for protection in self.protections:
            for approver in protection.approvers.all():
                role: str | None = getattr(approver, "role", None)
                level = level_on(Principal(approver.user), self.eligibility.pull.repo, role)
                if self.eligibility.reason_against(approver.user, level) is None:
                    found.setdefault(approver.user_id, (approver.user, level))
        return found

    @cached_property
    def pending(self) -> list[User]:
        """The named people who have not approved."""
        given = {one.created_by_id for one in self.counting}
        return [user for user, _ in self.named.values() if user.pk not in given]

    @property
    def required(self) -> int:
        """How many approvals satisfy all protections, from the beginning."""
        asked = [one.required_approvals for one in self.protections]
        return enough(asked, [self._asking(person) for person in self.named])

    @property
    def wanting(self) -> int:
        """How many more approvals satisfy them."""
        lacking = [self.missing(one) for one in self.protections]
        return enough(lacking, [self._asking(person.pk) for person in self.pending])

    def is_satisfiable(self, protection: Protection) -> bool:
        """Whether enough people could approve, now or once it is open: not its author, nor who
        pushed its head. False where nobody knows who did. One query for all protections.
        """
        pull = self.eligibility.pull
        if pull.head_sha is not None and pull.head_pushed_by_id is None:
            return not protection.required_approvals
        barred = [pull.thread.created_by_id, pull.head_pushed_by_id]
        others = [person for person in barred if person is not None]
        return is_satisfiable_without(protection, self.collaborators, others)

    @cached_property
    def collaborators(self) -> Collaborators:
        """People enough to tell, its author and who pushed its head among them."""
        return Collaborators.of(self.eligibility.pull.repo, self.protections, besides=2)

    def _asking(self, person: int) -> list[bool]:
        """Which of the protections want the approval of one of the named."""
        return [asks(one, *self.named[person]) for one in self.protections]

    @property
    def head_sha(self) -> str | None:
        return self.eligibility.pull.head_sha

    def blockers(self) -> list[Blocker]:
        """The blockers that the rules of protections make; none without a protection."""
        reasons = [(rule.code, rule.blocks(self)) for rule in RULES if self.protections]
        return [Blocker(code, text) for code, text in reasons if text is not None]


def decided_last(reviews: Iterable[Review]) -> list[Review]:
    """Each person's last of these decisions, which come oldest first."""
    latest: dict[int, Review] = {}
    for review in reviews:
        latest.pop(review.created_by_id, None)
        latest[review.created_by_id] = review
    return list(latest.values())


def enough(lacking: Sequence[int], people: Sequence[Sequence[bool]]) -> int:
    """How many approvals satisfy protections that lack so many each.

    One approval may serve several: of `people`, who say which of them want theirs, those who serve
    the most come first. What is lacking after that is for people whom nobody has named.
    """
    left, waiting, count = [*lacking], [*people], 0

    def use(person: Sequence[bool]) -> int:
        return sum(wants and lacks > 0 for wants, lacks in zip(person, left, strict=True))

    while waiting and use(best := max(waiting, key=use)):
        waiting.remove(best)
        left = [max(0, lacks - wants) for wants, lacks in zip(best, left, strict=True)]
        count += 1
    return count + max(left, default=0)


def approval_of(pull: Pull, facts: GitFacts | None = None) -> Approval:
    """What the reviews say now; three queries at most. Asks git what is not in `facts`."""
    return Approval(Eligibility.of(pull, facts))


@dataclass(frozen=True)
class LoadedApproval(Approval):
    """The same of deciding reviews that are loaded, the oldest decision first; no query."""

    reviews: Sequence[Review]

    @cached_property
    def decisions(self) -> list[Review]:
        return decided_last(self.reviews)


def approval_by(eligibility: Eligibility, reviews: Iterable[Review]) -> Approval:
    """The same of all reviews of the pull, as rows of `with_people` that are loaded; no query."""
    decided = [one for one in reviews if one.status != ReviewStatus.COMMENTED]
    in_order = sorted(decided, key=lambda one: (one.decided_at, one.pk))
    return LoadedApproval(eligibility, in_order)


def read_approval(pull: Pull, facts: GitFacts) -> None:
    """Ask git what `approval_of` will need, before a lock."""
    approval_of(pull, facts).blockers()


def all_blockers(
    pull: Pull, approval: Approval, git_says: Callable[[str, str], Blocker | None]
) -> list[Blocker]:
    """Everything that blocks a merge, in order: its status, its branches, git, the reviews.

    `git_says` is asked with the tips of target and source, if both exist. A merged pull has that
    blocker alone.
    """
    blockers = state_blockers(pull)
    if pull.status == PullStatus.MERGED:
        return blockers
    source, target = pull.tips()
    if source is None or target is None:
        blockers.append(missing_branch(pull, source))
    elif (found := git_says(target, source)) is not None:
        blockers.append(found)
    return [*blockers, *approval.blockers()]


@dataclass(frozen=True)
class MergeReadiness:
    """Whether a pull can be merged now: its approval, all blockers, and git's answer."""

    pull: Pull
    approval: Approval
    blockers: list[Blocker]
    git: Mergeability


def readiness_of(pull: Pull, approval: Approval | None = None) -> MergeReadiness:
    """What a look at the pull shows; `approval`: its own, where it has been read already. 503 when
    git cannot tell in time.

    git's answers about commits are kept in memory.
    """
    approval = approval or approval_of(pull)
    git = Mergeability((), (), nothing_to_merge=False)

    def git_says(target: str, source: str) -> Blocker | None:
        nonlocal git
        try:
            git = cache.mergeability(pull.repo.git, target, source)
        except GitError as error:
            raise git_failed(error) from None
        return git_blocker(git)

    blockers = all_blockers(pull, approval, git_says)
    return MergeReadiness(pull, approval, blockers, git)


def git_blocker(git: Mergeability) -> Blocker | None:
    """What git says against every way of merging."""
    if git.nothing_to_merge:
        return outcome_blocker(merge.NothingToMerge())
    if Strategy.MERGE not in git.allowed_strategies:
        return outcome_blocker(merge.Conflict(git.conflict_paths))
    return None

"""The approval of a pull by its reviews, and everything that blocks its merge.

docs/protections.md says whose approval counts, and for how long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic
from typing import Self

from django.db.models import Count, Q

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.errors import git_failed
from apps.git import cache, merge
from apps.git.cache import GitFacts
from apps.git.merge import Mergeability, Strategy
from apps.git.run import GitError
from apps.pulls.checks import Checks
from apps.pulls.models import Pull, PullStatus, Review, ReviewStatus
from apps.pulls.rules import Blocker, missing_branch, outcome_blocker, state_blockers
from apps.repos.access import level_on
from apps.repos.models import Approver, Protection, Repo, protections_of
from apps.repos.protection_rules import RULES, CommentCounts
from apps.repos.rules import Collaborators, is_satisfiable_without
from apps.threads.anchors import Anchor
from apps.threads.models import ReplyStatus

STALE_CHECK_SECONDS = 5.0
"""Seconds in which one request may ask git whether reviews are stale, to show them."""
BOT = "A bot, whose reviews do not count."
PUSHED_APPROVED_COMMIT = "Pushed the approved commit, or nobody knows who did."
UNKNOWN_PUSHER = "Nobody knows who pushed the current head."


def level_of_author(review: Review) -> Level:
    """The access level of the author of a row of `ReviewQuerySet.with_people`."""
    role: str | None = getattr(review, "author_role", None)
    return level_on(Principal(review.created_by), review.pull.repo, role)


def level_of_approver(approver: Approver, repo: Repo) -> Level:
    """The access level of a row of `Approver.with_roles`."""
    role: str | None = getattr(approver, "role", None)
    return level_on(Principal(approver.user), repo, role)


@dataclass(frozen=True)
class Eligibility:
    """Decides which people's reviews of a pull count now, and for which commits."""

    pull: Pull
    protections: Sequence[Protection]
    facts: GitFacts
    """Answers that git gave before a lock was taken."""
    until: float = field(default_factory=lambda: monotonic() + STALE_CHECK_SECONDS)
    """The time on the monotonic clock after which records no longer ask git."""

    @classmethod
    def of(cls, pull: Pull, facts: GitFacts | None = None) -> Self:
        """The eligibility under the protections of the pull's target; at most two queries."""
        return cls(pull, protections_of(pull.repo, pull.target_branch), facts or GitFacts())

    def is_stale(self, review: Review) -> bool:
        """Whether merging the head gives another tree than merging the reviewed commit, both into
        the current target, or the pull has got another target since. Asks git only if the head of
        an active pull has moved since. `GitError`.
        """
        commit, head, target = review.commit_sha, self.pull.head_sha, self.pull.base_sha
        if self.is_of_former_target(review):
            return True
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

    def is_of_former_target(self, review: Review) -> bool:
        """Whether the decision was made before the pull got its target branch."""
        changed_at = self.pull.target_changed_at
        return changed_at is not None and review.decided_at < changed_at

    def shows_stale(self, review: Review) -> bool:
        """`is_stale` for a record; also True if git cannot tell in time."""
        if self.is_of_former_target(review):
            return True
        if review.commit_sha == self.pull.head_sha:
            return False
        try:
            return monotonic() > self.until or self.is_stale(review)
        except GitError:
            return True

    def _tree(self, target: str, head: str) -> str | None:
        return self.facts.ask(cache.merged_tree, self.pull.repo.git, target, head)

    def reason_against(self, person: User, level: Level) -> str | None:
        """The reason why decisions of this person with this level do not count; None if they do."""
        if not self.pull.is_active:
            return f"The pull is {self.pull.status}."
        if person.pk == self.pull.thread.created_by_id:
            return "The author of the pull."
        if self.pull.may_be_pushed_by(person):
            # Nobody is eligible if it is not known who pushed the head, as it may be anybody.
            is_known = self.pull.head_pushed_by_id is not None
            return "Pushed the current head." if is_known else UNKNOWN_PUSHER
        return reason_against_account(person, level) or self._reason_not_asked(person, level)

    def reason_against_review(self, review: Review) -> str | None:
        """The reason why a review, a row of `with_people`, does not count; None if it counts."""
        reason = self.reason_against(review.created_by, level_of_author(review))
        is_own = review.by_pusher and review.status == ReviewStatus.APPROVED
        return reason or (PUSHED_APPROVED_COMMIT if is_own else None)

    def _reason_not_asked(self, person: User, level: Level) -> str | None:
        if any(asks(protection, person, level) for protection in self.protections):
            return None
        if self.protections and all(map(names_approvers, self.protections)):
            branches = ", ".join(protection.branch for protection in self.protections)
            return f"Not an approver of {branches}."
        if not self.protections and level >= Level.WRITE:
            return None
        return "No write access to the repository."


def reason_against_account(person: User, level: Level) -> str | None:
    """The reason why an account with this level decides on no pull; None if it may."""
    if person.is_bot:
        return BOT
    if not person.is_active:
        return "The account has been deactivated."
    return "No access to the repository." if level < Level.READ else None


def asks(protection: Protection, person: User, level: Level) -> bool:
    """Whether this protection asks for the person's approval: as one of its approvers, or, if it
    names none, because of write access.
    """
    if names_approvers(protection):
        return person.pk in {approver.user_id for approver in protection.approvers.all()}
    return level >= Level.WRITE


def names_approvers(protection: Protection) -> bool:
    """Whether the protection names approvers, even if none of them can approve any more."""
    return bool(protection.approvers.all())


@dataclass(frozen=True)
class Approval:
    """The latest decision of each person on a pull, and the approvals that count."""

    eligibility: Eligibility
    loaded: Iterable[Review] | None = None
    """All decisions on the pull, oldest first, if they are loaded already."""

    @cached_property
    def decisions(self) -> list[Review]:
        """The review with each person's last decision, oldest first; one query if not loaded."""
        pull, decisions = self.eligibility.pull, self.loaded
        if decisions is None:
            decisions = pull.reviews.with_people(pull.repo).defer("body").decisions()
        latest: dict[int, Review] = {}
        for review in decisions:
            latest.pop(review.created_by_id, None)
            latest[review.created_by_id] = review
        return list(latest.values())

    @property
    def protections(self) -> Sequence[Protection]:
        return self.eligibility.protections

    @property
    def approvals(self) -> list[Review]:
        """The decisions that approve, including those that do not count."""
        return [review for review in self.decisions if review.status == ReviewStatus.APPROVED]

    @cached_property
    def counting(self) -> list[Review]:
        """The approvals that count: not stale, and of eligible people. 503 if git cannot tell."""
        reason, is_stale = self.eligibility.reason_against_review, self.eligibility.is_stale
        eligible = [review for review in self.approvals if reason(review) is None]
        try:
            return [review for review in eligible if not is_stale(review)]
        except GitError as error:
            raise git_failed(error) from None

    @cached_property
    def changes_requested_by(self) -> list[str]:
        """The usernames of eligible people who request changes, which do not become stale."""
        return [
            review.created_by.username
            for review in self.decisions
            if review.status == ReviewStatus.CHANGES_REQUESTED
            and self.eligibility.reason_against_review(review) is None
        ]

    def given(self, protection: Protection) -> int:
        """The number of approvals that this protection counts."""
        return sum(
            asks(protection, review.created_by, level_of_author(review)) for review in self.counting
        )

    def missing(self, protection: Protection) -> int:
        """The number of approvals that this protection still requires."""
        return max(0, protection.required_approvals - self.given(protection))

    @cached_property
    def named(self) -> dict[int, tuple[User, Level]]:
        """Id -> named approver who could approve, with their access level."""
        people: dict[int, tuple[User, Level]] = {}
        for protection in self.protections:
            for approver in protection.approvers.all():
                level = level_of_approver(approver, self.eligibility.pull.repo)
                if self.eligibility.reason_against(approver.user, level) is None:
                    people.setdefault(approver.user_id, (approver.user, level))
        return people

    @cached_property
    def pending(self) -> list[User]:
        """The named approvers whose approval is still missing."""
        approved = {review.created_by_id for review in self.counting}
        return [user for user, _ in self.named.values() if user.pk not in approved]

    @property
    def required(self) -> int:
        """The least number of approvals that satisfies all protections."""
        required = [protection.required_approvals for protection in self.protections]
        return fewest_approvals(required, [self._asking(person) for person in self.named])

    @property
    def wanting(self) -> int:
        """The least number of further approvals that satisfies all protections."""
        missing = [self.missing(protection) for protection in self.protections]
        return fewest_approvals(missing, [self._asking(user.pk) for user in self.pending])

    def is_satisfiable(self, protection: Protection) -> bool:
        """Whether enough people could approve the pull, now or once it is open, without its author
        and its head's pusher; False if the pusher is not known. One query for all protections.
        """
        pull = self.eligibility.pull
        if pull.head_sha is not None and pull.head_pushed_by_id is None:
            return not protection.required_approvals
        excluded = [pull.thread.created_by_id, pull.head_pushed_by_id]
        ids = [pk for pk in excluded if pk is not None]
        return is_satisfiable_without(protection, self.collaborators, ids)

    @cached_property
    def collaborators(self) -> Collaborators:
        """Enough people to decide `is_satisfiable`."""
        return Collaborators.of(self.eligibility.pull.repo, self.protections, besides=2)

    def _asking(self, person: int) -> list[bool]:
        return [asks(protection, *self.named[person]) for protection in self.protections]

    @property
    def head_sha(self) -> str | None:
        return self.eligibility.pull.head_sha

    @cached_property
    def checks(self) -> Checks:
        """The required statuses of the head."""
        return Checks(self.eligibility.pull, self.protections)

    @property
    def unmet_statuses(self) -> dict[str, str]:
        return self.checks.unmet

    @cached_property
    def comments(self) -> CommentCounts:
        """The numbers of comments on lines; one query."""
        thread = self.eligibility.pull.thread_id
        return comment_counts([thread]).get(thread, CommentCounts())

    def blockers(self) -> list[Blocker]:
        """The blockers of the protections' rules; none without a protection."""
        reasons = [(rule.code, rule.blocks(self)) for rule in RULES if self.protections]
        return [Blocker(code, text) for code, text in reasons if text is not None]


def comment_counts(threads: Collection[int]) -> dict[int, CommentCounts]:
    """Thread's id -> the numbers of its comments on lines; one query. A comment is resolved when
    its status is no longer `open`; answers to comments do not count.
    """
    rows = Anchor.objects.filter(thread__in=threads, reply__deleted_at=None).values("thread")
    unresolved = Count("pk", filter=Q(reply__status=ReplyStatus.OPEN.value))
    counts = rows.annotate(total=Count("pk"), unresolved=unresolved)
    return {row["thread"]: CommentCounts(row["total"], row["unresolved"]) for row in counts}


def fewest_approvals(missing: Sequence[int], people: Sequence[Sequence[bool]]) -> int:
    """The least number of approvals that satisfies protections with these missing approvals.

    `people`: the named approvers, each with a flag for each protection that asks for them. Those
    who count for the most protections are taken first; people who are not named give the rest.
    """
    left, waiting, count = [*missing], [*people], 0

    def use(asking: Sequence[bool]) -> int:
        return sum(counts and lacks > 0 for counts, lacks in zip(asking, left, strict=True))

    while waiting and use(best := max(waiting, key=use)):
        waiting.remove(best)
        left = [max(0, lacks - counts) for counts, lacks in zip(best, left, strict=True)]
        count += 1
    return count + max(left, default=0)


def approval_of(pull: Pull, facts: GitFacts | None = None) -> Approval:
    """The approval of a pull; at most three queries. Asks git if the answer is not in `facts`."""
    return Approval(Eligibility.of(pull, facts))


def approval_by(eligibility: Eligibility, reviews: Iterable[Review]) -> Approval:
    """The approval from all reviews of a pull, as loaded rows of `with_people`; no query."""
    decisions = [review for review in reviews if review.status != ReviewStatus.COMMENTED]
    return Approval(eligibility, sorted(decisions, key=lambda row: (row.decided_at, row.pk)))


def all_blockers(
    pull: Pull, approval: Approval, ask_git: Callable[[str, str], Blocker | None]
) -> list[Blocker]:
    """Everything that blocks a merge: status (alone if merged), branches, git, protections.

    `ask_git` is called with the tips of target and source, if both exist.
    """
    blockers = state_blockers(pull)
    if pull.status == PullStatus.MERGED:
        return blockers
    source, target = pull.tips()
    if source is None or target is None:
        blockers.append(missing_branch(pull, source))
    elif (blocker := ask_git(target, source)) is not None:
        blockers.append(blocker)
    return [*blockers, *approval.blockers()]


@dataclass(frozen=True)
class MergeReadiness:
    """Whether a pull can be merged now: its approval, all blockers, and git's answer."""

    pull: Pull
    approval: Approval
    blockers: list[Blocker]
    git: Mergeability


def readiness_of(pull: Pull, approval: Approval | None = None) -> MergeReadiness:
    """Whether a pull can be merged now. 503 if git cannot tell in time.

    `approval`: the pull's approval, if it has been read already.
    """
    approval = approval or approval_of(pull)
    git = Mergeability((), (), nothing_to_merge=False)

    def ask_git(target: str, source: str) -> Blocker | None:
        nonlocal git
        try:
            git = cache.mergeability(pull.repo.git, target, source)
        except GitError as error:
            raise git_failed(error) from None
        if git.nothing_to_merge:
            return outcome_blocker(merge.NothingToMerge())
        is_possible = Strategy.MERGE in git.allowed_strategies
        return None if is_possible else outcome_blocker(merge.Conflict(git.conflict_paths))

    blockers = all_blockers(pull, approval, ask_git)
    return MergeReadiness(pull, approval, blockers, git)

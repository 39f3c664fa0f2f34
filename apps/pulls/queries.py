"""Queries for pulls and reviews, for the API, the pages and the event scopes.

The functions for one person's pulls in all repositories read stored rows and never ask git. The
number of their queries does not depend on the number of pulls. See docs/protections.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db.models import (
    BigIntegerField,
    BooleanField,
    Case,
    CharField,
    Exists,
    F,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
    prefetch_related_objects,
)
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast, Coalesce, Concat

from apps.accounts.models import User
from apps.accounts.principal import Principal, first_rows
from apps.core.access import Level
from apps.core.lookup import Missing
from apps.core.pagination import CountOf
from apps.core.statements import Parameter, Statement, parameters
from apps.git.cache import GitFacts
from apps.git.diff import FileChange
from apps.pulls.approval import Approval, Eligibility, comment_counts
from apps.pulls.checks import Checks, checks_of_all
from apps.pulls.models import (
    ACTIVE,
    IS_ACTIVE,
    PULL_ROW,
    Pull,
    PullQuerySet,
    PullStatus,
    Review,
    ReviewQuerySet,
    ReviewRequest,
    ReviewStatus,
    SeenVersion,
    ViewedFile,
)
from apps.pulls.review_requests import pending, pending_by_pull
from apps.pulls.rules import ORDERINGS
from apps.pulls.seen import change_key
from apps.repos.access import level_on
from apps.repos.models import BRANCHES, Approver, Protection, Ref, Repo, RepoQuerySet, protects
from apps.repos.protection_rules import ASKS_FOR_APPROVALS, CommentCounts
from apps.teams.models import LEVEL_OF, Member, Team
from apps.threads.models import Reply, ThreadKind
from apps.threads.queries import SHOWN

PULL = Statement(
    lambda: (
        Pull.objects.filter(repo=Parameter("repo"), number=Parameter("number"))
        .select_related("thread__created_by", "merged_by", "auto_merge_by")
        .defer("thread__body_html")
    )
)


def get_pull(repo: Repo, number: int) -> Pull:
    """The pull of this number, with its thread, people and repository loaded; 404."""
    pull: Pull | None = PULL.first(repo=repo.pk, number=number)
    if pull is None:
        raise Missing("pull", number, repo.path)
    pull.repo = repo
    return pull


def list_pulls(repo: int | Parameter) -> QuerySet[Pull, tuple[Any, ...]]:
    """The pulls of the repository with this id, newest first, as values of `PULL_ROW`."""
    return Pull.objects.filter(repo=repo).in_order(ORDERINGS[0]).values_list(*PULL_ROW.values())


# Compiling this query takes a quarter of the list's time (bench/api.py).
PULLS = Statement(lambda: list_pulls(Parameter("repo")))


def list_reviews(pull: Pull) -> ReviewQuerySet:
    """The reviews of a pull, oldest first, with the rows that their records need."""
    return pull.reviews.with_people(pull.repo).order_by("created_at", "id")


def comments_of(pull: Pull) -> QuerySet[Reply]:
    """The comments on lines of a pull that readers see, by path, line and number.
    The path is that of the commit that was commented, so that a push does not change the order.
    """
    rows = Reply.objects.filter(SHOWN, anchor__thread=pull.thread_id)
    return rows.order_by("anchor__path", "anchor__line", "anchor__number")


def with_open_pulls(repos: RepoQuerySet) -> RepoQuerySet:
    """Annotate repositories with `open_pulls`, at most one more than `MOST_COUNTED`."""
    return repos.annotate(open_pulls=CountOf(Pull.objects.filter(IS_ACTIVE, repo=OuterRef("pk"))))


# Pulls of branches and commits: the functions of `PullsOfCode` in `apps/repos/queries.py`

NUMBERS_MAX = 10
"""Most pulls that are listed for a branch or a commit."""


@cache
def _of_branches(count: int) -> Statement:
    """Selects the active pulls from this many branches of a repository into it, oldest first."""
    # Literal statuses, because the partial index of active pulls does not match parameters. The
    # sums prevent SQLite from scanning all pulls of the repository by another index.
    states = [RawSQL(f"'{status.value}'", ()) for status in ACTIVE]  # noqa: S611 - our own words
    rows = Pull.objects.alias(into=F("repo") + 0).filter(
        source_repo=Parameter("repo"),
        into=F("source_repo"),
        status__in=states,
        source_branch__in=parameters("branches", count),
    )
    rows = rows.order_by(F("number") + 0)
    return Statement(lambda: rows.values_list("source_branch", "number"))


def head_of(repo: Repo, number: int) -> str | None:
    """The commit of a pull's head; None if there is no such pull or head."""
    return repo.pulls.filter(number=number).values_list("head_sha", flat=True).first()


def open_numbers(repo: Repo, branches: list[str]) -> dict[str, list[int]]:
    """Source branch -> the numbers of at most ten open or draft pulls within this repository."""
    if not branches:
        return {}
    numbers = defaultdict[str, list[int]](list)
    for branch, number in _of_branches(len(branches)).all(repo=repo.pk, branches=branches):
        if len(numbers[branch]) < NUMBERS_MAX:
            numbers[branch].append(number)
    return dict(numbers)


def numbers_with(repo: Repo, sha: str) -> list[int]:
    """The numbers of at most ten pulls whose head or merge commit this is."""
    rows = repo.pulls.filter(Q(head_sha=sha) | Q(merge_commit_sha=sha)).order_by("number")
    return [*rows.values_list("number", flat=True)[:NUMBERS_MAX]]


def active_with_head(repo: Repo, sha: str) -> list[Pull]:
    """At most ten open and draft pulls with this head, with their threads."""
    rows = repo.pulls.filter(IS_ACTIVE, head_sha=sha).select_related("repo", "thread")
    return [*rows.order_by("number")[:NUMBERS_MAX]]


def from_source_of(repo: int | Parameter) -> Exists:
    """The condition for rows with a `repo`: a pull comes from there into the repository with this
    id.
    """
    return Exists(Pull.objects.filter(repo=repo, source_repo=OuterRef("repo")))


# Pulls of all repositories that wait for a person

WRITERS = [role.value for role, level in LEVEL_OF.items() if level >= Level.WRITE]

TAKES_CHANGES = (
    Q(repo__is_archived=False)
    & ~Q(repo__owner_team__is_active=False)
    & Q(
        Coalesce(
            # With a join of accounts, PostgreSQL would read all pulls.
            Subquery(User.objects.filter(pk=OuterRef("repo__owner_user")).values("is_active")),
            True,
            output_field=BooleanField(),
        )
    )
)
"""Pulls whose repository accepts changes: `rules.takes_changes` as a condition."""


def awaiting_review_from(rows: PullQuerySet, person: User, caller: Principal) -> PullQuerySet:
    """The open pulls that wait for a review by this person, as far as the caller may know.

    Either somebody has asked for it, and it has not been made since. Or a protection asks for the
    person (`approval.asks`), who is eligible (`Eligibility.reason_against`) and has no decision, a
    dismissed one, or an approval for a former target. Other stale approvals count: only git can
    tell that they are.
    """
    waiting = _pulls_waiting_for(person, caller).union(_pulls_requested_from(person))
    may_decide = person.is_active and not person.is_bot
    return rows.filter(pk__in=waiting) if may_decide else rows.none()


def _pulls_waiting_for(person: User, caller: Principal) -> QuerySet[Any, Any]:
    """From the protections that ask for the person, as other protections may have many pulls."""
    pushed_by_others = Q(head_sha=None) | ~Q(head_pushed_by=person.pk)
    pulls = Pull.objects.filter(
        TAKES_CHANGES,
        Repo.objects.where_readable(Principal(person), "repo"),
        pushed_by_others,
        Q(head_sha=None) | Q(head_pushed_by__isnull=False),
        protects(F("repo__protections__branch"), F("target_branch")),
        repo__protections__in=_protections_asking(person, caller),
        status=PullStatus.OPEN.value,
    )
    undecided = pulls.exclude(thread__created_by=person.pk).annotate(decision=_decision_of(person))
    return undecided.filter(decision=ReviewStatus.DISMISSED.value).values("pk")


def _pulls_requested_from(person: User) -> QuerySet[Any, Any]:
    requests = pending(ReviewRequest.objects.filter(user=person.pk)).values("pull")
    return Pull.objects.filter(
        TAKES_CHANGES,
        Repo.objects.where_readable(Principal(person), "repo"),
        pk__in=requests,
        status=PullStatus.OPEN.value,
    ).values("pk")


def _protections_asking(person: User, caller: Principal) -> QuerySet[Any, Any]:
    """The ids of the protections that ask for the person's approval: those that name the person,
    and those that name nobody, require approvals, and are in a repository that the person may write
    to as its owner, or in a team that the caller may read: members of other teams are secret. The
    access of staff does not count, or every pull would wait for all of them.
    """
    readable = Team.objects.readable_by(caller)
    teams = readable.filter(members__user=person.pk, members__role__in=WRITERS).values("pk")
    own = Repo.objects.filter(owner_user=person.pk).values("pk")
    writable = own.union(Repo.objects.filter(owner_team__in=teams).values("pk"))
    naming = Approver.objects.filter(user=person.pk).values("protection")
    unnamed = Protection.objects.filter(ASKS_FOR_APPROVALS, approvers=None)
    return naming.union(unnamed.filter(repo__in=writable).values("pk"))


def _decision_of(person: User) -> Coalesce:
    reviews = Review.objects.filter(pull=OuterRef("pk"), created_by=person.pk)
    decisions = reviews.exclude(status=ReviewStatus.COMMENTED.value)
    changed_at = OuterRef("target_changed_at")
    is_void = Q(status=ReviewStatus.APPROVED.value, decided_at__lt=changed_at)
    dismissed = Value(ReviewStatus.DISMISSED.value)
    present = Case(When(is_void, then=dismissed), default=F("status"))
    newest = decisions.annotate(present=present).order_by("-decided_at", "-id").values("present")
    return Coalesce(Subquery(newest[:1]), dismissed)


NEWEST_ACTIVITY = ("-thread__last_activity_at", "-thread__uuid")
COLUMNS = (
    "number",
    "status",
    "source_branch",
    "target_branch",
    "target_changed_at",
    "head_sha",
    "head_pushed_by",
    "additions",
    "deletions",
    "changed_files",
    "has_conflict",
    "nothing_to_merge",
    "repo",
    "thread",
    "thread__title",
    "thread__last_activity_at",
    "thread__created_by",
    "thread__created_by__username",
    "thread__created_by__is_bot",
    "repo__slug",
    "repo__visibility",
    "repo__deletion",
    "repo__owner_team",
    "repo__owner_user",
    "repo__owner_team__slug",
    "repo__owner_team__is_active",
    "repo__owner_team__second_factor_required",
    "repo__owner_user__username",
)
"""The columns of a row in a list of pulls."""
ENDED = [PullStatus.MERGED.value, PullStatus.CLOSED.value]


@dataclass(frozen=True)
class StoredEligibility(Eligibility):
    """The eligibility for decisions, from stored rows only."""

    def is_stale(self, review: Review) -> bool:
        """Whether head or target have changed since the decision. git is not asked for merge
        results.
        """
        return self.is_of_former_target(review) or review.commit_sha != self.pull.head_sha


@dataclass(frozen=True)
class OwnPull:
    """A pull that a person opened, and whether it can be merged."""

    pull: Pull
    approval: Approval
    checks: Checks
    may_write: bool
    """Whether the person may write to the repository."""
    requests: Sequence[ReviewRequest] = ()
    """The pending requests for reviews."""
    unresolved: int = 0
    """The number of comments on lines that must be resolved first."""

    @property
    def missing_branch(self) -> str | None:
        """The branch that does not exist; None if both exist."""
        if not getattr(self.pull, "has_source", True):
            return self.pull.source_branch
        return None if getattr(self.pull, "has_target", True) else self.pull.target_branch


def pulls_awaiting(principal: Principal, most: int) -> list[Pull]:
    """At most `most` pulls that wait for the person's review, newest activity first; one query.
    `asked_by` is the username of the person who has asked for it, None if only protections ask.
    """
    return first_rows(principal, _awaiting, most)


def _awaiting(principal: Principal) -> PullQuerySet:
    own = ReviewRequest.objects.filter(pull=OuterRef("pk"), user=principal.user.pk)
    rows = awaiting_review_from(_pulls(), principal.user, principal)
    asker = Subquery(pending(own).values("requested_by__username")[:1])
    return rows.annotate(asked_by=asker).order_by(*NEWEST_ACTIVITY)


def own_pulls(principal: Principal, most: int) -> list[OwnPull]:
    """At most `most` active pulls that the person opened and may read, newest activity first; five
    queries, one if a status is required, and one if comments must be resolved.
    """
    pulls = first_rows(principal, _active, most)
    repos = {pull.repo_id: pull.repo for pull in pulls}
    for pull in pulls:
        pull.repo = repos[pull.repo_id]
    prefetch_related_objects(
        [*repos.values()],
        Prefetch("protections", Protection.objects.order_by("created_at", "id")),
        Prefetch("protections__approvers", Approver.with_roles()),
    )
    prefetch_related_objects(pulls, Prefetch("reviews", _decisions_with_roles()))
    approvals = [_approval(pull) for pull in pulls]
    checks = checks_of_all(
        (approval.eligibility.pull, approval.protections) for approval in approvals
    )
    requests = pending_by_pull([pull.pk for pull in pulls])
    comments = _required_comments(approvals)
    return [
        OwnPull(
            pull,
            approval,
            checks_of_pull,
            level_on(principal, pull.repo, getattr(pull, "role", None)) >= Level.WRITE,
            requests.get(pull.pk, ()),
            comments.get(pull.thread_id, CommentCounts()).unresolved,
        )
        for pull, approval, checks_of_pull in zip(pulls, approvals, checks, strict=True)
    ]


def _required_comments(approvals: Iterable[Approval]) -> dict[int, CommentCounts]:
    """The counts of comments of the pulls that need them resolved; one query, or none."""
    threads = [
        one.eligibility.pull.thread_id
        for one in approvals
        if any(protection.resolved_required for protection in one.protections)
    ]
    return comment_counts(threads) if threads else {}


def _active(principal: Principal) -> PullQuerySet:
    """The active pulls that the person opened and may read."""
    role = Member.objects.filter(team=OuterRef("repo__owner_team"), user=principal.user.pk)
    keeps_head = Q(source_repo=None) | Q(source_moved=True)
    rows = _own(principal).visible_to(principal).filter(IS_ACTIVE, TAKES_CHANGES)
    return rows.annotate(
        role=Subquery(role.values("role")[:1]),
        has_source=keeps_head | Q(_branch("source_repo", "source_branch")),
        has_target=_branch("repo", "target_branch"),
    ).order_by(*NEWEST_ACTIVITY)


def list_ended(principal: Principal) -> PullQuerySet:
    """The merged and closed pulls that the person opened and may read, newest activity first."""
    return _own(principal).visible_to(principal).filter(status__in=ENDED).order_by(*NEWEST_ACTIVITY)


def _pulls() -> PullQuerySet:
    """Pulls with the columns of a row in a list. Reading all columns would take twice as long."""
    people = ("thread__created_by", "repo__owner_team", "repo__owner_user")
    rows = Pull.objects.filter(thread__kind=ThreadKind.PULL.value)
    return rows.select_related(*people).only(*COLUMNS)


def _own(principal: Principal) -> PullQuerySet:
    return _pulls().filter(thread__created_by=principal.user.pk)


def _branch(repo: str, name: str) -> Exists:
    full_name = Concat(Value(BRANCHES), OuterRef(name))
    return Exists(Ref.objects.filter(repo=OuterRef(repo), full_name=full_name))


def _decisions_with_roles() -> ReviewQuerySet:
    """Decisions, oldest first, with their authors and the authors' roles."""
    team, author = OuterRef("pull__repo__owner_team"), OuterRef("created_by")
    role = Member.objects.filter(team=team, user=author).values("role")[:1]
    rows = Review.objects.decisions().select_related("created_by").defer("body", "body_html")
    return rows.annotate(author_role=Subquery(role))


def _approval(pull: Pull) -> Approval:
    """From the loaded rows of `own_pulls`."""
    protections = pull.repo.protections.all()
    matching = [row for row in protections if row.matches(pull.target_branch)]
    return Approval(StoredEligibility(pull, matching, GitFacts()), pull.reviews.all())


@dataclass(frozen=True)
class Progress:
    """How far a person has read the changes of a pull: the keys of the viewed files, and the
    newest versions that they have opened.
    """

    keys: frozenset[str] = frozenset()
    seen_version: int | None = None
    previous_version: int | None = None

    def has_viewed(self, file: FileChange) -> bool:
        return bool(self.keys) and change_key(file) in self.keys


def progress_of(pull: Pull, person_id: int | None) -> Progress:
    """The progress of a person; one query, none for a caller without an account."""
    if person_id is None:
        return Progress()
    own, nothing = {"pull": pull, "user": person_id}, Cast(Value(None), BigIntegerField())
    keys = ViewedFile.objects.filter(**own).values_list("key", nothing, nothing)
    seen = SeenVersion.objects.filter(**own)
    no_key = Value("", CharField())
    rows = [*keys.union(seen.values_list(no_key, "version", "previous_version"), all=True)]
    versions = next((row[1:] for row in rows if not row[0]), (None, None))
    return Progress(frozenset(row[0] for row in rows if row[0]), *versions)

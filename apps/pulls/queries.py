"""What the API, the pages and the event scopes read of pulls and reviews."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db.models import (
    BooleanField,
    Exists,
    F,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Subquery,
    Value,
)
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce, Concat

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.lookup import Missing
from apps.core.pagination import CountOf
from apps.core.statements import Parameter, Statement, parameters
from apps.git.facts import GitFacts
from apps.pulls.approval import Approval, Eligibility, LoadedApproval
from apps.pulls.models import (
    ACTIVE,
    IS_ACTIVE,
    PULL_ROW,
    Pull,
    PullQuerySet,
    PullStatus,
    Review,
    ReviewQuerySet,
    ReviewStatus,
)
from apps.pulls.rules import ORDERINGS
from apps.repos.access import level_on
from apps.repos.models import BRANCHES, Approver, Protection, Ref, Repo, RepoQuerySet, protects
from apps.repos.protection_rules.reviews import ASKS_FOR_APPROVALS
from apps.teams.models import LEVEL_OF, Member, Team
from apps.threads.kinds import ThreadKind

PULL = Statement(
    lambda: (
        Pull.objects.filter(repo=Parameter("repo"), number=Parameter("number"))
        .select_related("thread__created_by", "merged_by")
        .defer("thread__body_html")
    )
)


def get_pull(repo: Repo, number: int) -> Pull:
    """The pull of this number with its thread, its people and its repository loaded; 404."""
    pull: Pull | None = PULL.first(repo=repo.pk, number=number)
    if pull is None:
        raise Missing("pull", number, repo.path)
    pull.repo = repo
    return pull


def list_pulls(repo: int | Parameter) -> QuerySet[Any, Any]:
    """A repository's pulls, by its id, newest first, as the values of `PULL_ROW`."""
    return Pull.objects.filter(repo=repo).in_order(ORDERINGS[0]).values_list(*PULL_ROW.values())


# Django spends a quarter of the time of the list on the text of this query (bench/api.py).
PULLS = Statement(lambda: list_pulls(Parameter("repo")))


def list_reviews(pull: Pull) -> ReviewQuerySet:
    """The reviews of a pull, oldest first, with what their records need."""
    return pull.reviews.with_people(pull.repo).order_by("created_at", "id")


def with_open_pulls(repos: RepoQuerySet) -> RepoQuerySet:
    """These repositories with the number of their open pulls and drafts as `open_pulls`; one more
    than `MOST_COUNTED` at most.
    """
    return repos.annotate(open_pulls=CountOf(Pull.objects.filter(IS_ACTIVE, repo=OuterRef("pk"))))


NUMBERS_MAX = 10


@cache
def of_branches(count: int) -> Statement:
    """Selects the active pulls from so many branches of a repository into it, oldest first."""
    # The states stand in the text, so that the index of active pulls serves; the sums keep SQLite
    # from walking through all pulls of the repository instead.
    states = [RawSQL(f"'{status.value}'", ()) for status in ACTIVE]  # noqa: S611 - words of ours
    rows = Pull.objects.alias(into=F("repo") + 0).filter(
        source_repo=Parameter("repo"),
        into=F("source_repo"),
        status__in=states,
        source_branch__in=parameters("branches", count),
    )
    rows = rows.order_by(F("number") + 0)
    return Statement(lambda: rows.values_list("source_branch", "number"))


def head_of(repo: Repo, number: int) -> str | None:
    """The commit of a pull's head; None where there is none."""
    return repo.pulls.filter(number=number).values_list("head_sha", flat=True).first()


def open_numbers(repo: Repo, branches: list[str]) -> dict[str, list[int]]:
    """Source branch of this repository -> its open and draft pulls into it, ten at most."""
    if not branches:
        return {}
    found = defaultdict[str, list[int]](list)
    for branch, number in of_branches(len(branches)).all(repo=repo.pk, branches=branches):
        if len(found[branch]) < NUMBERS_MAX:
            found[branch].append(number)
    return dict(found)


def numbers_with(repo: Repo, sha: str) -> list[int]:
    """The pulls that have this commit as a head or that were merged by it, ten at most."""
    rows = repo.pulls.filter(Q(head_sha=sha) | Q(merge_commit_sha=sha)).order_by("number")
    return [*rows.values_list("number", flat=True)[:NUMBERS_MAX]]


WRITERS = [role.value for role, level in LEVEL_OF.items() if level >= Level.WRITE]

TAKES_CHANGES = (
    Q(repo__is_archived=False)
    & ~Q(repo__owner_team__is_active=False)
    & Q(
        Coalesce(
            # A join of accounts would let PostgreSQL read all pulls.
            Subquery(User.objects.filter(pk=OuterRef("repo__owner_user")).values("is_active")),
            True,
            output_field=BooleanField(),
        )
    )
)
"""Pulls in repositories that more than staff may change: `rules.takes_changes` as a condition."""


def awaiting_review_from(rows: PullQuerySet, person: User, caller: Principal) -> PullQuerySet:
    """Those of these pulls that wait for a decision of this person, as far as the caller may know.

    They are open, where it can still be given, and a protection of the target `asks` for the
    person, whom no `Eligibility.reason_against` keeps from deciding, and who has not decided, or
    was dismissed. Whether an approval is stale is not asked: only git can tell.
    """
    waiting = _pulls_waiting_for(person, caller)
    return rows.filter(pk__in=waiting) if person.is_active else rows.none()


def _pulls_waiting_for(person: User, caller: Principal) -> QuerySet[Any, Any]:
    """Found from the protections that ask for the person, so that others cost nothing."""
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


def _protections_asking(person: User, caller: Principal) -> QuerySet[Any, Any]:
    """The ids of those that name the person, and of those that require approvals and name nobody
    where the person writes.

    That is as the owner, or by a role that the caller may see: it is secret who is in a team. What
    staff may do everywhere does not count, or every pull would wait for all of them.
    """
    seen = Team.objects.readable_by(caller)
    teams = seen.filter(members__user=person.pk, members__role__in=WRITERS).values("pk")
    own = Repo.objects.filter(owner_user=person.pk).values("pk")
    written = own.union(Repo.objects.filter(owner_team__in=teams).values("pk"))
    named = Approver.objects.filter(user=person.pk).values("protection")
    asking = Protection.objects.filter(ASKS_FOR_APPROVALS, approvers=None)
    return named.union(asking.filter(repo__in=written).values("pk"))


def _decision_of(person: User) -> Coalesce:
    """What the person decided last of a pull; `dismissed` also where that is nothing."""
    reviews = Review.objects.filter(pull=OuterRef("pk"), created_by=person.pk)
    decisions = reviews.exclude(status=ReviewStatus.COMMENTED.value)
    newest = decisions.order_by("-decided_at", "-id").values("status")[:1]
    return Coalesce(Subquery(newest), Value(ReviewStatus.DISMISSED.value))


LATELY = ("-thread__last_activity_at", "-thread__uuid")
COLUMNS = (
    *("number", "status", "source_branch", "target_branch", "head_sha", "head_pushed_by"),
    *("additions", "deletions", "changed_files", "has_conflict", "nothing_to_merge", "repo"),
    *("thread", "thread__title", "thread__last_activity_at", "thread__created_by"),
    *("thread__created_by__username", "repo__slug", "repo__visibility", "repo__owner_team"),
    *("repo__owner_user", "repo__owner_team__slug", "repo__owner_team__is_active"),
    "repo__owner_user__username",
)
ENDED = [PullStatus.MERGED.value, PullStatus.CLOSED.value]


@dataclass(frozen=True)
class StoredEligibility(Eligibility):
    """Whose decision counts, as far as rows tell."""

    def is_stale(self, review: Review) -> bool:
        """Whether the head has moved since: what merging would give, only git can tell."""
        return review.commit_sha != self.pull.head_sha


@dataclass(frozen=True)
class OwnPull:
    """A pull that somebody opened, and what rows tell of merging it."""

    pull: Pull
    approval: Approval
    may_write: bool

    @property
    def missing_branch(self) -> str | None:
        """The branch that does not exist; None where both do."""
        if not getattr(self.pull, "has_source", True):
            return self.pull.source_branch
        return None if getattr(self.pull, "has_target", True) else self.pull.target_branch


def pulls_awaiting(principal: Principal, most: int) -> list[Pull]:
    """The newest pulls, by activity, that wait for the person's review; one query."""
    rows = awaiting_review_from(_pulls(), principal.user, principal)
    return list(rows.order_by(*LATELY)[:most])


def own_pulls(principal: Principal, most: int) -> list[OwnPull]:
    """The newest open pulls and drafts that the person opened and may read; four queries."""
    role = Member.objects.filter(team=OuterRef("repo__owner_team"), user=principal.user.pk)
    moved = Q(source_repo=None) | Q(source_moved=True)
    rows = _own(principal).visible_to(principal).filter(IS_ACTIVE, TAKES_CHANGES)
    found = rows.annotate(
        role=Subquery(role.values("role")[:1]),
        has_source=moved | Q(_branch("source_repo", "source_branch")),
        has_target=_branch("repo", "target_branch"),
    )
    pulls = list(found.order_by(*LATELY)[:most])
    reviews, protections = _reviews_of(pulls), _protections_of(pulls)
    return [
        OwnPull(
            pull,
            _approval(pull, protections[pull.repo_id], reviews[pull.pk]),
            level_on(principal, pull.repo, getattr(pull, "role", None)) >= Level.WRITE,
        )
        for pull in pulls
    ]


def list_ended(principal: Principal) -> PullQuerySet:
    """The merged and closed pulls that the person opened and may read, newest activity first."""
    return _own(principal).visible_to(principal).filter(status__in=ENDED).order_by(*LATELY)


def _pulls() -> PullQuerySet:
    """Pulls with what a row of a list shows of them: all columns take twice as long."""
    people = ("thread__created_by", "repo__owner_team", "repo__owner_user")
    rows = Pull.objects.filter(thread__kind=ThreadKind.PULL.value)
    return rows.select_related(*people).only(*COLUMNS)


def _own(principal: Principal) -> PullQuerySet:
    return _pulls().filter(thread__created_by=principal.user.pk)


def _branch(repo: str, name: str) -> Exists:
    """Whether there is a branch of the name in this column, in that repository."""
    full_name = Concat(Value(BRANCHES), OuterRef(name))
    return Exists(Ref.objects.filter(repo=OuterRef(repo), full_name=full_name))


def _reviews_of(pulls: Sequence[Pull]) -> defaultdict[int, list[Review]]:
    """The decisions of these pulls, oldest first, with their authors and the roles of these."""
    roles = Member.objects.filter(
        team=OuterRef("pull__repo__owner_team"), user=OuterRef("created_by")
    )
    rows = Review.objects.decisions().filter(pull__in=pulls).select_related("created_by")
    rows = rows.annotate(author_role=Subquery(roles.values("role")[:1]))
    by_pull, found = {pull.pk: pull for pull in pulls}, defaultdict[int, list[Review]](list)
    for review in rows.defer("body", "body_html") if pulls else ():
        review.pull = by_pull[review.pull_id]
        found[review.pull_id].append(review)
    return found


def _protections_of(pulls: Sequence[Pull]) -> defaultdict[int, list[Protection]]:
    """The protections of the repositories of these pulls, oldest first, with their approvers."""
    rows = Protection.objects.filter(repo__in={pull.repo_id for pull in pulls})
    rows = rows.prefetch_related(Prefetch("approvers", Approver.with_roles()))
    found = defaultdict[int, list[Protection]](list)
    for protection in rows.order_by("created_at", "id") if pulls else ():
        found[protection.repo_id].append(protection)
    return found


def _approval(pull: Pull, protections: Sequence[Any], reviews: Sequence[Review]) -> Approval:
    matching = [one for one in protections if one.matches(pull.target_branch)]
    return LoadedApproval(StoredEligibility(pull, matching, GitFacts()), reviews)

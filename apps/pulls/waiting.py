"""Which pulls wait for the review of somebody: `approval.py` asked of all pulls at once, in SQL.

docs/protections.md says it in words.
"""

from __future__ import annotations

from typing import Any

from django.db.models import BooleanField, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.pulls.models import Pull, PullQuerySet, PullStatus, Review, ReviewStatus
from apps.repos.models import Approver, Protection, Repo, protects
from apps.repos.protection_rules import ASKS_FOR_APPROVALS
from apps.teams.models import LEVEL_OF, Team

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

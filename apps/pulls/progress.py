"""What the pulls of all repositories wait for that somebody opened, or is asked to review.

Rows alone tell it, in as many queries for many pulls as for one; git is not asked. Conflicts
are those that the worker has stored, and an approval of another head than the present one does not
count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, Q, Subquery, Value
from django.db.models.functions import Concat

from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.git.cache import GitFacts
from apps.pulls.approval import Approval, Eligibility, LoadedApproval
from apps.pulls.models import IS_ACTIVE, Pull, PullQuerySet, PullStatus, Review
from apps.pulls.waiting import TAKES_CHANGES, awaiting_review_from
from apps.repos.access import level_on
from apps.repos.models import BRANCHES, Approver, Protection, Ref, Repo
from apps.teams.models import Member
from apps.threads.models import ThreadKind

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
    rows = _own(principal).filter(IS_ACTIVE, TAKES_CHANGES)
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
    return _own(principal).filter(status__in=ENDED).order_by(*LATELY)


def _pulls() -> PullQuerySet:
    """Pulls with what a row of a list shows of them: all columns take twice as long."""
    people = ("thread__created_by", "repo__owner_team", "repo__owner_user")
    rows = Pull.objects.filter(thread__kind=ThreadKind.PULL.value)
    return rows.select_related(*people).only(*COLUMNS)


def _own(principal: Principal) -> PullQuerySet:
    readable = Repo.objects.where_readable(principal, "repo")
    return _pulls().filter(readable, thread__created_by=principal.user.pk)


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

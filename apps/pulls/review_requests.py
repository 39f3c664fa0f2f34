"""Requests for reviews: which are pending, and who may be asked (docs/pulls.md).

A request is pending until the person reviews the pull. It is hidden while the person cannot read
the repository.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from apps.accounts.models import NOT_GONE, User
from apps.accounts.principal import Principal
from apps.accounts.rules import check_no_bot
from apps.core.access import Level
from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.core.statements import Statement, padded, parameters
from apps.pulls.models import Pull, Review, ReviewRequest, ReviewStatus
from apps.repos.access import RepoAccess, level_on
from apps.repos.models import Repo
from apps.teams.models import Member

FULFILLING = [
    status.value
    for status in (ReviewStatus.APPROVED, ReviewStatus.CHANGES_REQUESTED, ReviewStatus.COMMENTED)
]
"""The statuses of reviews that fulfil a request. A dismissed one does not."""
PENDING = "pending"
"""The state of a request without such a review."""
MOST_LISTED = 100
Rows = QuerySet[ReviewRequest, Any]


def reviews_since() -> QuerySet[Review, Any]:
    """The reviews that fulfil the request of the outer query."""
    return Review.objects.filter(
        pull=OuterRef("pull"),
        created_by=OuterRef("user"),
        status__in=FULFILLING,
        decided_at__gte=OuterRef("requested_at"),
    )


def pending(rows: Rows) -> Rows:
    """The requests among these that no review has fulfilled."""
    return rows.filter(~Exists(reviews_since()))


def with_people(rows: Rows) -> Rows:
    """Requests, oldest first, with the people of their records, and the asked person's role in the
    repository's team.
    """
    roles = Member.objects.filter(team=OuterRef("pull__repo__owner_team"), user=OuterRef("user"))
    related = rows.select_related("user", "requested_by", "pull__repo__owner_team")
    return related.annotate(role=Subquery(roles.values("role")[:1])).order_by("requested_at", "id")


def can_review(person: User, repo: Repo, role: str | None) -> bool:
    """Whether the person with this role in the repository's team is active and may read it."""
    return person.is_active and level_on(Principal(person), repo, role) >= Level.READ


def is_visible(row: ReviewRequest) -> bool:
    """Whether the asked person of a row of `with_people` can still review the pull."""
    return can_review(row.user, row.pull.repo, role_of(row))


def role_of(row: object) -> str | None:
    """The annotated role of a row of `with_people` or `named_people`."""
    role: str | None = getattr(row, "role", None)
    return role


@cache
def _pending_of(count: int) -> Statement:
    pulls: Any = parameters("pulls", count)
    return Statement(lambda: with_people(pending(ReviewRequest.objects.filter(pull__id__in=pulls))))


def pending_by_pull(pulls: Collection[int]) -> dict[int, list[ReviewRequest]]:
    """Pull's id -> its pending requests to people who can review it; one query, or none."""
    requests = defaultdict[int, list[ReviewRequest]](list)
    some = padded(pulls) if pulls else []
    for row in _pending_of(len(some)).all(pulls=some) if some else ():
        if is_visible(row):
            requests[row.pull_id].append(row)
    return dict(requests)


def has_pending_request(pull: Pull, person_id: int) -> bool:
    return pending(pull.review_requests.filter(user=person_id)).exists()


def list_requests(pull: Pull) -> list[ReviewRequest]:
    """The newest `MOST_LISTED` requests of a pull, oldest first, of people who can review it, with
    `review_status` and `review_uuid` of the newest review that fulfils each; one query.
    """
    newest = reviews_since().order_by("-decided_at", "-id")
    rows = with_people(pull.review_requests.all()).annotate(
        review_status=Subquery(newest.values("status")[:1]),
        review_uuid=Subquery(newest.values("uuid")[:1]),
    )
    newest_rows = rows.order_by("-requested_at", "-id")[:MOST_LISTED]
    return [row for row in reversed(newest_rows) if is_visible(row)]


def may_ask(access: RepoAccess, pull: Pull) -> bool:
    """Whether this caller may ask people to review the pull: its author, or with write access."""
    is_author = access.principal.person_id == pull.thread.created_by_id
    return is_author or access.level >= Level.WRITE


def named_people(repo: Repo, names: Sequence[str]) -> list[User]:
    """The people with these usernames, ignoring case, each once, with their `role` in the
    repository's team; one query. 422 `user_not_found`.
    """
    roles = Member.objects.filter(team=repo.owner_team_id, user=OuterRef("pk")).values("role")[:1]
    keys = [*dict.fromkeys(name.lower() for name in names)]
    people = User.objects.filter(NOT_GONE, username_key__in=keys).annotate(role=Subquery(roles))
    by_key = {person.username_key: person for person in people}
    for name in names:
        if name.lower() not in by_key:
            raise Invalid("user_not_found", f"There is no user {quoted(name)}.")
    return [by_key[key] for key in keys]


def check_may_be_asked(pull: Pull, person: User) -> None:
    """422 unless a row of `named_people` is an active person who can read the repository, and who
    did not open the pull.
    """
    check_no_bot(person, "reviewers")
    if person.pk == pull.thread.created_by_id:
        raise Invalid("validation_failed", f"reviewers: {person.username} has opened the pull.")
    if not person.is_active:
        raise Invalid("validation_failed", f"reviewers: {person.username} has been deactivated.")
    if not can_review(person, pull.repo, role_of(person)):
        text = f"{person.username} has no access to {pull.repo} and cannot review there."
        raise Invalid("reviewer_lacks_access", text)

"""The actions that ask people for reviews of a pull."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.core.access import Level
from apps.core.errors import Invalid
from apps.core.locks import lock
from apps.events.kinds import Kind, PingKind
from apps.events.record import Change, record_all
from apps.pulls import review_requests, rules
from apps.pulls.models import Pull, PullStatus, ReviewRequest
from apps.repos.access import RepoAccess
from apps.repos.models import NAMES_MAX


@transaction.atomic
def set_reviewers(
    *, access: RepoAccess, pull: Pull, reviewers: Sequence[str] | None = None
) -> None:
    """Ask the people with these usernames for a review, and no others; None changes nothing. A
    person who has reviewed the pull is asked again. Locks the pull.

    Requires write access, or to have opened the pull. Errors: 409 `pull_already_merged`,
    `pull_closed`; 422 `user_not_found`, `reviewer_lacks_access`, and `validation_failed` for the
    author, a bot, an inactive account, or more than `NAMES_MAX` people.
    """
    _check_may_ask(access, pull)
    lock(pull)
    if reviewers is not None:
        _ask(access, pull, _visible(pull), reviewers)


@transaction.atomic
def change_reviewers(
    *, access: RepoAccess, pull: Pull, add: Sequence[str] = (), remove: Sequence[str] = ()
) -> None:
    """Ask further people for a review, and take requests back. Errors as of `set_reviewers`. Locks
    the pull.
    """
    _check_may_ask(access, pull)
    lock(pull)
    pending = _visible(pull)
    removed = {name.lower() for name in remove}
    names = [row.user.username for row in pending]
    _ask(access, pull, pending, [name for name in (*names, *add) if name.lower() not in removed])


def _check_may_ask(access: RepoAccess, pull: Pull) -> None:
    access.require_change(Level.READ)
    access.require_author_or(Level.WRITE, pull.thread.created_by_id, "pull")
    access.check_holds(pull)


def _visible(pull: Pull) -> list[ReviewRequest]:
    return review_requests.pending_by_pull([pull.pk]).get(pull.pk, [])


def _ask(
    access: RepoAccess, pull: Pull, visible: Sequence[ReviewRequest], names: Sequence[str]
) -> None:
    """Make the people with these names the only ones who are asked. `visible`: the requests to
    people who can review the pull. Those to others are hidden, and stay.
    """
    rules.check_active(pull)
    people = review_requests.named_people(pull.repo, names)
    if len(people) > NAMES_MAX:
        text = f"reviewers: At most {NAMES_MAX} people can be asked."
        raise Invalid("validation_failed", text)
    asked_already = {row.user_id for row in visible}
    added = [person for person in people if person.pk not in asked_already]
    for person in added:
        review_requests.check_may_be_asked(pull, person)
    ids = {person.pk for person in people}
    removed = [row for row in visible if row.user_id not in ids]
    if added or removed:
        _write(access.user, pull, added, removed)


def _write(
    actor: User, pull: Pull, added: Sequence[User], removed: Sequence[ReviewRequest]
) -> None:
    now = timezone.now()
    ReviewRequest.objects.bulk_create(
        [
            ReviewRequest(pull=pull, user=person, requested_by=actor, requested_at=now)
            for person in added
        ],
        update_conflicts=True,
        unique_fields=["pull", "user"],
        update_fields=["requested_by", "requested_at"],
    )
    ReviewRequest.objects.filter(pk__in=[row.pk for row in removed]).delete()
    pull.touch()
    pull.save(update_fields=["updated_at"])
    # A draft asks for reviews when it becomes ready.
    reason = [PingKind.REVIEW_REQUESTED] if pull.status == PullStatus.OPEN else []
    record_all(
        [
            *(
                Change(
                    Kind.REVIEW_REQUESTED,
                    actor,
                    pull,
                    {"username": person.username},
                    [(person, kind) for kind in reason],
                )
                for person in added
            ),
            *(
                Change(Kind.REVIEW_REQUEST_REMOVED, actor, pull, {"username": row.user.username})
                for row in removed
            ),
        ]
    )

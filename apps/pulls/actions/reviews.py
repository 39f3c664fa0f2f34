"""Writing, changing, dismissing and deleting reviews."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.core.access import Level
from apps.core.changes import given, set_changed
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.git.facts import GitFacts
from apps.pulls import rules
from apps.pulls.models import Pull, Review, ReviewStatus
from apps.pulls.tips import read_patch_id
from apps.repos.access import RepoAccess


def create_review(*, by: RepoAccess, pull: Pull, status: str, body: str = "") -> Review:
    """Review the pull's current head. Locks the pull, so that its head stays; asks git before."""
    by.require_change(Level.READ)
    return _create(by, pull, status, body, _read_facts(pull))


@transaction.atomic
def _create(by: RepoAccess, pull: Pull, status: str, body: str, facts: GitFacts) -> Review:
    by.check_holds(pull)
    lock(pull)
    _store_patch_id(pull, facts)
    review = Review.objects.create(
        pull=pull,
        status=status,
        body=body,
        commit_sha=pull.head_sha,
        patch_id=pull.patch_id,
        created_by=by.user,
    )
    record(Kind.REVIEW_CREATED, actor=by.user, about=review, data={"status": status})
    return review


def _read_facts(pull: Pull) -> GitFacts:
    """Ask git what `_store_patch_id` will need, before the lock."""
    facts = GitFacts()
    if pull.patch_id is None:
        read_patch_id(pull.repo.git, pull.base_sha, pull.head_sha, facts)
    return facts


def _store_patch_id(pull: Pull, facts: GitFacts) -> None:
    """Make sure that the pull says what it changes, so that the review can be compared with it."""
    if pull.patch_id is not None:
        return
    pull.patch_id = read_patch_id(pull.repo.git, pull.base_sha, pull.head_sha, facts)
    if pull.patch_id is not None:
        pull.save(update_fields=["patch_id"])


def update_review(
    *, by: RepoAccess, review: Review, status: str | None = None, body: str | None = None
) -> None:
    """Change the text or decision of one's own review, or dismiss any as an admin.

    A decision, also one that is repeated, is about the current head. Locks the pull and the review.
    Errors: 403 `role_required` for a dismissal, 409 `invalid_transition`, 403 `not_creator`.
    """
    by.require_change(Level.ADMIN if status == ReviewStatus.DISMISSED else Level.READ)
    decides = status not in (None, ReviewStatus.DISMISSED)
    _update(by, review, status, body, _read_facts(review.pull) if decides else GitFacts())


@transaction.atomic
def _update(
    by: RepoAccess, review: Review, status: str | None, body: str | None, facts: GitFacts
) -> None:
    _lock(by, review)
    dismisses = status == ReviewStatus.DISMISSED
    if status is not None and not dismisses:
        rules.check_not_dismissed(review)
    if body is not None or not dismisses:
        rules.check_reviewer(review, by.user)
    changed = _revise(by.user, review, status, body, facts)
    if not changed:
        return
    kind = Kind.REVIEW_UPDATED
    if dismisses and "status" in changed:
        kind = Kind.REVIEW_DISMISSED
    data = {"status": review.status, "changed": changed}
    record(kind, actor=by.user, about=review, data=data)


def _lock(by: RepoAccess, review: Review) -> None:
    by.check_holds(review.pull)
    lock(review.pull)
    lock(review)


def _revise(
    actor: User, review: Review, status: str | None, body: str | None, facts: GitFacts
) -> list[str]:
    """Save what differs; returns the names of those fields of the record."""
    wanted = given(body=body, status=status)
    decides = status not in (None, ReviewStatus.DISMISSED)
    if decides:
        wanted["commit_sha"] = review.pull.head_sha
    changed = set_changed(review, wanted)
    if decides and (changed or rules.has_decided_since(review)):
        _store_patch_id(review.pull, facts)
        review.patch_id, review.decided_at = review.pull.patch_id, timezone.now()
        changed = changed or ["status"]
    if review.status == ReviewStatus.DISMISSED and "status" in changed:
        review.dismissed_by = actor
    if changed:
        review.updated_at = timezone.now()
        stamps = ("dismissed_by", "patch_id", "decided_at", "updated_at")
        review.save(update_fields=[*changed, *stamps])
    return changed


@transaction.atomic
def delete_review(*, by: RepoAccess, review: Review) -> None:
    """Delete a review, as its author or an owner. Locks the pull, then it. 403 `not_creator`."""
    by.require_change(Level.READ)
    _lock(by, review)
    if by.level < Level.OWNER:
        rules.check_reviewer(review, by.user)
    review.delete()
    record(Kind.REVIEW_DELETED, actor=by.user, about=review, data={"status": review.status})

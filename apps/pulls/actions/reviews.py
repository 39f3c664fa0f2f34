"""Writing, changing, dismissing and deleting reviews."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.core.access import Level
from apps.core.changes import given, set_changed
from apps.core.locks import lock
from apps.core.rendered import rendered, rendered_for_edit, set_html
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind
from apps.events.record import record
from apps.pulls import rules
from apps.pulls.models import Pull, Review, ReviewStatus
from apps.pulls.tips import keep_head
from apps.repos.access import RepoAccess
from apps.repos.commits import note_commits
from apps.repos.mentions import pings_of_edit, pings_of_text
from apps.uploads.uses import forget_uses, note_uses


def create_review(
    *,
    by: RepoAccess,
    pull: Pull,
    status: str,
    body: str = "",
    expected_head_sha: str | None = None,
) -> Review:
    """Review the pull's current head. Locks the pull, so that its head stays.

    409 `head_changed` unless that is the expected one.
    """
    by.require_change(Level.READ)
    by.check_holds(pull)
    content = {"status": status, "body": body, **rendered(body)}
    return _create(by, pull, content, expected_head_sha)


@final_transaction
def _create(
    by: RepoAccess, pull: Pull, content: dict[str, Any], expected_head_sha: str | None
) -> Review:
    lock(pull)
    rules.check_head(pull.head_sha, expected_head_sha)
    if content["status"] == ReviewStatus.APPROVED:
        keep_head(pull)
    review = Review.objects.create(
        pull=pull,
        **content,
        commit_sha=pull.head_sha,
        by_pusher=pull.may_be_pushed_by(by.user),
        created_by=by.user,
    )
    pull.thread.touch()
    note_uses(pull.repo_id, review.uuid, review.body, by=by.user.pk)
    note_commits(pull.repo_id, review.body_html)
    pings, data = pings_of_text(by.repo, review.body_html), {"status": review.status}
    record(Kind.REVIEW_CREATED, actor=by.user, about=review, data=data, pings=pings)
    return review


def update_review(
    *,
    by: RepoAccess,
    review: Review,
    status: str | None = None,
    body: str | None = None,
    expected_head_sha: str | None = None,
) -> None:
    """Change the text or decision of one's own review, or dismiss any as an admin.

    A decision, also one that is repeated, is about the current head. Locks the pull and the review.
    Errors: 403 `role_required` for a dismissal, 409 `invalid_transition`, `head_changed` as in
    `create_review`, 403 `not_creator`.
    """
    dismisses = status == ReviewStatus.DISMISSED
    by.require_change(Level.ADMIN if dismisses else Level.READ)
    wanted = given(body=body, status=status)
    _update(by, review, wanted, rendered_for_edit(review, body), expected_head_sha)


@transaction.atomic
def _update(
    by: RepoAccess,
    review: Review,
    wanted: dict[str, Any],
    html: dict[str, Any],
    expected_head_sha: str | None,
) -> None:
    status, dismisses = wanted.get("status"), wanted.get("status") == ReviewStatus.DISMISSED
    _lock(by, review)
    if status is not None and not dismisses:
        rules.check_not_dismissed(review)
    if "body" in wanted or not dismisses:
        rules.check_reviewer(review, by.user)
    rules.check_head(review.pull.head_sha, expected_head_sha)
    text = review.body_html
    changed = _revise(by.user, review, wanted, html)
    if not changed:
        return
    review.pull.thread.touch()
    kind = Kind.REVIEW_UPDATED
    if dismisses and "status" in changed:
        kind = Kind.REVIEW_DISMISSED
    data = {"status": review.status, "changed": changed}
    pings = pings_of_edit(by.repo, review, text, review.body_html)
    record(kind, actor=by.user, about=review, data=data, pings=pings)


def _lock(by: RepoAccess, review: Review) -> None:
    by.check_holds(review.pull)
    lock(review.pull)
    lock(review)


def _revise(actor: User, review: Review, wanted: dict[str, Any], html: dict[str, Any]) -> list[str]:
    """Save what differs; returns the names of those fields of the record."""
    status = wanted.get("status")
    decides = status not in (None, ReviewStatus.DISMISSED)
    if decides:
        wanted["commit_sha"] = review.pull.head_sha
    changed = set_changed(review, wanted)
    if status == ReviewStatus.APPROVED:
        keep_head(review.pull)
    by_pusher = review.pull.may_be_pushed_by(actor)
    news = changed or review.by_pusher != by_pusher or rules.has_decided_since(review)
    if decides and news:
        review.decided_at, review.by_pusher = timezone.now(), by_pusher
        changed = changed or ["status"]
    if review.status == ReviewStatus.DISMISSED and "status" in changed:
        review.dismissed_by = actor
    if changed:
        review.updated_at = timezone.now()
        stamps = ("by_pusher", "dismissed_by", "decided_at", "updated_at")
        review.save(update_fields=[*changed, *stamps, *set_html(review, html, changed)])
        note_uses(review.pull.repo_id, review.uuid, review.body, by=actor.pk)
        note_commits(review.pull.repo_id, review.body_html)
    return changed


@transaction.atomic
def delete_review(*, by: RepoAccess, review: Review) -> None:
    """Delete a review, as its author or an owner. Locks the pull, then it. 403 `not_creator`."""
    by.require_change(Level.READ)
    _lock(by, review)
    if by.level < Level.OWNER:
        rules.check_reviewer(review, by.user)
    forget_uses([review.uuid])
    review.delete()
    record(Kind.REVIEW_DELETED, actor=by.user, about=review, data={"status": review.status})

"""Storing a review, which is sent at once or from a draft."""

from __future__ import annotations

from typing import Any

from apps.accounts.models import User
from apps.pulls import rules
from apps.pulls.heads import keep_head
from apps.pulls.models import Pull, Review, ReviewStatus
from apps.repos.commits import note_commits
from apps.uploads.uses import note_uses


def store_review(
    pull: Pull,
    person: User,
    content: dict[str, Any],
    expected_head: str | None,
    expected_target: str | None,
) -> Review:
    """Store a person's review of the current head with its rendered content; 409 `head_changed`,
    `target_changed`. The caller has checked access, holds the pull's lock and records the event.
    """
    rules.check_head(pull.head_sha, expected_head)
    rules.check_target(pull, expected_target)
    if content["status"] == ReviewStatus.APPROVED:
        keep_head(pull)
    review = Review.objects.create(
        pull=pull,
        **content,
        commit_sha=pull.head_sha,
        by_pusher=pull.may_be_pushed_by(person),
        created_by=person,
    )
    pull.thread.touch()
    note_uses(pull.repo_id, review.uuid, review.body, by=person.pk)
    note_commits(pull.repo_id, review.body_html)
    return review

"""Comments on lines of a pull: replies to its thread that have an anchor."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.utils import timezone

from apps.browse.names import path_in_tree
from apps.core.access import Level
from apps.core.errors import Invalid
from apps.core.locks import lock
from apps.core.rendered import rendered
from apps.core.transactions import final_transaction
from apps.pulls.models import Pull, Review
from apps.pulls.places import LinePlace, check_place, new_anchor
from apps.repos.access import RepoAccess
from apps.threads.actions import add_reply
from apps.threads.anchors import Anchor, Side
from apps.threads.models import Reply

COMMENT = "comment"


def create_comment(
    *,
    access: RepoAccess,
    pull: Pull,
    body: str,
    commit_sha: str,
    line: int,
    path: str = "",
    path_base64: str | None = None,
    start_line: int | None = None,
    side: str = Side.NEW,
    kind: str = COMMENT,
    review_uuid: UUID | None = None,
) -> Reply:
    """`comment_on_line`, with the place in the form of the API."""
    access.require_change(Level.READ)
    raw = path_in_tree(path, path_base64)
    place = LinePlace(commit_sha, raw, line, start_line, side)
    return comment_on_line(
        access=access, pull=pull, place=place, body=body, kind=kind, review_uuid=review_uuid
    )


def comment_on_line(
    *,
    access: RepoAccess,
    pull: Pull,
    place: LinePlace,
    body: str,
    kind: str = COMMENT,
    review_uuid: UUID | None = None,
) -> Reply:
    """Comment on lines of a version of a pull, open or closed. Locks the pull and its thread.

    A comment on an earlier version is shown where its lines are now. `review_uuid`: a review by the
    caller. Errors: those of `check_place`, 422 `review_not_found`.
    """
    access.require_change(Level.READ)
    access.check_holds(pull)
    _check_review(access, pull, review_uuid)
    checked = check_place(pull, place)
    anchor = new_anchor(pull, checked, access.user.pk)
    anchor.review_uuid = review_uuid
    content = {"kind": kind, "body": body, **rendered(body)}
    return _comment(access, pull, anchor, content)


@final_transaction
def _comment(access: RepoAccess, pull: Pull, anchor: Anchor, content: dict[str, Any]) -> Reply:
    version = pull.last_version
    lock(pull)
    if pull.last_version != version:  # somebody has pushed since git was asked
        anchor.due_at = timezone.now()
    pull.thread.repo = access.repo
    return add_reply(access=access, thread=pull.thread, content=content, anchor=anchor)


def _check_review(access: RepoAccess, pull: Pull, review_uuid: UUID | None) -> None:
    """422 `review_not_found` unless this is None or a review of the pull by the caller."""
    if review_uuid is None:
        return
    own = Review.objects.filter(pull=pull, created_by=access.user, uuid=review_uuid)
    if not own.exists():
        raise Invalid("review_not_found", "review_uuid: You have no such review of this pull.")

"""Draft reviews: each person writes one for a pull, and sends it or discards it.

No change of a draft has an event, because only its author may know of it. Each action takes the
draft of the caller; somebody else's does not exist for it (404).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from apps.browse.names import path_in_tree
from apps.core.access import Level
from apps.core.changes import given, set_changed
from apps.core.errors import Conflict
from apps.core.locks import lock
from apps.core.rendered import rendered, rendered_for_edit, set_html
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind
from apps.events.record import Change, Pinged, record_all
from apps.pulls.actions.commenting import COMMENT
from apps.pulls.auto_merge import follow_review
from apps.pulls.draft_reviews import (
    DRAFT_COMMENTS_MAX,
    DraftComment,
    DraftReview,
    own_comment,
    own_draft,
)
from apps.pulls.models import Pull, Review
from apps.pulls.places import CheckedPlace, LinePlace, anchor_of, check_place, new_anchors
from apps.pulls.reviewing import store_review
from apps.repos.access import RepoAccess
from apps.repos.mentions import pings_of_texts
from apps.threads.anchors import Anchor, Side
from apps.threads.models import Reply
from apps.threads.rules import find_parent
from apps.uploads.uses import forget_uses, note_uses


def update_draft(*, access: RepoAccess, pull: Pull, body: str | None = None) -> DraftReview:
    """Change the text of the caller's draft; begin one if there is none. Locks the pull."""
    access.require_change(Level.READ)
    access.check_holds(pull)
    html = rendered(body)
    with transaction.atomic():
        draft = _begun(access, pull)
        _revise(draft, given(body=body), html)
        note_uses(pull.repo_id, draft.uuid, draft.body, by=access.user.pk)
    return draft


@transaction.atomic
def discard_draft(*, access: RepoAccess, pull: Pull) -> None:
    """Delete the caller's draft with its comments. Locks the pull."""
    access.require_change(Level.READ)
    access.check_holds(pull)
    lock(pull)
    draft = own_draft(pull, access.user)
    forget_uses([draft.uuid, *draft.comments.values_list("uuid", flat=True)])
    draft.delete()


def add_draft_comment(
    *,
    access: RepoAccess,
    pull: Pull,
    body: str,
    kind: str = COMMENT,
    parent_reply_number: int | None = None,
    commit_sha: str = "",
    path: str = "",
    path_base64: str | None = None,
    line: int = 0,
    start_line: int | None = None,
    side: str = Side.NEW,
) -> DraftComment:
    """Add a comment on lines to the caller's draft, or with `parent_reply_number` an answer to a
    reply; begin a draft if there is none. Locks the pull, after asking git.

    409 `draft_limit`; the errors of `check_place`; those of a new reply for its parent.
    """
    access.require_change(Level.READ)
    access.check_holds(pull)
    content = {"kind": kind, "body": body, **rendered(body)}
    if parent_reply_number is not None:
        find_parent(pull.thread, parent_reply_number)
        content["parent_number"] = parent_reply_number
    else:
        place = LinePlace(commit_sha, path_in_tree(path, path_base64), line, start_line, side)
        content |= _columns(check_place(pull, place))
    return _add_comment(access, pull, content)


@final_transaction
def _add_comment(access: RepoAccess, pull: Pull, content: dict[str, Any]) -> DraftComment:
    draft = _begun(access, pull)
    if len(draft.comments.values_list("pk")[:DRAFT_COMMENTS_MAX]) == DRAFT_COMMENTS_MAX:
        text = f"Your draft has {DRAFT_COMMENTS_MAX} comments, the most allowed. Send it."
        raise Conflict("draft_limit", text)
    comment = DraftComment.objects.create(draft=draft, **content)
    draft.touch()
    note_uses(pull.repo_id, comment.uuid, comment.body, by=access.user.pk)
    return comment


def update_draft_comment(
    *,
    access: RepoAccess,
    pull: Pull,
    comment_uuid: UUID,
    body: str | None = None,
    kind: str | None = None,
) -> DraftComment:
    """Change the given fields of a comment in the caller's draft. Locks the pull."""
    access.require_change(Level.READ)
    access.check_holds(pull)
    html = rendered_for_edit(own_comment(pull, access.user, comment_uuid), body)
    with transaction.atomic():
        lock(pull)
        comment = own_comment(pull, access.user, comment_uuid)
        if _revise(comment, given(body=body, kind=kind), html):
            comment.draft.touch()
            note_uses(pull.repo_id, comment.uuid, comment.body, by=access.user.pk)
    return comment


@transaction.atomic
def delete_draft_comment(*, access: RepoAccess, pull: Pull, comment_uuid: UUID) -> None:
    """Delete a comment of the caller's draft. Locks the pull."""
    access.require_change(Level.READ)
    access.check_holds(pull)
    lock(pull)
    comment = own_comment(pull, access.user, comment_uuid)
    forget_uses([comment.uuid])
    comment.delete()
    comment.draft.touch()


def submit_draft(
    *,
    access: RepoAccess,
    pull: Pull,
    status: str,
    body: str | None = None,
    expected_head_sha: str | None = None,
    expected_target_branch: str | None = None,
) -> Review:
    """Send the caller's draft: a review, and a reply for each of its comments, with one event.
    `body` replaces the text of the draft. Locks the pull and its thread, after asking git.

    Comments are sent even if their lines are gone, or the reply that they answer was deleted. 409
    `head_changed` if another head is expected, `target_changed` if another target is.
    """
    access.require_change(Level.READ)
    access.check_holds(pull)
    draft = own_draft(pull, access.user)
    content: dict[str, Any] = {"status": status}
    if body is not None:
        content |= {"body": body, **rendered(body)}
    anchors = _anchors_of(pull, draft.comments.order_by("pk"), access.user.pk)
    expected = expected_head_sha, expected_target_branch
    return _submit(access, pull, content, expected, anchors)


@final_transaction
def _submit(
    access: RepoAccess,
    pull: Pull,
    content: dict[str, Any],
    expected: tuple[str | None, str | None],
    anchors: Mapping[UUID, Anchor],
) -> Review:
    version = pull.last_version
    lock(pull)
    draft = own_draft(pull, access.user)
    columns = ("uuid", "body", "body_html", "html_version")
    content = {name: getattr(draft, name) for name in columns} | content
    review = store_review(pull, access.user, content, *expected)
    comments = [*draft.comments.order_by("pk")]
    draft.delete()
    lock(pull.thread)
    pull.thread.repo = access.repo
    parents = _parents_of(pull, comments)
    numbers = []
    for comment in comments:
        anchor = anchors.get(comment.uuid) or _unplaced(comment)
        if anchor is not None and (comment.uuid not in anchors or pull.last_version != version):
            anchor.due_at = timezone.now()  # another tab has added it, or somebody has pushed
        parent = parents.get(comment.parent_number or 0)
        numbers.append(_add_reply(access, pull, comment, parent, anchor, review).number)
    data: dict[str, Any] = {"status": review.status}
    if numbers:
        data["reply_numbers"] = numbers
    pings = _pings(access, pull, review, comments, parents.values())
    ends = follow_review(review, access.user)
    record_all([Change(Kind.REVIEW_CREATED, access.user, review, data, pings), *ends])
    return review


def _add_reply(
    access: RepoAccess,
    pull: Pull,
    comment: DraftComment,
    parent: Reply | None,
    anchor: Anchor | None,
    review: Review,
) -> Reply:
    """The reply of a comment. The caller holds the locks of the pull and its thread."""
    columns = ("uuid", "kind", "body", "body_html", "html_version")
    content = {name: getattr(comment, name) for name in columns}
    reply = pull.thread.add_reply(parent, created_by=access.user, **content)
    if anchor is not None:
        anchor.reply, anchor.thread, anchor.number = reply, pull.thread, reply.number
        anchor.review_uuid = review.uuid
        anchor.save(force_insert=True)
    return reply


def _pings(
    access: RepoAccess,
    pull: Pull,
    review: Review,
    comments: Sequence[DraftComment],
    parents: Iterable[Reply],
) -> list[Pinged]:
    """The pings of all texts of a review: of mentioned people, and as for any reply of the author
    of the pull and of those who are answered.
    """
    texts = [review.body_html, *(comment.body_html for comment in comments)]
    answered = {parent.created_by_id for parent in parents}
    if comments:
        answered.add(pull.thread.created_by_id)
    return pings_of_texts(access.repo, texts, answered=answered - {access.user.pk})


def _begun(access: RepoAccess, pull: Pull) -> DraftReview:
    """The caller's draft, which begins now if there is none. Locks the pull, so that a draft that
    is being sent gets no further comments.
    """
    lock(pull)
    draft, _ = DraftReview.objects.get_or_create(pull=pull, created_by=access.user)
    draft.pull = pull
    return draft


def _revise(
    row: DraftReview | DraftComment, values: dict[str, Any], html: dict[str, Any]
) -> list[str]:
    """Save the changed fields of a draft or a comment; return their names."""
    changed = set_changed(row, values)
    if changed:
        row.updated_at = timezone.now()
        row.save(update_fields=[*changed, "updated_at", *set_html(row, html, changed)])
    return changed


def _columns(checked: CheckedPlace) -> dict[str, Any]:
    """The columns of a comment for its lines."""
    place = checked.place
    return {
        "commit_sha": place.commit_sha,
        "path": place.path,
        "side": place.side,
        "start_line": place.first,
        "line": place.line,
        "blob_sha": checked.blob_sha,
        "snippet": checked.snippet,
    }


def _checked(comment: DraftComment) -> CheckedPlace | None:
    """The lines of a comment, which were checked when it was written; None for an answer."""
    if comment.commit_sha is None or comment.path is None or comment.line is None:
        return None
    place = LinePlace(
        comment.commit_sha,
        bytes(comment.path),
        comment.line,
        comment.start_line,
        comment.side or Side.NEW,
    )
    return CheckedPlace(place, comment.blob_sha or "", comment.snippet)


def _anchors_of(pull: Pull, comments: Iterable[DraftComment], person_id: int) -> dict[UUID, Anchor]:
    """The anchors of comments on lines, by the comments' uuids. Asks git where the lines are."""
    places = {comment.uuid: checked for comment in comments if (checked := _checked(comment))}
    anchors = new_anchors(pull, [*places.values()], person_id)
    return dict(zip(places, anchors, strict=True))


def _unplaced(comment: DraftComment) -> Anchor | None:
    """The anchor of a comment on lines for which the worker has to look; None for an answer."""
    checked = _checked(comment)
    return anchor_of(checked) if checked else None


def _parents_of(pull: Pull, comments: Sequence[DraftComment]) -> dict[int, Reply]:
    """The replies that comments answer, by number; also deleted ones, whose place stays."""
    numbers = {comment.parent_number for comment in comments if comment.parent_number}
    rows = pull.thread.replies.filter(number__in=numbers) if numbers else ()
    return {reply.number: reply for reply in rows}

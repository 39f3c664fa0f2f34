"""What changes threads and replies. Each function is one transaction, one change and its event.

A companion thread emits no `thread-*` of its own: its pull speaks for it (behaviour.md §5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.rules import check_staff
from apps.core.changes import given
from apps.core.errors import plain_error
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.threads import rules
from apps.threads.models import Priority, Reply, ReplyStatus, Thread, ThreadStatus

if TYPE_CHECKING:
    from apps.accounts.models import User
    from apps.repos.models import Repo


@transaction.atomic
def create_thread(
    *,
    actor: User,
    repo: Repo,
    title: str,
    body: str,
    kind: str,
    priority: str = Priority.NORMAL,
    status: str = ThreadStatus.OPEN,
) -> Thread:
    """Open a thread under the repository's next number. Locks the repository."""
    lock(repo)
    thread = Thread.open(
        repo,
        created_by=actor,
        kind=kind,
        title=title,
        body=body,
        priority=priority,
        status=status,
    )
    record(Kind.THREAD_CREATED, actor=actor, about=thread)
    return thread


@transaction.atomic
def update_thread(
    *,
    actor: User,
    thread: Thread,
    title: str | None = None,
    body: str | None = None,
    kind: str | None = None,
    priority: str | None = None,
    status: str | None = None,
) -> None:
    """Change what is given; the caller has asked `rules.check_may_edit`. Locks the thread.

    409 `invalid_transition` for what a companion thread takes from its pull.
    """
    wanted = given(title=title, body=body, kind=kind, priority=priority, status=status)
    _lock_existing(thread)
    rules.check_not_mirrored(thread, set(wanted))
    before = thread.status
    changed = thread.revise(**wanted)
    if not changed:
        return
    data: dict[str, Any] = {"changed": changed}
    if "status" in changed:
        data |= {"before": before, "after": thread.status}
    record(_kind_of_change(thread, changed), actor=actor, about=thread, data=data)


@transaction.atomic
def delete_thread(*, actor: User, thread: Thread) -> None:
    """Take a thread away for everybody; the caller has asked `rules.check_may_delete`. Locks it.

    409 `invalid_transition`, `thread_has_replies`.
    """
    _lock_existing(thread)
    rules.check_deletable(thread, actor)
    thread.deleted_at = timezone.now()
    thread.save(update_fields=["deleted_at"])
    record(Kind.THREAD_DELETED, actor=actor, about=thread)


@transaction.atomic
def create_reply(
    *,
    actor: User,
    thread: Thread,
    kind: str,
    body: str,
    parent_reply_number: int | None = None,
    status: str = ReplyStatus.OPEN,
    links: Sequence[dict[str, str]] = (),
) -> Reply:
    """Answer a thread or one of its replies; closed threads take answers too. Locks the thread.

    Errors: 422 `parent_reply_not_found`, `reply_too_deep`, 409 `parent_reply_deleted`.
    """
    _lock_existing(thread)
    parent = rules.find_parent(thread, parent_reply_number)
    reply = thread.add_reply(
        parent, created_by=actor, kind=kind, body=body, status=status, links=list(links)
    )
    record(Kind.REPLY_CREATED, actor=actor, about=reply)
    return reply


@transaction.atomic
def update_reply(
    *,
    actor: User,
    reply: Reply,
    kind: str | None = None,
    body: str | None = None,
    status: str | None = None,
    links: Sequence[dict[str, str]] | None = None,
) -> None:
    """Change what is given. Locks the thread, then the reply.

    Errors: 409 `reply_already_deleted`, 403 `not_creator`.
    """
    wanted = given(kind=kind, body=body, status=status, links=links)
    _lock_existing(reply.thread)
    lock(reply)
    rules.check_not_deleted(reply)
    rules.check_may_edit_reply(reply, actor, set(wanted))
    changed = reply.revise(**wanted)
    if changed:
        record(Kind.REPLY_UPDATED, actor=actor, about=reply, data={"changed": changed})


@transaction.atomic
def delete_reply(*, actor: User, reply: Reply) -> None:
    """Blank a reply; it keeps its place while live replies need it. Locks the thread, then it.

    Errors: 409 `reply_already_deleted`, 403 `not_creator`, in this order.
    """
    _lock_existing(reply.thread)
    lock(reply)
    rules.check_not_deleted(reply)
    rules.check_creator(reply, actor)
    reply.thread.blank_reply(reply)
    record(Kind.REPLY_DELETED, actor=actor, about=reply)


@transaction.atomic
def moderate_reply(*, actor: User, reply: Reply) -> None:
    """Blank what somebody else wrote, as staff (behaviour.md §9); else as `delete_reply`.

    Errors: 403 `staff_required`, 409 `reply_already_deleted`. The event says that it was staff.
    """
    check_staff(actor)
    _lock_existing(reply.thread)
    lock(reply)
    rules.check_not_deleted(reply)
    reply.thread.blank_reply(reply)
    record(Kind.REPLY_DELETED, actor=actor, about=reply, data={"moderated": True})


def _lock_existing(thread: Thread) -> None:
    """404 for a thread that was deleted while this request was on its way."""
    lock(thread)
    if thread.deleted_at is not None:
        raise plain_error(404)


def _kind_of_change(thread: Thread, changed: list[str]) -> Kind:
    if thread.is_companion:
        return Kind.PULL_UPDATED
    return Kind.THREAD_STATUS_CHANGED if "status" in changed else Kind.THREAD_UPDATED

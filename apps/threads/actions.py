"""What changes threads and replies. Each function is one transaction, one change and its event.
Bodies are rendered, and links looked up, before it begins.

Each asks first whether the caller may: besides the errors named there, 401, 403 and 409 of
`ResourceAccess.require_change`. A pull's thread has no `thread-*` events, only those of the pull.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.core.access import Level
from apps.core.changes import given
from apps.core.errors import plain_error
from apps.core.locks import lock
from apps.core.rendered import rendered, rendered_for_edit
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind
from apps.events.models import Event, Ping
from apps.events.record import record
from apps.repos.access import RepoAccess
from apps.repos.mentions import pings_of_edit, pings_of_text
from apps.threads import rules
from apps.threads.models import Priority, Reply, ReplyStatus, Thread, ThreadStatus
from apps.threads.references import check_links
from apps.uploads.uses import forget_uses


def create_thread(
    *,
    by: RepoAccess,
    title: str,
    body: str,
    kind: str,
    priority: str = Priority.NORMAL,
    status: str = ThreadStatus.OPEN,
) -> Thread:
    """Open a thread under the repository's next number. Locks the repository."""
    by.require_change(Level.READ)
    content = {"kind": kind, "title": title, "body": body, "priority": priority, "status": status}
    return _open(by, {**content, **rendered(body)})


@final_transaction
def _open(by: RepoAccess, content: dict[str, Any]) -> Thread:
    lock(by.repo)
    thread = Thread.open(by.repo, created_by=by.user, **content)
    pings = pings_of_text(by.repo, thread.body_html)
    record(Kind.THREAD_CREATED, actor=by.user, about=thread, pings=pings)
    return thread


def update_thread(
    *,
    by: RepoAccess,
    thread: Thread,
    title: str | None = None,
    body: str | None = None,
    kind: str | None = None,
    priority: str | None = None,
    status: str | None = None,
) -> None:
    """Change what is given, as its author or with write access. Locks the thread.

    409 `invalid_transition` for what a pull's thread takes from its pull.
    """
    by.require_change(Level.READ)
    by.require_author_or(Level.WRITE, thread.created_by_id, "thread")
    wanted = given(title=title, body=body, kind=kind, priority=priority, status=status)
    _update(by, thread, wanted, rendered_for_edit(thread, body))


@transaction.atomic
def _update(by: RepoAccess, thread: Thread, wanted: dict[str, Any], html: dict[str, Any]) -> None:
    _lock_existing(by, thread)
    rules.check_not_mirrored(thread, set(wanted))
    before, text = thread.status, thread.body_html
    changed = thread.revise(by=by.user, html=html, **wanted)
    if not changed:
        return
    data: dict[str, Any] = {"changed": changed}
    if "status" in changed:
        data |= {"before": before, "after": thread.status}
    pings = pings_of_edit(by.repo, thread, text, thread.body_html)
    record(_kind_of_change(thread, changed), actor=by.user, about=thread, data=data, pings=pings)


@transaction.atomic
def delete_thread(*, by: RepoAccess, thread: Thread) -> None:
    """Delete a thread for everybody, as its author or with admin access. Locks it.

    Its pings go with it: they would lead nowhere. Its events stay, and tell its title no more.
    409 `invalid_transition`, `thread_has_replies`.
    """
    by.require_change(Level.READ)
    by.require_author_or(Level.ADMIN, thread.created_by_id, "thread")
    _lock_existing(by, thread)
    rules.check_deletable(thread, by.level)
    thread.deleted_at = timezone.now()
    thread.save(update_fields=["deleted_at"])
    forget_uses([thread.uuid])
    forget_uses(thread.replies.values("uuid"))
    Ping.objects.all().of_thread(thread.pk).delete()
    Event.objects.filter(thread_id=thread.pk).update(title=None)
    record(Kind.THREAD_DELETED, actor=by.user, about=thread)


def create_reply(
    *,
    by: RepoAccess,
    thread: Thread,
    kind: str,
    body: str,
    parent_reply_number: int | None = None,
    status: str = ReplyStatus.OPEN,
    links: Sequence[dict[str, str]] = (),
) -> Reply:
    """Reply to a thread, closed or not, or to one of its replies. Locks the thread.

    It pings the authors of the thread and of that reply, beside those whom it mentions.
    Errors: 422 `link_target_not_found`, `parent_reply_not_found`, `reply_too_deep`, 409
    `parent_reply_deleted`.
    """
    by.require_change(Level.READ)
    by.check_holds(thread)
    check_links(by, thread, links)
    content = {"kind": kind, "body": body, "status": status, "links": list(links)}
    return _reply(by, thread, parent_reply_number, {**content, **rendered(body)})


@final_transaction
def _reply(
    by: RepoAccess, thread: Thread, parent_number: int | None, content: dict[str, Any]
) -> Reply:
    _lock_existing(by, thread)
    parent = rules.find_parent(thread, parent_number)
    reply = thread.add_reply(parent, created_by=by.user, **content)
    answered = {thread.created_by_id, parent.created_by_id if parent else by.user.pk} - {by.user.pk}
    pings = pings_of_text(by.repo, reply.body_html, answered=answered)
    record(Kind.REPLY_CREATED, actor=by.user, about=reply, pings=pings)
    return reply


def update_reply(
    *,
    by: RepoAccess,
    reply: Reply,
    kind: str | None = None,
    body: str | None = None,
    status: str | None = None,
    links: Sequence[dict[str, str]] | None = None,
) -> None:
    """Change what is given. Locks the thread, then the reply.

    Errors: 409 `reply_already_deleted`, 403 `not_creator`, 422 `link_target_not_found` for a link
    that it did not have.
    """
    by.require_change(Level.READ)
    by.check_holds(reply.thread)
    check_links(by, reply.thread, [link for link in links or () if link not in reply.links])
    wanted = given(kind=kind, body=body, status=status, links=links)
    _edit(by, reply, wanted, rendered_for_edit(reply, body))


@transaction.atomic
def _edit(by: RepoAccess, reply: Reply, wanted: dict[str, Any], html: dict[str, Any]) -> None:
    _lock_live(by, reply)
    rules.check_may_edit_reply(reply, by, set(wanted))
    text = reply.body_html
    changed = reply.revise(by=by.user, html=html, **wanted)
    if changed:
        pings = pings_of_edit(by.repo, reply, text, reply.body_html)
        data = {"changed": changed}
        record(Kind.REPLY_UPDATED, actor=by.user, about=reply, data=data, pings=pings)


@transaction.atomic
def delete_reply(*, by: RepoAccess, reply: Reply) -> None:
    """Empty a reply; readers see a placeholder while live replies are below. Locks thread, reply.

    Errors: 409 `reply_already_deleted`, 403 `not_creator`, in this order.
    """
    by.require_change(Level.READ)
    _lock_live(by, reply)
    rules.check_creator(reply, by.user)
    reply.thread.blank_reply(reply)
    record(Kind.REPLY_DELETED, actor=by.user, about=reply)


@transaction.atomic
def moderate_reply(*, by: RepoAccess, reply: Reply) -> None:
    """Empty what somebody else wrote, as staff; otherwise as `delete_reply`.

    Errors: 403 `staff_required`, 409 `reply_already_deleted`. The event says that it was staff.
    """
    by.principal.check_staff()
    by.require_change(Level.READ)
    _lock_live(by, reply)
    reply.thread.blank_reply(reply)
    record(Kind.REPLY_DELETED, actor=by.user, about=reply, data={"moderated": True})


def _lock_existing(by: RepoAccess, thread: Thread) -> None:
    """404 for a thread that was deleted while this request was on its way."""
    by.check_holds(thread)
    lock(thread)
    if thread.deleted_at is not None:
        raise plain_error(404)


def _lock_live(by: RepoAccess, reply: Reply) -> None:
    """Lock the thread, then the reply; 404 as above, 409 `reply_already_deleted`."""
    _lock_existing(by, reply.thread)
    lock(reply)
    rules.check_not_deleted(reply)


def _kind_of_change(thread: Thread, changed: list[str]) -> Kind:
    if thread.is_companion:
        return Kind.PULL_UPDATED
    return Kind.THREAD_STATUS_CHANGED if "status" in changed else Kind.THREAD_UPDATED

"""Changes of threads and replies. Each function makes one change and records its event, in one
transaction; it renders bodies and looks up links before the transaction begins.

Each function checks first what the caller may do. Besides the errors that it names, it raises 401,
403 and 409 of `ResourceAccess.require_change`. A companion thread has events of its pull only.
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
from apps.repos.auto_merge import auto_merges
from apps.repos.mentions import pings_of_edit, pings_of_text
from apps.threads import rules
from apps.threads.anchors import Anchor
from apps.threads.models import (
    Priority,
    Reply,
    ReplyStatus,
    Thread,
    ThreadStatus,
)
from apps.threads.references import check_links
from apps.uploads.uses import forget_uses


def create_thread(
    *,
    access: RepoAccess,
    title: str,
    body: str,
    kind: str,
    priority: str = Priority.NORMAL,
    status: str = ThreadStatus.OPEN,
) -> Thread:
    """Open a thread under the repository's next number. Locks the repository."""
    access.require_change(Level.READ)
    content = {"kind": kind, "title": title, "body": body, "priority": priority, "status": status}
    return _open(access, content | rendered(body))


@final_transaction
def _open(access: RepoAccess, content: dict[str, Any]) -> Thread:
    lock(access.repo)
    thread = Thread.open(access.repo, created_by=access.user, **content)
    pings = pings_of_text(access.repo, thread.body_html)
    record(Kind.THREAD_CREATED, actor=access.user, about=thread, pings=pings)
    return thread


def update_thread(
    *,
    access: RepoAccess,
    thread: Thread,
    title: str | None = None,
    body: str | None = None,
    kind: str | None = None,
    priority: str | None = None,
    status: str | None = None,
) -> None:
    """Change the given fields, as the thread's author or with write access. Locks the thread.

    409 `invalid_transition` for fields that a companion thread takes from its pull.
    """
    access.require_change(Level.READ)
    access.require_author_or(Level.WRITE, thread.created_by_id, "thread")
    values = given(title=title, body=body, kind=kind, priority=priority, status=status)
    html = rendered_for_edit(thread, body)
    with transaction.atomic():
        _lock_existing(access, thread)
        rules.check_not_mirrored(thread, set(values))
        status_before, html_before = thread.status, thread.body_html
        changed = thread.revise(by=access.user, html=html, **values)
        if not changed:
            return
        data: dict[str, Any] = {"changed": changed}
        if "status" in changed:
            data |= {"before": status_before, "after": thread.status}
        pings = pings_of_edit(access.repo, thread, html_before, thread.body_html)
        kind_of_event = _kind_of_change(thread, changed)
        record(kind_of_event, actor=access.user, about=thread, data=data, pings=pings)


@transaction.atomic
def delete_thread(*, access: RepoAccess, thread: Thread) -> None:
    """Delete a thread for everybody, as its author or with admin access. Locks the thread. 409
    `invalid_transition`, `thread_has_replies`.

    Deletes its pings, as their links would lead to a 404. Its events stay, without the title.
    """
    access.require_change(Level.READ)
    access.require_author_or(Level.ADMIN, thread.created_by_id, "thread")
    _lock_existing(access, thread)
    rules.check_deletable(thread, access.level)
    thread.deleted_at = timezone.now()
    thread.save(update_fields=["deleted_at"])
    forget_uses([thread.uuid])
    forget_uses(thread.replies.values("uuid"))
    Ping.objects.all().of_thread(thread.pk).delete()
    Event.objects.filter(thread_id=thread.pk).update(title=None)
    record(Kind.THREAD_DELETED, actor=access.user, about=thread)


def create_reply(
    *,
    access: RepoAccess,
    thread: Thread,
    kind: str,
    body: str,
    parent_reply_number: int | None = None,
    status: str = ReplyStatus.OPEN,
    links: Sequence[dict[str, str]] = (),
) -> Reply:
    """Reply to a thread, open or closed, or to one of its replies. Locks the thread.

    Pings the authors of the thread and of the parent reply, and the people whom the body mentions.
    Errors: 422 `link_target_not_found`, `parent_reply_not_found`, `reply_too_deep`, 409
    `parent_reply_deleted`.
    """
    access.require_change(Level.READ)
    access.check_holds(thread)
    check_links(access, thread, links)
    content = {"kind": kind, "body": body, "status": status, "links": list(links)}
    return add_reply(
        access=access,
        thread=thread,
        parent_number=parent_reply_number,
        content=content | rendered(body),
    )


@final_transaction
def add_reply(
    *,
    access: RepoAccess,
    thread: Thread,
    content: dict[str, Any],
    parent_number: int | None = None,
    anchor: Anchor | None = None,
) -> Reply:
    """Add a reply with its rendered content, and an anchor that has no reply yet; record its event.
    The caller has checked access. Locks the thread. Raises the errors of `create_reply`, except
    those of links.
    """
    _lock_existing(access, thread)
    parent = rules.find_parent(thread, parent_number)
    reply = thread.add_reply(parent, created_by=access.user, **content)
    if anchor is not None:
        anchor.reply, anchor.thread, anchor.number = reply, thread, reply.number
        anchor.save(force_insert=True)
    authors = {thread.created_by_id, parent.created_by_id if parent else access.user.pk}
    pings = pings_of_text(access.repo, reply.body_html, answered=authors - {access.user.pk})
    record(Kind.REPLY_CREATED, actor=access.user, about=reply, pings=pings)
    return reply


def update_reply(
    *,
    access: RepoAccess,
    reply: Reply,
    kind: str | None = None,
    body: str | None = None,
    status: str | None = None,
    links: Sequence[dict[str, str]] | None = None,
) -> None:
    """Change the given fields. Locks the thread, then the reply. 409 `reply_already_deleted`, 403
    `not_creator`, 422 `link_target_not_found` for a new link.
    """
    access.require_change(Level.READ)
    access.check_holds(reply.thread)
    check_links(access, reply.thread, [link for link in links or () if link not in reply.links])
    values = given(kind=kind, body=body, status=status, links=links)
    html = rendered_for_edit(reply, body)
    with transaction.atomic():
        _lock_live(access, reply)
        rules.check_may_edit_reply(reply, access, set(values))
        html_before = reply.body_html
        changed = reply.revise(by=access.user, html=html, **values)
        if changed:
            pings = pings_of_edit(access.repo, reply, html_before, reply.body_html)
            data = {"changed": changed}
            _wake_on_commit(reply)
            record(Kind.REPLY_UPDATED, actor=access.user, about=reply, data=data, pings=pings)


@transaction.atomic
def delete_reply(*, access: RepoAccess, reply: Reply) -> None:
    """Empty a reply. Readers see a placeholder while there are live replies below it. Locks the
    thread, then the reply. 409 `reply_already_deleted`, then 403 `not_creator`.
    """
    access.require_change(Level.READ)
    _lock_live(access, reply)
    rules.check_creator(reply, access.user)
    reply.thread.blank_reply(reply)
    _wake_on_commit(reply)
    record(Kind.REPLY_DELETED, actor=access.user, about=reply)


def _wake_on_commit(reply: Reply) -> None:
    """Let the worker try the auto-merge of the reply's pull again, if comments on its lines have to
    be resolved. After the commit, because the pull is locked before its thread.
    """
    pull = getattr(reply.thread, "pull", None) if reply.thread.is_companion else None
    if pull is not None:
        # A lambda, because Django logs the name of a callback that fails.
        transaction.on_commit(lambda: auto_merges().wake([pull]), robust=True)


@transaction.atomic
def moderate_reply(*, access: RepoAccess, reply: Reply) -> None:
    """Empty anybody's reply, as staff; see `delete_reply`. The event has `moderated: true`. 403
    `staff_required`, 409 `reply_already_deleted`.
    """
    access.principal.check_staff()
    access.require_change(Level.READ)
    _lock_live(access, reply)
    reply.thread.blank_reply(reply)
    _wake_on_commit(reply)
    record(Kind.REPLY_DELETED, actor=access.user, about=reply, data={"moderated": True})


def _lock_existing(access: RepoAccess, thread: Thread) -> None:
    """404 if another request has deleted it in the meantime."""
    access.check_holds(thread)
    lock(thread)
    if thread.deleted_at is not None:
        raise plain_error(404)


def _lock_live(access: RepoAccess, reply: Reply) -> None:
    """404 as in `_lock_existing`, 409 `reply_already_deleted`."""
    _lock_existing(access, reply.thread)
    lock(reply)
    rules.check_not_deleted(reply)


def _kind_of_change(thread: Thread, changed: list[str]) -> Kind:
    if thread.is_companion:
        return Kind.PULL_UPDATED
    return Kind.THREAD_STATUS_CHANGED if "status" in changed else Kind.THREAD_UPDATED

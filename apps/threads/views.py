"""`…/repos/{repo_slug}/threads` and the replies below them."""

from __future__ import annotations

from typing import Any

from rest_framework.decorators import action

from apps.core.access import Level
from apps.core.operation import operation
from apps.core.parsers import choice_query, text_query
from apps.repos.doors import InRepo
from apps.threads import actions, rules
from apps.threads.doors import find_reply, find_thread
from apps.threads.models import (
    Participants,
    Priority,
    Reply,
    Thread,
    ThreadQuerySet,
    ThreadStatus,
    reply_rows,
    thread_rows,
)
from apps.threads.serializers import (
    CreateReply,
    CreateThread,
    ParticipantRecord,
    ReplyRecord,
    ThreadRecord,
    UpdateReply,
    UpdateThread,
    WholeThread,
    replies_of,
    reply_record,
    thread_record,
)

FILTERS = (
    choice_query("status", [*ThreadStatus]),
    choice_query("kind", [*rules.KINDS]),
    choice_query("priority", [*Priority]),
    text_query("created_by", "The author's username, ignoring case."),
    text_query("search", "Part of a title or body, ignoring case."),
    choice_query("ordering", rules.ORDERINGS, "The default is `-number`: newest first."),
)


class ThreadViewSet(InRepo):
    """…/threads, …/threads/{number}"""

    family = "threads"
    lookup_url_kwarg = "number"
    lookup_value_converter = "number"
    thread: Thread

    def enter(self) -> None:
        """Load the thread; changing it is for its author and for those with a role."""
        if "number" not in self.kwargs:
            return
        self.thread = find_thread(self.repo, self.kwargs["number"])
        if self.action == "partial_update":
            rules.check_may_edit(self.thread, self.caller, self.level)
        if self.action == "destroy":
            rules.check_may_delete(self.thread, self.caller, self.level)

    @operation(Level.READ, gives=ThreadRecord, paged=True, query=FILTERS)
    def list(self) -> dict[str, Any]:
        """List threads, newest first. Those of pulls are left out."""
        ordering = self.params["ordering"] or rules.ORDERINGS[0]
        rows = self.filtered(thread_rows().filter(repo=self.repo.pk)).in_order(ordering)
        return self.page(rows, lambda row, base: thread_record(row, self.repo, base))

    def filtered(self, rows: ThreadQuerySet) -> ThreadQuerySet:
        for name in ("status", "kind", "priority"):
            if self.params[name]:
                rows = rows.filter(**{name: self.params[name]})
        if self.params["created_by"]:
            rows = rows.filter(created_by__username_key=self.params["created_by"].lower())
        return rows.search(self.params["search"]) if self.params["search"] else rows

    @operation(Level.READ, takes=CreateThread, gives=ThreadRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Open a thread."""
        thread = actions.create_thread(actor=self.caller, repo=self.repo, **self.input)
        return self.record(thread)

    @operation(Level.READ, gives=WholeThread)
    def retrieve(self) -> dict[str, Any]:
        """Read a thread with its replies.

        The replies come in the order of their tree, at most 500; `replies_truncated` says that
        the paged list of replies has more. A deleted reply with live ones below it is shown as a
        placeholder.
        """
        return {**self.record(self.thread), **replies_of(self.thread)}

    @operation(Level.READ, takes=UpdateThread, gives=ThreadRecord)
    def partial_update(self) -> dict[str, Any]:
        """Change title, body, kind, priority or status: its author, and write access.

        The thread of a pull takes only a priority; the rest is changed at the pull.
        """
        actions.update_thread(actor=self.caller, thread=self.thread, **self.input)
        return self.record(self.thread)

    @operation(Level.READ, status=204)
    def destroy(self) -> None:
        """Delete a thread: its author while nobody else has replied, and admins always."""
        actions.delete_thread(actor=self.caller, thread=self.thread)

    @action(detail=True)
    @operation(Level.READ, gives=ParticipantRecord, paged=True)
    def participants(self) -> dict[str, Any]:
        """List who takes part: the author, then everybody with a live reply, oldest first."""
        return self.page(Participants(self.thread), lambda row, _: row)

    def record(self, thread: Thread) -> dict[str, Any]:
        return thread_record(thread, self.repo, self.base)


class ReplyViewSet(InRepo):
    """…/threads/{number}/replies"""

    family = "threads"
    lookup_url_kwarg = "reply_number"
    lookup_value_converter = "number"
    thread: Thread
    reply: Reply

    def enter(self) -> None:
        """Load the thread and the reply; only a delete finds what readers are not shown."""
        self.thread = find_thread(self.repo, self.kwargs["number"])
        if "reply_number" in self.kwargs:
            number, shown = self.kwargs["reply_number"], self.action != "destroy"
            self.reply = find_reply(self.thread, number, shown=shown)

    @operation(Level.READ, gives=ReplyRecord, paged=True)
    def list(self) -> dict[str, Any]:
        """List the replies in the order of their tree."""
        rows = reply_rows().filter(thread=self.thread.pk)
        return self.page(rows, lambda row, _: reply_record(row, self.thread.number))

    @operation(Level.READ, takes=CreateReply, gives=ReplyRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Reply to a thread, or to a reply in it."""
        reply = actions.create_reply(actor=self.caller, thread=self.thread, **self.input)
        return reply_record(reply, self.thread.number)

    @operation(Level.READ, gives=ReplyRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a reply."""
        return reply_record(self.reply, self.thread.number)

    @operation(Level.READ, takes=UpdateReply, gives=ReplyRecord)
    def partial_update(self) -> dict[str, Any]:
        """Change kind, body, status or links: its creator.

        The status alone may also be set by the thread's author and by those with write access.
        """
        actions.update_reply(actor=self.caller, reply=self.reply, **self.input)
        return reply_record(self.reply, self.thread.number)

    @operation(Level.READ, status=204)
    def destroy(self) -> None:
        """Delete a reply: its creator. Readers see a placeholder while live replies follow it."""
        actions.delete_reply(actor=self.caller, reply=self.reply)

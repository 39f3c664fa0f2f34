"""`…/repos/{repo_slug}/threads` and the replies below them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.response import Response

from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.lookup import Missing, get_or_missing
from apps.core.operation import operation
from apps.core.query import QuerySerializer, TextParameter
from apps.core.statements import values_of
from apps.core.views import ApiViewSet
from apps.repos.access import RepoScoped
from apps.threads import actions
from apps.threads.across import Across, Found
from apps.threads.filters import NARROW, ThreadFilterSet, ThreadsAcrossFilterSet
from apps.threads.indexes import LISTED
from apps.threads.models import REPLY_ROW, THREAD_ROW, Reply, Thread
from apps.threads.pagination import ActivityPagination
from apps.threads.queries import (
    Participants,
    get_reply,
    get_thread,
    list_replies,
    list_reply_versions,
    list_thread_versions,
    list_threads,
)
from apps.threads.serializers import (
    CreateReply,
    CreateThread,
    ParticipantRecord,
    RenderQuery,
    ReplyRecord,
    ReplyVersionRecord,
    StoredHtml,
    ThreadRecord,
    ThreadVersionRecord,
    UpdateReply,
    UpdateThread,
    WholeThread,
    add_html,
    replies_of,
    reply_record,
    thread_record,
)


class BodyViewSet(RepoScoped):
    """What has a body, which can be had as HTML."""

    html: ClassVar[StoredHtml]
    """Where the HTML of the records is stored."""

    def with_html(self, records: Sequence[dict[str, Any]]) -> None:
        """Add `body_html` if the request asks for it."""
        if "render" in self.validated_query:
            add_html(self.access, self.base_url, records, self.html)

    def shown(self, record: dict[str, Any]) -> dict[str, Any]:
        self.with_html([record])
        return record

    def shown_page(self, response: Response) -> Response:
        self.with_html(response.data["results"])
        return response


class AcrossQuery(QuerySerializer):
    team = TextParameter(
        required=False, help_text="Only repositories of the team of this slug, ignoring case."
    )


class AcrossViewSet(ApiViewSet):
    """What is alike in the lists of threads and of pulls of all repositories."""

    principal: Principal
    pagination_class = ActivityPagination
    thread: ClassVar[str] = ""
    """The path from a row to its thread, such as `thread__`."""

    def found(self, columns: Iterable[str]) -> list[Found]:
        """The rows of the page that the request asks for, with these of their values."""
        asked = self.filterset.form.cleaned_data if self.filterset else {}
        across: Any = Across(
            rows=self.filter_queryset(self.get_queryset()),
            columns=[*columns],
            principal=self.principal,
            team=self.validated_query.get("team", "").lower(),
            thread=self.thread,
            is_narrow=any(asked.get(name) for name in NARROW),
        )
        found: Any = self.paginate_queryset(across)
        return [*found]


class ThreadsAcrossViewSet(AcrossViewSet):
    """/threads"""

    schema_tags = ["threads"]
    queryset = Thread.objects.filter(LISTED)
    filterset_class = ThreadsAcrossFilterSet

    @operation(Level.NONE, response=ThreadRecord, query=AcrossQuery, errors=("invalid_cursor",))
    def list(self) -> Response:
        """List threads of all repositories that the caller may read, newest activity first.

        Those of pulls are left out. `next` leads to older activity and `previous` to newer.
        """
        found = self.found(THREAD_ROW.values())
        base = self.base_url
        return self.get_paginated_response(
            [thread_record(one.values, one.repo, base) for one in found]
        )


class ThreadViewSet(BodyViewSet):
    """…/threads, …/threads/{number}"""

    schema_tags = ["threads"]
    lookup_url_kwarg = "number"
    lookup_value_converter = "number"
    queryset = Thread.objects.all()
    filterset_class = ThreadFilterSet
    html = StoredHtml(Thread.objects)
    thread: Thread

    def load_objects(self) -> None:
        """Load the thread; changing it is for its author and for those with a role."""
        if "number" not in self.kwargs:
            return
        self.thread = get_thread(self.repo, self.kwargs["number"])
        if self.action == "partial_update":
            self.access.require_author_or(Level.WRITE, self.thread.created_by_id, "thread")
        if self.action == "destroy":
            self.access.require_author_or(Level.ADMIN, self.thread.created_by_id, "thread")

    @operation(Level.READ, response=ThreadRecord, query=RenderQuery)
    def list(self) -> Response:
        """List threads, newest first. Those of pulls are left out."""
        repo, base = self.repo, self.base_url
        page = self.page_of(list_threads(repo), lambda row: thread_record(row, repo, base))
        return self.shown_page(page)

    @operation(Level.READ, request=CreateThread, response=ThreadRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Open a thread."""
        thread = actions.create_thread(by=self.access, **self.validated_data)
        return self.record(thread)

    @operation(Level.READ, response=WholeThread, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read a thread with its replies.

        The replies come in the order of their tree, at most 500, and as many as have 2 MiB of
        bodies; `replies_truncated` says that the paged list of replies has more. A deleted reply
        with live ones below it is shown as a placeholder.
        """
        record, below = self.record(self.thread), replies_of(self.thread)
        if "render" in self.validated_query:
            records = [record, *below["replies"]]
            sources = StoredHtml(Thread.objects), StoredHtml(Reply.objects)
            add_html(self.access, self.base_url, records, *sources)
        return {**record, **below}

    @operation(
        Level.READ,
        request=UpdateThread,
        response=ThreadRecord,
        errors=("invalid_transition", "role_required"),
    )
    def partial_update(self) -> dict[str, Any]:
        """Change title, body, kind, priority or status: its author, and write access.

        The thread of a pull takes only a priority; the rest is changed at the pull.
        """
        actions.update_thread(by=self.access, thread=self.thread, **self.validated_data)
        return self.record(self.thread)

    @operation(
        Level.READ, status=204, errors=("invalid_transition", "role_required", "thread_has_replies")
    )
    def destroy(self) -> None:
        """Delete a thread: its author while nobody else has replied, and admins always."""
        actions.delete_thread(by=self.access, thread=self.thread)

    def record(self, thread: Thread) -> dict[str, Any]:
        return thread_record(values_of(thread, THREAD_ROW), self.repo, self.base_url)


class ParticipantViewSet(RepoScoped):
    """…/threads/{number}/participants"""

    schema_tags = ["threads"]
    thread: Thread

    def load_objects(self) -> None:
        self.thread = get_thread(self.repo, self.kwargs["number"])

    @operation(Level.READ, response=ParticipantRecord)
    def list(self) -> Response:
        """List who takes part: the author, then everybody with a live reply, oldest first."""
        return self.get_paginated_response(self.paginate(Participants(self.thread)))


class ReplyViewSet(BodyViewSet):
    """…/threads/{number}/replies"""

    schema_tags = ["threads"]
    html = StoredHtml(Reply.objects)
    lookup_url_kwarg = "reply_number"
    lookup_value_converter = "number"
    thread: Thread
    reply: Reply

    def load_objects(self) -> None:
        """Load the thread and the reply; only a delete finds what readers are not shown."""
        self.thread = get_thread(self.repo, self.kwargs["number"])
        if "reply_number" in self.kwargs:
            number, shown = self.kwargs["reply_number"], self.action != "destroy"
            self.reply = get_reply(self.thread, number, shown=shown)

    @operation(Level.READ, response=ReplyRecord, query=RenderQuery)
    def list(self) -> Response:
        """List the replies in the order of their tree."""
        number = self.thread.number
        page = self.page_of(list_replies(self.thread), lambda row: reply_record(row, number))
        return self.shown_page(page)

    @operation(
        Level.READ,
        request=CreateReply,
        response=ReplyRecord,
        status=201,
        errors=(
            "link_target_not_found",
            "parent_reply_deleted",
            "parent_reply_not_found",
            "reply_too_deep",
        ),
    )
    def create(self) -> dict[str, Any]:
        """Reply to a thread, or to a reply in it."""
        return self.record(
            actions.create_reply(by=self.access, thread=self.thread, **self.validated_data)
        )

    @operation(Level.READ, response=ReplyRecord, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read a reply."""
        return self.shown(self.record(self.reply))

    @operation(
        Level.READ,
        request=UpdateReply,
        response=ReplyRecord,
        errors=("link_target_not_found", "not_creator", "reply_already_deleted"),
    )
    def partial_update(self) -> dict[str, Any]:
        """Change kind, body, status or links: its creator.

        The status alone may also be set by the thread's author and by those with write access.
        """
        actions.update_reply(by=self.access, reply=self.reply, **self.validated_data)
        return self.record(self.reply)

    @operation(Level.READ, status=204, errors=("not_creator", "reply_already_deleted"))
    def destroy(self) -> None:
        """Delete a reply: its creator. Readers see a placeholder while live replies follow it."""
        actions.delete_reply(by=self.access, reply=self.reply)

    def record(self, reply: Reply) -> dict[str, Any]:
        return reply_record(values_of(reply, REPLY_ROW), self.thread.number)


class VersionViewSet(BodyViewSet):
    """What is alike in the versions of threads and of replies."""

    schema_tags = ["threads"]
    lookup_url_kwarg = "version"
    lookup_value_converter = "number"
    versions: QuerySet[Any, Any]

    def with_html(self, records: Sequence[dict[str, Any]]) -> None:
        """Render them: only what is said now is kept as HTML."""
        if "render" in self.validated_query:
            add_html(self.access, self.base_url, records)

    def version(self) -> dict[str, Any]:
        """The version that the path names; 404."""
        found: dict[str, Any] = get_or_missing(
            self.versions, "version", version=self.kwargs["version"]
        )
        return self.shown(found)


class ThreadVersionViewSet(VersionViewSet):
    """…/threads/{number}/versions"""

    def load_objects(self) -> None:
        self.versions = list_thread_versions(get_thread(self.repo, self.kwargs["number"]))

    @operation(Level.READ, response=ThreadVersionRecord, query=RenderQuery)
    def list(self) -> Response:
        """List what title and body of a thread or pull have been, oldest first.

        The last one is what they are now.
        """
        return self.shown_page(self.get_paginated_response(self.paginate(self.versions)))

    @operation(Level.READ, response=ThreadVersionRecord, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read one version of a thread."""
        return self.version()


class ReplyVersionViewSet(VersionViewSet):
    """…/replies/{reply_number}/versions"""

    def load_objects(self) -> None:
        """Load the reply; one that is deleted has versions for staff only."""
        thread = get_thread(self.repo, self.kwargs["number"])
        reply = get_reply(thread, self.kwargs["reply_number"], shown=False)
        if reply.is_deleted and not self.principal.is_staff:
            raise Missing("reply", reply.number, "this thread")
        self.versions = list_reply_versions(reply)

    @operation(Level.READ, response=ReplyVersionRecord, query=RenderQuery)
    def list(self) -> Response:
        """List what a reply has been, oldest first. The last one is what it is now.

        Those of a deleted reply are for staff.
        """
        return self.shown_page(self.get_paginated_response(self.paginate(self.versions)))

    @operation(Level.READ, response=ReplyVersionRecord, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read one version of a reply."""
        return self.version()

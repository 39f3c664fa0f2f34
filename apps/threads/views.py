"""`…/repos/{repo_slug}/threads` with their replies, and `/threads` across repositories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.response import Response

from apps.accounts.principal import Principal
from apps.core.access import Level, Permission
from apps.core.lookup import Missing, get_or_missing
from apps.core.operation import operation
from apps.core.query import QuerySerializer, TextParameter
from apps.core.statements import values_of
from apps.core.views import ApiViewSet
from apps.repos.access import RepoScoped
from apps.threads import actions, queries
from apps.threads.filters import NARROW, CrossRepoThreadFilterSet, ThreadFilterSet
from apps.threads.models import ANCHORED_ROW, LISTED, REPLY_ROW, THREAD_ROW, Reply, Thread
from apps.threads.pagination import CrossRepoList, CrossRepoPagination, CrossRepoRow
from apps.threads.queries import get_reply, get_thread
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
    """Resources with a body, which `render=html` adds as HTML."""

    html: ClassVar[StoredHtml]
    """Where the HTML of the records is stored."""

    def with_html(self, records: Sequence[dict[str, Any]]) -> None:
        """Add `body_html` if the request asks for it."""
        if "render" in self.validated_query:
            add_html(self.access, self.base_url, records, self.html)

    def record_with_html(self, record: dict[str, Any]) -> dict[str, Any]:
        self.with_html([record])
        return record

    def page_with_html(self, response: Response) -> Response:
        self.with_html(response.data["results"])
        return response


class CrossRepoQuery(QuerySerializer):
    team = TextParameter(
        required=False, help_text="Only repositories of the team of this slug, ignoring case."
    )


class CrossRepoViewSet(ApiViewSet):
    """Lists of threads and of pulls across repositories."""

    principal: Principal
    pagination_class = CrossRepoPagination
    thread: ClassVar[str] = ""
    """The path from a row to its thread, such as `thread__`."""

    def page(self, columns: Iterable[str]) -> list[CrossRepoRow]:
        """The rows of the requested page, with the values of these columns."""
        filters = self.filterset.form.cleaned_data if self.filterset else {}
        listed: Any = CrossRepoList(
            rows=self.filter_queryset(self.get_queryset()),
            columns=[*columns],
            principal=self.principal,
            team=self.validated_query.get("team", "").lower(),
            thread=self.thread,
            is_narrow=any(filters.get(name) for name in NARROW),
        )
        return self.paginate_queryset(listed) or []


class CrossRepoThreadViewSet(CrossRepoViewSet):
    """/threads"""

    schema_tags = ["threads"]
    queryset = Thread.objects.filter(LISTED)
    filterset_class = CrossRepoThreadFilterSet

    @operation(Level.NONE, response=ThreadRecord, query=CrossRepoQuery, errors=("invalid_cursor",))
    def list(self) -> Response:
        """List threads of all repositories that the caller may read, newest activity first.

        The threads of pulls are left out. `next` leads to older activity and `previous` to newer.
        """
        page, base = self.page(THREAD_ROW.values()), self.base_url
        records = [thread_record(row.values, row.repo, base) for row in page]
        return self.get_paginated_response(records)


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
        """Load the thread. Only its author and people with a role may change it."""
        if "number" not in self.kwargs:
            return
        self.thread = get_thread(self.repo, self.kwargs["number"])
        if self.action == "partial_update":
            self.access.require_author_or(Level.WRITE, self.thread.created_by_id, "thread")
        if self.action == "destroy":
            self.access.require_author_or(Level.ADMIN, self.thread.created_by_id, "thread")

    @operation(Level.READ, response=ThreadRecord, query=RenderQuery)
    def list(self) -> Response:
        """List threads, newest first, without the threads of pulls."""
        repo, base, threads = self.repo, self.base_url, queries.THREADS
        rows = queries.list_threads(repo.pk) if self.filterset else threads.of(repo=repo.pk)
        return self.page_with_html(self.page_of(rows, lambda row: thread_record(row, repo, base)))

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=CreateThread,
        response=ThreadRecord,
        status=201,
    )
    def create(self) -> dict[str, Any]:
        """Open a thread."""
        return self.record(actions.create_thread(access=self.access, **self.validated_data))

    @operation(Level.READ, response=WholeThread, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read a thread with its replies.

        The replies come in the order of their tree: at most 500, with at most 2 MiB of bodies.
        `replies_truncated` says that the paged list of replies has more. A deleted reply with live
        replies below it is shown as a placeholder.
        """
        record, below = self.record(self.thread), replies_of(self.thread)
        if "render" in self.validated_query:
            records = [record, *below["replies"]]
            sources = StoredHtml(Thread.objects), StoredHtml(Reply.objects)
            add_html(self.access, self.base_url, records, *sources)
        return {**record, **below}

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=UpdateThread,
        response=ThreadRecord,
        errors=("invalid_transition", "role_required"),
    )
    def partial_update(self) -> dict[str, Any]:
        """Change title, body, kind, priority or status, as the author or with write access.

        Of the thread of a pull, only the priority can be changed; the pull has the other fields.
        """
        actions.update_thread(access=self.access, thread=self.thread, **self.validated_data)
        return self.record(self.thread)

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        status=204,
        errors=("invalid_transition", "role_required", "thread_has_replies"),
    )
    def destroy(self) -> None:
        """Delete a thread. Its author may do so until somebody else replies, admins always."""
        actions.delete_thread(access=self.access, thread=self.thread)

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
        """List the participants: the author, then everybody with a live reply, oldest first."""
        return self.get_paginated_response(self.paginate(queries.Participants(self.thread)))


class ReplyViewSet(BodyViewSet):
    """…/threads/{number}/replies"""

    schema_tags = ["threads"]
    html = StoredHtml(Reply.objects)
    lookup_url_kwarg = "reply_number"
    lookup_value_converter = "number"
    thread: Thread
    reply: Reply

    def load_objects(self) -> None:
        """Load the thread and the reply. Only a delete finds replies that readers do not see."""
        self.thread = get_thread(self.repo, self.kwargs["number"])
        if "reply_number" in self.kwargs:
            number, shown = self.kwargs["reply_number"], self.action != "destroy"
            self.reply = get_reply(self.thread, number, shown=shown)

    @operation(Level.READ, response=ReplyRecord, query=RenderQuery)
    def list(self) -> Response:
        """List the replies in the order of their tree."""
        rows, number = queries.list_replies(self.thread), self.thread.number
        return self.page_with_html(self.page_of(rows, lambda row: reply_record(row, number)))

    @operation(
        Level.READ,
        permission=Permission.WRITE,
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
        reply = actions.create_reply(access=self.access, thread=self.thread, **self.validated_data)
        return reply_record(values_of(reply, REPLY_ROW), self.thread.number)

    @operation(Level.READ, response=ReplyRecord, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read a reply."""
        return self.record_with_html(self.record(self.reply))

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=UpdateReply,
        response=ReplyRecord,
        errors=("link_target_not_found", "not_creator", "reply_already_deleted"),
    )
    def partial_update(self) -> dict[str, Any]:
        """Change kind, body, status or links, as the creator of the reply.

        The thread's author and people with write access may also set the status alone.
        """
        actions.update_reply(access=self.access, reply=self.reply, **self.validated_data)
        return self.record(self.reply)

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        status=204,
        errors=("not_creator", "reply_already_deleted"),
    )
    def destroy(self) -> None:
        """Delete a reply, as its creator. Readers see a placeholder while it has live replies."""
        actions.delete_reply(access=self.access, reply=self.reply)

    def record(self, reply: Reply) -> dict[str, Any]:
        return reply_record(values_of(reply, ANCHORED_ROW), self.thread.number)


class VersionViewSet(BodyViewSet):
    """The versions of threads and of replies."""

    schema_tags = ["threads"]
    lookup_url_kwarg = "version"
    lookup_value_converter = "number"
    versions: QuerySet[Any, Any]

    def with_html(self, records: Sequence[dict[str, Any]]) -> None:
        """Render all bodies, as HTML is stored for the newest version only."""
        if "render" in self.validated_query:
            add_html(self.access, self.base_url, records)

    def version(self) -> dict[str, Any]:
        """The version that the path names; 404."""
        number = self.kwargs["version"]
        record: dict[str, Any] = get_or_missing(self.versions, "version", version=number)
        return self.record_with_html(record)


class ThreadVersionViewSet(VersionViewSet):
    """…/threads/{number}/versions"""

    def load_objects(self) -> None:
        self.versions = queries.list_thread_versions(get_thread(self.repo, self.kwargs["number"]))

    @operation(Level.READ, response=ThreadVersionRecord, query=RenderQuery)
    def list(self) -> Response:
        """List the versions of a thread's or pull's title and body, oldest first.

        The last one is the current version.
        """
        return self.page_with_html(self.get_paginated_response(self.paginate(self.versions)))

    @operation(Level.READ, response=ThreadVersionRecord, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read one version of a thread."""
        return self.version()


class ReplyVersionViewSet(VersionViewSet):
    """…/replies/{reply_number}/versions"""

    def load_objects(self) -> None:
        """Load the reply. Only staff may read the versions of a deleted reply."""
        thread = get_thread(self.repo, self.kwargs["number"])
        reply = get_reply(thread, self.kwargs["reply_number"], shown=False)
        if reply.is_deleted and self.principal.is_of_staff:
            self.principal.check_staff()
        elif reply.is_deleted:
            raise Missing("reply", reply.number, "this thread")
        self.versions = queries.list_reply_versions(reply)

    @operation(Level.READ, response=ReplyVersionRecord, query=RenderQuery)
    def list(self) -> Response:
        """List the versions of a reply, oldest first. The last one is the current version.

        Only staff may list the versions of a deleted reply.
        """
        return self.page_with_html(self.get_paginated_response(self.paginate(self.versions)))

    @operation(Level.READ, response=ReplyVersionRecord, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read one version of a reply."""
        return self.version()

"""`/events`, the log in pages; `/tail-events`, the live stream; `/pings`, notifications."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils.module_loading import import_string
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.decorators import action
from rest_framework.response import Response

from apps.core.access import Level, Permission, Principal
from apps.core.conditional import NO_STORE
from apps.core.errors import Forbidden, Unavailable
from apps.core.json import quoted
from apps.core.lookup import Missing, get_or_missing
from apps.core.operation import operation
from apps.core.query import FlagParameter, QuerySerializer, TextParameter
from apps.core.requests import UNDER_ASGI
from apps.core.views import ApiViewSet
from apps.events import actions, queries
from apps.events.hub import EventStreamResponse, hub
from apps.events.models import Event, EventRow, Ping
from apps.events.pagination import CURSOR, CURSOR_TEXT, EventCursorPagination, read_cursor
from apps.events.scopes import FORMS, PATTERN, Selection, resolve
from apps.events.serializers import EventRecord, PingRecord, event_records, ping_records

KIND_FORM = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
KIND_MAX = 40


@extend_schema_field({"type": "string", "pattern": PATTERN})
class EventScopeParameter(TextParameter):
    """An event scope; see `scopes.resolve`."""


@extend_schema_field({"type": "string", "pattern": f"^{KIND_FORM}$", "maxLength": KIND_MAX})
class KindParameter(TextParameter):
    """Any well-formed word. An unknown kind matches nothing, as new kinds are added over time."""

    def to_internal_value(self, data: Any) -> str:
        if len(data) > KIND_MAX or not re.fullmatch(KIND_FORM, data):
            text = f'{quoted(data)} is no kind of event, such as "reply-created".'
            raise serializers.ValidationError(text)
        return str(data)


@extend_schema_field(CURSOR)
class CursorParameter(TextParameter):
    """A place in the log: the id of an event."""

    schema = CURSOR

    def to_internal_value(self, data: Any) -> Any:
        return read_cursor(str(self.field_name), data)


class EventQuery(QuerySerializer):
    """The query parameters that select events; see `Selection`."""

    scope = serializers.ListField(
        child=EventScopeParameter(),
        min_length=1,
        help_text=f"Whose events; several are joined. {FORMS}",
    )
    kind = serializers.ListField(
        child=KindParameter(),
        required=False,
        help_text="Only events of this kind; several are joined.",
    )

    def validate_scope(self, texts: list[str]) -> list[str]:
        if not any(texts):
            raise serializers.ValidationError("This query parameter is required.")
        return texts


class TailQuery(EventQuery):
    headers = {"last_event_id_header": "Last-Event-ID"}

    last_event_id = CursorParameter(
        required=False,
        help_text=f"{CURSOR_TEXT} The stream begins with the event that follows it: send the id of "
        "the last event that you have processed, or 0 for the beginning of the log.",
    )
    last_event_id_header = CursorParameter(
        required=False,
        help_text="The same cursor, as clients for server-sent events send it when they reconnect. "
        "Takes precedence over `last_event_id`.",
    )
    html = FlagParameter(help_text="Send each event as rendered HTML instead of JSON.")


OF_SELECTIONS = (
    "forbidden",
    "invalid_cursor",
    "invalid_scope",
    "not_found",
    "staff_required",
    "team_inactive",
)


class SelectionViewSet(ApiViewSet):
    """Views of events that the query parameters select."""

    schema_tags = ["events"]

    def selection(self) -> Selection:
        """The requested events; 403, 404, 422 `invalid_scope`."""
        query = self.validated_query
        event_scopes = resolve(self.principal, query["scope"])
        return Selection(self.principal, event_scopes, frozenset(query.get("kind", ())))


class EventViewSet(SelectionViewSet):
    """/events, /events/{id}"""

    lookup_url_kwarg = "id"
    lookup_value_converter = "number"
    pagination_class = EventCursorPagination
    event: EventRow

    def load_objects(self) -> None:
        if "id" in self.kwargs:
            events = Event.objects.filter(pk=self.kwargs["id"]).rows()
            if not events:
                raise Missing("event", self.kwargs["id"])
            [self.event] = events
            if not self.is_visible_to(self.principal):
                if self.is_visible_to(self.principal.unlimited):
                    self.principal.check_permission(Permission.READ)
                raise Forbidden("forbidden", "You have no access to what this event is about.")

    def is_visible_to(self, principal: Principal) -> bool:
        return Event.objects.visible_to(principal).filter(pk=self.event.id).exists()

    @operation(
        Level.NONE, takes_limited=True, response=EventRecord, query=EventQuery, errors=OF_SELECTIONS
    )
    def list(self) -> Response:
        """List events, newest first.

        `next` leads to older events and `previous` to newer ones. `previous` can be polled: it is
        null only on a page without a cursor and without events.
        """
        events = self.paginate(self.selection())
        return self.answer(events, self.get_paginated_response)

    @operation(Level.NONE, takes_limited=True, response=EventRecord, errors=("forbidden",))
    def retrieve(self) -> Response:
        """Read an event."""
        return self.answer([self.event], lambda records: Response(records[0]))

    def answer(self, events: Sequence[EventRow], respond: Callable[[Any], Response]) -> Response:
        """The answer with these events. The uuid of an invite is a secret."""
        response = respond(event_records(events, self.base_url))
        if any(event.target["kind"] == "invite" for event in events):
            response["Cache-Control"] = NO_STORE
        return response


class TailViewSet(SelectionViewSet):
    """/tail-events"""

    rate_scopes = ("stream",)

    def get_authenticators(self) -> list[BaseAuthentication]:
        """Those of `settings.STREAM_AUTHENTICATION`, because pages in a browser send no token."""
        return [import_string(name)() for name in settings.STREAM_AUTHENTICATION]

    @operation(
        Level.NONE,
        takes_limited=True,
        query=TailQuery,
        media_type="text/event-stream",
        errors=(*OF_SELECTIONS, "too_many_streams"),
    )
    def retrieve(self) -> HttpResponse:
        """Follow events as they happen.

        A stream of server-sent events: `id`, `event` (the kind) and `data` (an EventRecord as
        JSON). It begins after `Last-Event-ID`, or now without one, and does not end. Read it with a
        client for server-sent events: functions of generated clients wait for its end.
        """
        newest = Event.objects.newest_id()
        selection, query = self.selection(), self.validated_query
        after = query.get("last_event_id_header", query.get("last_event_id"))
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        if self.request.method == "HEAD":
            return HttpResponse(content_type="text/event-stream", headers=headers)
        if UNDER_ASGI not in self.http_request.META:  # WSGI has no event loop to stream from
            raise Unavailable("unavailable", "The live stream is served by the ASGI process.")
        hub.connections.check(self.principal.user.pk)
        return EventStreamResponse(
            selection,
            html=query["html"],
            after=newest if after is None else min(after, newest),
            newest=newest,
            headers=headers,
        )


class PingQuery(QuerySerializer):
    unread = FlagParameter(help_text="Only pings that have not been read.")


class PingViewSet(ApiViewSet):
    """/pings"""

    schema_tags = ["pings"]
    lookup_url_kwarg = "uuid"
    lookup_value_converter = "uid"
    ping: Ping

    def load_objects(self) -> None:
        if "uuid" in self.kwargs:
            pings = queries.list_pings(self.principal)
            self.ping = get_or_missing(pings, "ping", uuid=self.kwargs["uuid"])

    @operation(Level.NONE, response=PingRecord, query=PingQuery)
    def list(self) -> Response:
        """List the caller's pings, newest first.

        Pings about subjects that the caller may not read any more are left out.
        """
        pings = queries.list_pings(self.principal, unread=self.validated_query["unread"])
        page = self.paginate(queries.ping_values(pings))
        return self.get_paginated_response(self.records(page))

    @action(detail=True, methods=["put"])
    @operation(Level.NONE, permission=Permission.WRITE, response=PingRecord)
    def read(self) -> dict[str, Any]:
        """Mark a ping as read. Doing it again changes nothing."""
        actions.read_ping(principal=self.principal, ping=self.ping)
        return self.records(queries.ping_values(Ping.objects.filter(pk=self.ping.pk)))[0]

    @action(detail=False, url_path="read-all", methods=["put"])
    @operation(Level.NONE, permission=Permission.WRITE, status=204)
    def read_all(self) -> None:
        """Mark all pings of the list as read."""
        actions.read_all_pings(principal=self.principal)

    def records(self, rows: Iterable[Any]) -> Sequence[dict[str, Any]]:
        return ping_records([queries.ping_row(row) for row in rows], self.base_url)

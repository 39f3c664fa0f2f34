"""`/events`, the log by pages, and `/tail-events`, the log as it grows (behaviour.md §5)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from django.http import Http404, HttpResponse

from apps.core.access import Level
from apps.core.errors import Forbidden, Invalid, Unavailable
from apps.core.json import quoted
from apps.core.operation import operation
from apps.core.pagination import with_query
from apps.core.parsers import PER_PAGE, PER_PAGE_MAX, Query, flag_query, text_query
from apps.core.views import ApiViewSet
from apps.events.models import Event, EventRow
from apps.events.scopes import Selection, forms, resolve
from apps.events.serializers import EventRecord, event_records
from apps.events.subscribers import SUBSCRIBE, Wish

if TYPE_CHECKING:
    from apps.events.subscribers import Credential

KIND_FORM = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
KIND_MAX = 40
PAST_ALL = 10**18
"""Larger than any id; larger cursors count as this."""


def _kind(text: str) -> str:
    if len(text) > KIND_MAX or not re.fullmatch(KIND_FORM, text):
        raise ValueError(f'{quoted(text)} is no kind of event, such as "reply-created".')
    return text


def _cursor(name: str, description: str, *, header: bool = False) -> Query:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()):
            raise Invalid("invalid_cursor", f"{name}: {quoted(text)} is not the id of an event.")
        return min(int(text), PAST_ALL)

    schema = {"type": "string", "pattern": "^[0-9]+$"}
    return Query(name, read, schema, description, header=header)


SCOPE = replace(
    text_query("scope", f"Whose events; several are joined. {forms()}"), many=True, required=True
)
KIND = Query(
    "kind",
    _kind,
    {"type": "string", "pattern": f"^{KIND_FORM}$", "maxLength": KIND_MAX},
    "Only events of this kind; several are joined.",
    many=True,
)
BEFORE_ID = _cursor("before_id", "Only events before this id.")
AFTER_ID = _cursor("after_id", "Only events after this id: the page next to it.")
LAST_EVENT_ID = _cursor("last_event_id", "Begin after this id; 0 for everything.")
LAST_EVENT_ID_HEADER = _cursor("Last-Event-ID", "Wins over `last_event_id`.", header=True)
HTML = flag_query("html", "Send each event as rendered HTML instead of JSON.")


class Selecting(ApiViewSet):
    """What the list and the stream have in common: scopes and kinds."""

    family = "events"

    def selection(self) -> Selection:
        """What the request asks for; 403, 404, 422 `invalid_scope`."""
        scopes = resolve(self.caller, self.params["scope"])
        return Selection(self.caller, scopes, frozenset(self.params["kind"]))


class EventViewSet(Selecting):
    """/events, /events/{id}"""

    lookup_url_kwarg = "id"
    lookup_value_converter = "number"
    event: EventRow

    def enter(self) -> None:
        if "id" in self.kwargs:
            found = Event.objects.filter(pk=self.kwargs["id"]).rows()
            if not found:
                raise Http404
            [self.event] = found
            if not Event.objects.visible_to(self.caller).filter(pk=self.event.id).exists():
                raise Forbidden("forbidden", "You have no access to what this event is about.")

    @operation(
        Level.NONE,
        gives=EventRecord,
        query=(SCOPE, KIND),
        paged=True,
        page_by=(BEFORE_ID, AFTER_ID, PER_PAGE),
    )
    def list(self) -> dict[str, Any]:
        """List events, newest first.

        `next` leads to older events and `previous` to newer ones. `previous` can be polled: it is
        missing only where there has been no event at all.
        """
        before, after = self.params["before_id"], self.params["after_id"]
        if after is not None and before is None:
            return self.page_after(after)
        return self.page_before(before, after)

    @operation(Level.NONE, gives=EventRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read an event."""
        return event_records([self.event], self.base)[0]

    def page_before(self, before: int | None, after: int | None) -> dict[str, Any]:
        """The newest events, or those before an id; `after` only bounds them."""
        found = self.selection().find(
            after=after or 0,
            before=PAST_ALL if before is None else before,
            size=self.size + 1,
            newest_first=True,
        )
        shown = found[: self.size]
        newest = shown[0].id if shown else None if before is None else max(before - 1, 0)
        return {
            "results": event_records(shown, self.base),
            "next": self.link(before_id=shown[-1].id) if len(found) > self.size else None,
            "previous": None if newest is None else self.link(after_id=newest, before_id=None),
        }

    def page_after(self, after: int) -> dict[str, Any]:
        """The page next to `after`, so that a burst is never skipped; an empty one names itself."""
        selection = self.selection()
        shown = selection.find(after=after, before=PAST_ALL, size=self.size, newest_first=False)
        shown.reverse()
        oldest = shown[-1].id if shown else min(after + 1, PAST_ALL)
        older = selection.find(after=0, before=oldest, size=1, newest_first=True)
        return {
            "results": event_records(shown, self.base),
            "next": self.link(before_id=oldest, after_id=None) if older else None,
            "previous": self.link(after_id=shown[0].id if shown else after),
        }

    @property
    def size(self) -> int:
        return min(int(self.params["per_page"]), PER_PAGE_MAX)

    def link(self, **cursors: int | None) -> str:
        return with_query(self.request._request, self.base, **cursors)


class TailViewSet(Selecting):
    """/tail-events"""

    charged_as = ("stream",)

    @operation(
        Level.NONE,
        query=(SCOPE, KIND, LAST_EVENT_ID, LAST_EVENT_ID_HEADER, HTML),
        media_type="text/event-stream",
    )
    def list(self) -> HttpResponse:
        """Follow events as they happen.

        A stream of server-sent events: `id`, `event` (the kind) and `data` (the event as JSON).
        It begins after `Last-Event-ID`, or now when there is none.
        """
        newest = Event.objects.newest_id()
        selection = self.selection()
        last = self.params["Last-Event-ID"]
        after = self.params["last_event_id"] if last is None else last
        wish = Wish(
            selection=selection,
            credential=cast("Credential", self.request.auth),
            html=self.params["html"],
            after=newest if after is None else min(after, newest),
            newest=newest,
        )
        self.subscribe(wish)
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return HttpResponse(content_type="text/event-stream", headers=headers)

    def subscribe(self, wish: Wish) -> None:
        """Tell the stream (see `stream.live`), which takes over when this answer has been made."""
        if self.request.method == "HEAD":
            return
        subscribe = getattr(self.request._request, "scope", {}).get(SUBSCRIBE)
        if subscribe is None:
            raise Unavailable("unavailable", "The live stream is served by the ASGI process.")
        subscribe(wish)

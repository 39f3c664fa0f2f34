"""Events as frames of the live stream: server-sent events with JSON, or with rendered HTML."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias, cast

from django.conf import settings
from django.template.loader import render_to_string
from django.utils.module_loading import import_string
from django.utils.safestring import SafeString

from apps.core import json
from apps.core.access import Principal
from apps.core.views import site_url
from apps.events.models import PINGED, EventRow, Key
from apps.events.sentences import sentence
from apps.events.serializers import event_records

OPENING = b": ok\n\nretry: 0\n\n"
HEARTBEAT = b": heartbeat\n\n"
LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True)
class EventBody:
    """The current text of an event's target, such as a thread or a reply."""

    html: str | None = None
    """The body as safe HTML; None without a body, or if the body is too long for an event."""
    reply: Mapping[str, Any] | None = None
    """The record of a reply that readers see, with `to`: the author of its parent."""


Bodies: TypeAlias = Mapping[int, EventBody]
"""By the id of the event. Events without a body are missing."""


class EventBodies(Protocol):
    """The function that `settings.EVENT_BODIES` names: reads the current bodies of events, with
    links that each principal may follow.

    The number of its queries does not depend on the number of events, nor on the number of
    principals with the same links. The principals are those of `apps.accounts`; each may read all
    of the events that it receives. With `renew`, it reads the principals again first, because one
    of the events may have reduced what they may read.
    """

    def __call__(
        self, events: Sequence[EventRow], principals: Collection[Any], base: str, *, renew: bool
    ) -> Mapping[Any, Bodies]: ...


def bodies_for(
    events: Sequence[EventRow], principals: Collection[Principal], *, renew: bool = False
) -> Mapping[Principal, Bodies]:
    """The current bodies of these events for each of these principals; see `EventBodies`."""
    if not (events and principals):
        return {}
    event_bodies = cast("EventBodies", import_string(settings.EVENT_BODIES))
    return event_bodies(events, principals, site_url(), renew=renew)


def frame(event_id: int, kind: str, data: bytes) -> bytes:
    """The bytes of an event: its id, its kind, and a `data` line for each line of the payload."""
    lines = b"".join(b"data: %b\n" % line for line in LINE_END.split(data))
    return b"id: %d\nevent: %b\n%b\n" % (event_id, kind.encode(), lines)


class EventFrames:
    """An event and its frames. Each frame is made once, when the first stream needs it."""

    def __init__(self, event: EventRow, record: dict[str, Any], pinged: Iterable[int] = ()) -> None:
        self.event = event
        self.record = record
        self.keys = frozenset([*event.keys(), *(Key(PINGED, person) for person in pinged)])
        self._html: dict[str | None, bytes] = {}

    def frame(self, *, html: bool, body: EventBody | None = None) -> bytes:
        """The frame with HTML or JSON. Only HTML shows the body."""
        return self.html(body or EventBody()) if html else self.json

    @cached_property
    def json(self) -> bytes:
        return frame(self.event.id, self.event.kind, json.dumps(self.record))

    def html(self, body: EventBody) -> bytes:
        """The frame with HTML, made once for all readers with the same links in the body."""
        if body.html not in self._html:
            text = render_to_string("events/event.html", self._context(body))
            self._html[body.html] = frame(self.event.id, self.event.kind, text.strip().encode())
        return self._html[body.html]

    def _context(self, body: EventBody) -> dict[str, Any]:
        """The context of the template. Only the links of the body depend on the reader."""
        html = None if body.html is None else SafeString(body.html)
        path, base = self.record["repo_path"], site_url()
        return {
            "event": self.record,
            "words": sentence(self.record, base),
            "base": base,
            "number": self.event.number,
            "body": html,
            "thread": {"web_url": f"/{path}/threads/{self.event.number}"},
            "reply": body.reply and {**body.reply, "body_html": html},
        }


def frames_of(
    events: Sequence[EventRow], pinged: Mapping[int, Iterable[int]] | None = None
) -> list[EventFrames]:
    """The frames of these events, with absolute URLs. `pinged`: the ids of the pinged people, by
    the id of the event.
    """
    records = event_records(events, site_url())
    return [
        EventFrames(event, record, (pinged or {}).get(event.id, ()))
        for event, record in zip(events, records, strict=True)
    ]

"""What was written, for events that are shown as HTML. The apps above know the texts:
`settings.EVENT_BODIES` names the function that has them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

from django.conf import settings
from django.utils.module_loading import import_string

from apps.core.access import Principal
from apps.core.views import site_url
from apps.events.models import EventRow


@dataclass(frozen=True)
class Written:
    """What was written, as it is now."""

    html: str | None = None
    """The body, safe to show; None where there is none, or one that is too long for an event."""
    reply: Mapping[str, Any] | None = None
    """The record of a reply that readers see, with whom it answers (`to`)."""


Bodies: TypeAlias = Mapping[int, Written]
"""By the event's id; some events have none."""


class EventBodies(Protocol):
    """Reads the bodies of these events as they are now, with links that each of these may follow.

    The number of its queries does not depend on how many events there are, nor on how many
    principals where the links are the same for all. The principals are those of `apps.accounts`;
    each may read all of the events that are shown to them. `anew`: they have to be read anew before
    it asks what they may follow, as one of the events may have made somebody less than they were.
    """

    def __call__(
        self, events: Sequence[EventRow], principals: Collection[Any], base: str, *, anew: bool
    ) -> Mapping[Any, Bodies]: ...


def bodies_for(
    events: Sequence[EventRow], principals: Collection[Principal], *, anew: bool = False
) -> Mapping[Principal, Bodies]:
    """The bodies of these events for each of these principals, as they are now: `EventBodies`."""
    found = cast("EventBodies", import_string(settings.EVENT_BODIES))
    return found(events, principals, site_url(), anew=anew) if events and principals else {}

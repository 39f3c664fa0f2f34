"""Queries for webhooks and their deliveries."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import F, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat, StrIndex

from apps.core.pagination import CountOf
from apps.events.models import Event, EventQuerySet, Key
from apps.webhooks.access import WebhookAccess, owner_of
from apps.webhooks.models import Delivery, Webhook

MOST_WAITING = 1000
"""Number of events after the cursor among which `lag` counts."""
CONTENTS = ("request_headers", "request_body", "response_headers", "response_body")
"""Columns of deliveries that lists do not show."""


def list_webhooks(access: WebhookAccess) -> QuerySet[Webhook]:
    """The webhooks of a repository, a team or the site, newest first, with `lag`."""
    repo, team = owner_of(access)
    rows: Any = Webhook.objects.filter(repo=repo, team=team).order_by("-id")
    rows = rows.select_related("created_by", "repo__owner_team", "repo__owner_user", "team")
    key = Webhook(repo=repo, team=team).key
    return cast("QuerySet[Webhook]", rows.annotate(lag=CountOf(_waiting(key))))


def _waiting(key: Key) -> EventQuerySet:
    """The events that the webhook of the outer query has to send, among the next ones of its key.

    A longer search would read the whole log for a webhook that was disabled long ago.
    """
    later = Event.objects.of(key).filter(pk__gt=OuterRef(OuterRef("cursor_event_id")))
    following = later.order_by("pk").values("pk")[:MOST_WAITING]
    word = Concat(Value('"'), F("kind"), Value('"'))
    position = StrIndex(Cast(OuterRef("kinds"), TextField()), word)
    events = Event.objects.annotate(position=position, kinds=Cast(OuterRef("kinds"), TextField()))
    return events.filter(Q(position__gt=0) | Q(kinds="[]"), pk__in=following)


def list_deliveries(webhook: Webhook) -> QuerySet[Delivery]:
    """The attempts of a webhook, newest first."""
    return Delivery.objects.filter(webhook=webhook).order_by("-id")

"""Webhooks with long and hostile values, for the pages in a browser."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from apps.webhooks.actions import create_webhook
from apps.webhooks.models import Delivery


def add_webhooks(accesses: dict[str, Any], later: dt.datetime, text: str) -> dict[str, str]:
    """A failing webhook with a delivery below each access; their uuids, by names that begin with
    the key of the access.
    """
    uuids = {}
    for name, access in accesses.items():
        url = "https://ci.example.org/" + "w" * 300
        hook = create_webhook(access=access, url=url, kinds=["pull-merged"], description="W" * 255)
        hook.consecutive_failures, hook.next_attempt_at = 3, later
        hook.save()
        delivery = Delivery.objects.create(
            webhook=hook,
            kind="pull-merged",
            event_id=1,
            attempt=3,
            status="failed",
            error="status",
            response_status=500,
            duration_ms=12,
            request_headers={"webhook-id": "evt_1"},
            request_body=json.dumps({"title": text}),
            response_headers={"x" * 60: text},
            response_body=text,
        )
        uuids[f"{name}hook"], uuids[f"{name}delivery"] = str(hook.uuid), str(delivery.uuid)
    return uuids

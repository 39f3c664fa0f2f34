"""The job of webhooks, for `settings.JOBS`: delete old deliveries."""

from __future__ import annotations

import datetime as dt

from django.db.models import QuerySet
from django.utils import timezone

from apps.jobs.worker import OnDone
from apps.webhooks.models import Delivery, Webhook

STORED_FOR = dt.timedelta(days=30)
STORED_PER_WEBHOOK = 1000
BATCH_SIZE = 1000
"""Rows that one transaction deletes."""


def prune_deliveries(_: OnDone = lambda _: None) -> bool:
    """Delete deliveries that are older than 30 days, and all but the last 1,000 of each webhook.

    Returns False, as nothing is left to do.
    """
    delete(old_deliveries(timezone.now()))
    for pk in Webhook.objects.values_list("pk", flat=True).iterator():
        rows = Delivery.objects.filter(webhook=pk)
        newest_first = rows.order_by("-pk").values_list("pk", flat=True)
        for last in newest_first[STORED_PER_WEBHOOK : STORED_PER_WEBHOOK + 1]:
            delete(rows.filter(pk__lte=last).order_by("pk"))
    return False


def old_deliveries(now: dt.datetime) -> QuerySet[Delivery]:
    """The deliveries older than 30 days, oldest first."""
    return Delivery.objects.filter(created_at__lt=now - STORED_FOR).order_by("created_at")


def delete(rows: QuerySet[Delivery]) -> None:
    """Delete these rows in several transactions, each of which is short."""
    while batch := [*rows.values_list("pk", flat=True)[:BATCH_SIZE]]:
        Delivery.objects.filter(pk__in=batch).delete()

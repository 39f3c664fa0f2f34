"""The answer of `/metrics`: counts of all workers, and gauges of the site, read for each answer."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models.functions import Coalesce
from django.utils import timezone
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from apps.core.slots import ALL
from apps.core.workers import workers
from apps.events.models import Event, PingMail
from apps.repos.models import Fork, PushJournal
from apps.repos.models.fork import TO_DO
from apps.webhooks.events import due_since
from config.readiness import OK, readiness

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
logger = logging.getLogger(__name__)


def exposition(folder: Path) -> bytes:
    """The metrics in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(CountsOfWorkers(folder))
    registry.register(SiteCollector())
    return generate_latest(registry)


class CountsOfWorkers(Collector):
    """Adds the counts in the files of all workers. A file is empty for a moment after its worker
    has created it, and stays empty if the worker is killed then.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def collect(self) -> Iterable[Metric]:
        files = [str(path) for path in self.folder.glob("*.db") if not is_empty(path)]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return merged


def is_empty(path: Path) -> bool:
    """Whether a file has no bytes, or was removed a moment ago."""
    try:
        return path.stat().st_size == 0
    except FileNotFoundError:
        return True


class SiteCollector(Collector):
    """Reads the gauges. Those of the database are missing while it does not answer."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        state = readiness.state()
        ready = {name: float(text == OK) for name, text in state.parts.items()}
        yield gauge("guildhall_ready", "Whether a part of /readyz is ok: 1 or 0.", ready, "part")
        usage = shutil.disk_usage(settings.DATA_DIR)
        yield gauge("guildhall_disk_free_bytes", "Free bytes of the disk of DATA_DIR.", usage.free)
        yield gauge("guildhall_disk_size_bytes", "Size of the disk of DATA_DIR.", usage.total)
        yield gauge("guildhall_streams_open", "Open live streams.", workers.streams.total())
        held = workers.transfers.count(ALL)
        yield gauge("guildhall_git_slots_held", "Slots that git requests hold.", held)
        if state.database_answers:
            try:
                yield from database_gauges()
            except DatabaseError as error:
                logger.warning("Metrics of the database are missing: %s", error)
            finally:
                connection.close()


def database_gauges() -> Iterator[GaugeMetricFamily]:
    yield gauge(
        "guildhall_journal_oldest_age_seconds",
        "Age of the oldest row of the push journal; 0 without rows.",
        age(PushJournal.objects.order_by("id").values_list("created_at", flat=True).first()),
    )
    yield gauge(
        "guildhall_work_overdue_seconds",
        "Seconds for which the oldest due fork, mail or event of a webhook has waited.",
        {
            "fork": age(fork_due_since()),
            "ping_mail": age(mail_due_since()),
            "webhook": age(due_since()),
        },
        "work",
    )
    newest = Event.objects.order_by("-id").values_list("id", flat=True).first() or 0
    behind = [newest - last for last in workers.hubs.tolist() if last]
    yield gauge(
        "guildhall_stream_lag_events",
        "Ids between the newest event and the last one that the slowest hub has read.",
        max([0, *behind]),
    )


def fork_due_since() -> datetime | None:
    since = Coalesce("lease_until", "created_at")
    return (
        Fork.objects.filter(TO_DO, Fork.due()).order_by("id").values_list(since, flat=True).first()
    )


def mail_due_since() -> datetime | None:
    mail = PingMail.next_due() if settings.SENDS_MAIL else None
    if mail is None:
        return None
    if mail.lease_until:
        return mail.lease_until
    return Event.objects.filter(pk=mail.newest).values_list("created_at", flat=True).first()


def age(since: datetime | None) -> float:
    """Seconds since then; 0 without a time."""
    return max(0.0, (timezone.now() - since).total_seconds()) if since else 0.0


def gauge(
    name: str, help_text: str, value: float | Mapping[str, float], label: str = ""
) -> GaugeMetricFamily:
    """A gauge with one value, or with one for each value of the label."""
    if not isinstance(value, Mapping):
        return GaugeMetricFamily(name, help_text, value=value)
    family = GaugeMetricFamily(name, help_text, labels=[label])
    for text, number in value.items():
        family.add_metric([text], number)
    return family

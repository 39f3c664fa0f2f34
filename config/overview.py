"""The admin's page for operators: versions, readiness, queues, disk, backups, recent failures."""

from __future__ import annotations

import datetime as dt
import platform
import shutil
from functools import cache
from typing import Any

import django
from django.conf import settings
from django.contrib import admin
from django.db import connection
from django.db.models import QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from apps.events.models import NEWS, PingMail
from apps.git.run import run_git
from apps.pulls.models import IS_UNCHECKED, Pull, PullVersion
from apps.repos.models import (
    HEAD_DUE,
    PUSHES_DUE,
    UNREAD,
    UNSOUGHT,
    UNTIDY,
    CommitSearch,
    Fork,
    PushJournal,
    Ref,
    Repo,
)
from apps.repos.models.fork import TO_DO
from apps.site.models import DailyCount
from apps.uploads.models import Upload
from config.backups import manifest
from config.readiness import OK, readiness

COUNTED = 100
"""A queue is counted no further."""
DAYS = 7
"""Days of which failures are shown, with today."""


def overview(request: HttpRequest) -> HttpResponse:
    """/admin/overview/"""
    context = {
        **admin.site.each_context(request),
        "title": "Overview",
        "versions": versions(),
        "readiness": readiness.state().record(),
        "ok": OK,
        "queues": {name: bounded(rows) for name, rows in queues().items()},
        "disk": disk(),
        "backup": backup(),
        "days": days(),
    }
    return TemplateResponse(request, "admin/staff_overview.html", context)


def versions() -> dict[str, str]:
    numbers = connection.get_database_version()
    return {
        "Guildhall": manifest.GUILDHALL,
        "Python": platform.python_version(),
        "Django": django.get_version(),
        "git": git_version(),
        connection.display_name: ".".join(map(str, numbers)),
    }


@cache
def git_version() -> str:
    """The version of git; asked once in a process."""
    return run_git(settings.REPOSITORIES_DIR, "version").word.removeprefix("git version ")


def queues() -> dict[str, QuerySet[Any]]:
    """The rows that wait for the worker, each selected by an index of its own."""
    now = timezone.now()
    forks = Fork.objects.filter(TO_DO)
    return {
        "moves of refs in journals": PushJournal.objects.all(),
        "changed default branches": Repo.objects.filter(HEAD_DUE),
        "forks": forks,
        "forks whose lease is overdue": forks.filter(lease_until__lt=now),
        "mails about pings": PingMail.objects.filter(NEWS, PingMail.due()),
        "repositories to tidy": Repo.objects.filter(UNTIDY, pushed_at__isnull=False),
        "repositories with unread pushes": Repo.objects.filter(PUSHES_DUE),
        "branches and tags with unread commits": Ref.objects.filter(UNREAD),
        "searches for commits": CommitSearch.objects.filter(UNSOUGHT),
        "versions of pulls": PullVersion.objects.filter(due_at__lte=now),
        "pulls to check for conflicts": Pull.objects.filter(IS_UNCHECKED, conflict_due_at__lte=now),
        "changes to prepare": PullVersion.objects.filter(changes_due_at__lte=now),
    }


def bounded(rows: QuerySet[Any]) -> str:
    """The number of rows; beyond `COUNTED` it says so, and counts no further."""
    count = rows.order_by().values("pk")[: COUNTED + 1].count()
    return f"more than {COUNTED}" if count > COUNTED else str(count)


def disk() -> dict[str, int]:
    """Bytes. Repositories count as they were last measured, uploads as people sent them."""
    usage = shutil.disk_usage(settings.DATA_DIR)
    return {
        "free": usage.free,
        "total": usage.total,
        "repositories": Repo.objects.aggregate(total=Sum("disk_bytes"))["total"] or 0,
        "uploads": Upload.objects.aggregate(total=Sum("size"))["total"] or 0,
    }


def backup() -> dict[str, Any]:
    """The last backup, or the problem with its file; empty if there is none."""
    try:
        last = manifest.last()
    except (OSError, ValueError) as error:
        return {"problem": str(error)}
    return {} if last is None else {"last": last}


def days() -> list[DailyCount]:
    """The failures of today and of the days before, newest first."""
    today = timezone.now().date()
    dates = [today - dt.timedelta(days=number) for number in range(DAYS)]
    rows = DailyCount.objects.in_bulk(dates)
    return [rows.get(date) or DailyCount(day=date) for date in dates]

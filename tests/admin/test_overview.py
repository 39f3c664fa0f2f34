"""The overview: who sees it, its numbers, and that its cost does not grow with the site."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import Error, connection, transaction
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import include, path

from apps.repos.models import ForkStatus
from apps.site.models import DailyCount
from config import overview
from config.backups import manifest
from tests.factories import ForkFactory
from tests.test_queries import costing

URL = "/admin/overview/"
MADE = manifest.Manifest(
    format=1,
    guildhall="0.1.0",
    database="sqlite",
    started="2026-05-04T01:00:00+00:00",
    finished="2026-05-04T01:02:03+00:00",
    newest_event=9,
    repositories=3,
    uploads=4,
    bytes=5 * 1024**2,
    rows={},
    migrations=[],
)


def breaks(request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError


urlpatterns: list[Any] = [path("breaks", breaks), path("api/v1/breaks", breaks)]
urlpatterns += [path("", include("config.urls"))]
handler500 = "apps.web.errors.server_error"


def failures() -> tuple[int, int]:
    """Server errors and refused pushes of all days: a test may run at midnight."""
    sums = DailyCount.objects.aggregate(a=Sum("server_errors"), b=Sum("refused_pushes"))
    return sums["a"] or 0, sums["b"] or 0


def test_staff_alone_sees_it_and_the_index_links_to_it(visit, staff, bob):
    assert visit(bob).get(URL).status == 302
    assert f'href="{URL}"' in staff.get("/admin/").html
    text = staff.get(URL).gives().text
    for word in (
        f"Guildhall {manifest.GUILDHALL}",
        "git 2.",
        "migrations ok",
        "There is no backup yet",
    ):
        assert word in text


def test_a_queue_is_counted_up_to_a_limit(staff, team_repo, alice, bob, monkeypatch):
    monkeypatch.setattr(overview, "COUNTED", 1)
    assert "forks 0" in staff.get(URL).text
    for number, owner in enumerate((alice, bob)):
        ForkFactory.create(upstream=team_repo, owner=owner, created_by=owner, status="queued")
        assert f"forks {('1', 'more than 1')[number]} forks whose" in staff.get(URL).text


def test_more_rows_cost_no_more_queries(staff, make, acme, alice):
    costs: list[Any] = []
    staff.get(URL)  # asks git for its version
    for number in range(3):
        repo = make.repo(acme, f"repo{number}", by=alice)
        ForkFactory.create(upstream=repo, owner=alice, created_by=alice, status=ForkStatus.QUEUED)
        with costing() as cost:
            staff.get(URL).gives()
        costs.append((cost.sql, cost.git))
    assert len({*costs}) == 1 and costs[0][1] == 0


def test_answers_with_500_are_counted_and_others_are_not(visit, staff):
    with override_settings(ROOT_URLCONF=__name__):
        for address in ("/breaks", "/api/v1/breaks"):
            visit().get(address).gives(500)
        visit().get("/nowhere").gives(404)
    assert failures() == (2, 0)
    assert "(today) 2 0" in staff.get(URL).text or "(today) 0 0" in staff.get(URL).text


def test_a_count_that_fails_is_dropped(db):
    with transaction.atomic(), connection.execute_wrapper(refuse):
        DailyCount.add("server_errors")
    assert failures() == (0, 0)


def refuse(execute: Any, sql: str, *rest: Any) -> Any:
    if "dailycount" in sql:
        raise Error("away")
    return execute(sql, *rest)


def test_the_last_backup_is_shown_and_a_damaged_file_is_named(staff):
    file = Path(settings.DATA_DIR, manifest.LAST)
    try:
        MADE.write_as_last(Path("/backups/monday"))
        text = staff.get(URL).text
        for words in ("2026-05-04 01:02", "/backups/monday", "123 s", "3 repositories, 4 uploads"):
            assert words in text
        whole = {**asdict(MADE), "folder": "/x"}
        wrong: list[dict[str, Any]] = [
            {"mood": 1},
            {"finished": "monday"},
            {"finished": 5},
            {"finished": "2026-05-04T01:02:03"},  # without a time zone
        ]
        for damaged in ("", "[]", "{}", *(json.dumps({**whole, **more}) for more in wrong)):
            file.write_text(damaged)
            assert "last-backup.json is damaged" in staff.get(URL).text
        file.write_text(json.dumps({**whole, "finished": "2026-05-04T00:00:00+00:00"}))
        assert "duration 0 s" in staff.get(URL).text, "the clock was set back"
    finally:
        file.unlink(missing_ok=True)

"""/teams/{team_slug}/activity and /users/{username}/activity."""

from __future__ import annotations

import datetime as dt
import json
import re
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.events import serializers
from apps.events.models import Event
from apps.events.queries import ACTIVITY
from apps.events.serializers import DAYS
from apps.repos.models import Visibility
from tests.api import Api

NOTHING = dict.fromkeys(ACTIVITY.values(), 0)


def totals(api: Api, path: str) -> dict[str, int]:
    """The totals that are not zero. Checks that they add up to the counts of the days."""
    record = api.get(f"{path}/activity").gives()
    assert sum(day["count"] for day in record["days"]) == sum(record["totals"].values())
    return {name: count for name, count in record["totals"].items() if count}


@pytest.fixture
def today(monkeypatch) -> dt.date:
    """Fix the time, so that no new day begins during the test."""
    now = timezone.now()
    monkeypatch.setattr(serializers, "timezone", SimpleNamespace(now=lambda: now))
    return now.date()


def test_activity_is_ninety_days_until_today(api, acme, alice, today):
    for path, subject in (
        ("/teams/ACME", {"kind": "team", "slug": "acme"}),
        ("/users/ALICE", {"kind": "user", "username": "alice"}),
    ):
        record = api(alice).get(f"{path}/activity").gives()
        dates = [day["date"] for day in record["days"]]
        assert (record["subject"], record["totals"]) == (subject, NOTHING)
        assert (dates[0], dates[-1], len(dates)) == (record["from"], record["to"], DAYS)
        assert dates == sorted(set(dates)) and record["to"] == today.isoformat()
        assert dt.date.fromisoformat(record["from"]) == today - dt.timedelta(days=89)


def test_every_sort_of_work_counts_and_nothing_else(api, make, acme, team_repo, alice, bob):
    thread = make.thread(team_repo, by=bob)
    pull = make.pull(team_repo, by=bob)
    make.reply(thread, by=bob)
    make.review(pull, by=alice)
    for kind in ("branch-pushed", "branch-created", "tag-created", "pull-merged"):
        newest = Event.objects.latest("id")
        newest.pk, newest.kind, newest.actor = None, kind, bob
        newest.save(force_insert=True)
    bobs = {"pulls_created": 1, "pulls_merged": 1, "pushes": 2} | dict.fromkeys(
        ("threads_created", "replies_created"), 1
    )
    assert totals(api(alice), "/users/bob") == bobs
    assert totals(api(alice), "/users/alice") == {"reviews_created": 1}
    assert totals(api(alice), "/teams/acme") == {**bobs, "reviews_created": 1}


def test_what_is_older_than_ninety_days_no_longer_counts(api, make, team_repo, bob, today):
    make.thread(team_repo, by=bob)
    midnight = dt.datetime.combine(today, dt.time(), dt.UTC)
    first = midnight - dt.timedelta(days=DAYS - 1)
    Event.objects.update(created_at=first)
    record = api(bob).get("/users/bob/activity").gives()
    assert record["days"][0] == {"date": first.date().isoformat(), "count": 1}
    Event.objects.update(created_at=first - dt.timedelta(microseconds=1))
    assert totals(api(bob), "/users/bob") == {}


def test_only_what_the_caller_may_read_counts(api, make, acme, alice, bob, carol, sam):
    for visibility in Visibility:
        make.thread(make.repo(acme, by=alice, visibility=visibility), by=bob)
    api(carol).get("/users/nobody/activity").fails(404, "not_found")
    assert totals(api(carol), "/users/bob") == {"threads_created": 2}
    for person in (alice, bob, sam):
        assert totals(api(person), "/users/bob") == {"threads_created": 3}
        assert totals(api(person), "/teams/acme") == {"threads_created": 3}


def test_activity_is_read_along_an_index(api, make, team_repo, alice, bob):
    """The query reads no events of others, and no events of other times."""
    make.thread(team_repo, by=bob)
    event = Event.objects.latest("id")
    others = make.repo(alice, by=alice)
    long_ago = event.created_at - dt.timedelta(days=200)
    about = {"kind": "thread-created", "target": {}}
    own = {**about, "actor": bob, "repo_id": team_repo.pk, "team_id": event.team_id}
    of_others = {**about, "actor": alice, "repo_id": others.pk}
    rows = [Event(**own, created_at=long_ago + dt.timedelta(minutes=n)) for n in range(500)]
    rows += [Event(**of_others, created_at=event.created_at) for _ in range(500)]
    rows += [Event(**of_others, created_at=long_ago) for _ in range(5000)]
    Event.objects.bulk_create(rows)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    for path, index in (("/users/bob", "event_actor_time"), ("/teams/acme", "event_team_time")):
        plan = plan_of(api(alice), path)
        assert re.search(rf"USING INDEX {index}|on {index}|using {index}", plan), plan
        assert not re.search(r"SCAN events_event|Seq Scan on events_event", plan), plan


def plan_of(api: Api, path: str) -> str:
    """The plan of the one query that counts."""
    with CaptureQueriesContext(connection) as captured:
        assert totals(api, path) == {"threads_created": 1}
    counting = [query["sql"] for query in captured.captured_queries if "COUNT" in query["sql"]]
    with connection.cursor() as cursor:
        explain = "EXPLAIN" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
        cursor.execute(f"{explain} {counting[0]}")
        plan = json.dumps(cursor.fetchall())
    assert len(counting) == 1
    return plan

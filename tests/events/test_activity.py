"""/teams/{team_slug}/activity and /users/{username}/activity."""

from __future__ import annotations

import datetime as dt
import json
from importlib import import_module
from types import SimpleNamespace

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.events import serializers
from apps.events.kinds import ACTIVITY, Kind
from apps.events.models import ActivityCount, Event
from apps.events.record import Change, record, record_all
from apps.events.serializers import DAYS
from apps.repos.models import Visibility
from tests.api import Api
from tests.migrations import as_of

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
    for kind in (Kind.BRANCH_PUSHED, Kind.BRANCH_CREATED, Kind.TAG_CREATED, Kind.PULL_MERGED):
        record(kind, actor=bob, about=pull)
    bobs = {"pulls_created": 1, "pulls_merged": 1, "pushes": 2} | dict.fromkeys(
        ("threads_created", "replies_created"), 1
    )
    assert totals(api(alice), "/users/bob") == bobs
    assert totals(api(alice), "/users/alice") == {"reviews_created": 1}
    assert totals(api(alice), "/teams/acme") == {**bobs, "reviews_created": 1}


def test_what_is_older_than_ninety_days_no_longer_counts(api, make, team_repo, bob, today):
    make.thread(team_repo, by=bob)
    first = today - dt.timedelta(days=DAYS - 1)
    ActivityCount.objects.update(date=first)
    record = api(bob).get("/users/bob/activity").gives()
    assert record["days"][0] == {"date": first.isoformat(), "count": 1}
    ActivityCount.objects.update(date=first - dt.timedelta(days=1))
    assert totals(api(bob), "/users/bob") == {}


def test_only_what_the_caller_may_read_counts(api, make, acme, alice, bob, carol, sam):
    for visibility in Visibility:
        make.thread(make.repo(acme, by=alice, visibility=visibility), by=bob)
    api(carol).get("/users/nobody/activity").fails(404, "not_found")
    assert totals(api(carol), "/users/bob") == {"threads_created": 2}
    for person in (alice, bob, sam):
        assert totals(api(person), "/users/bob") == {"threads_created": 3}
        assert totals(api(person), "/teams/acme") == {"threads_created": 3}


def test_activity_is_read_along_an_index_however_many_events_there_are(
    api, make, team_repo, alice, bob
):
    """The query reads no events, and no counts of others or of other times."""
    make.thread(team_repo, by=bob)
    today, team = ActivityCount.objects.get().date, team_repo.owner_team_id
    about = {"kind": "thread-created", "count": 1}
    own = {**about, "actor": bob, "repo_id": team_repo.pk, "team_id": team}
    of_others = {**about, "actor": alice, "date": today}
    long_ago = [today - dt.timedelta(days=200 + number) for number in range(500)]
    rows = [ActivityCount(**own, date=date) for date in long_ago]
    rows += [ActivityCount(**of_others, repo_id=10**6 + number) for number in range(5000)]
    ActivityCount.objects.bulk_create(rows)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    for path, index in (("/users/bob", "activity_once"), ("/teams/acme", "activity_team")):
        plan = plan_of(api(alice), path)
        assert "SCAN events_activitycount" not in plan and "Seq Scan on events_act" not in plan, (
            plan
        )
        assert "events_event" not in plan and (connection.vendor == "sqlite" or index in plan), plan


def plan_of(api: Api, path: str) -> str:
    """The plan of the one query that counts."""
    with CaptureQueriesContext(connection) as captured:
        assert totals(api, path) == {"threads_created": 1}
    counting = [query["sql"] for query in captured.captured_queries if "SUM(" in query["sql"]]
    with connection.cursor() as cursor:
        explain = "EXPLAIN" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
        cursor.execute(f"{explain} {counting[0]}")
        plan = json.dumps(cursor.fetchall())
    assert len(counting) == 1
    return plan


@pytest.mark.django_db(transaction=True)
def test_events_from_before_there_were_counts_are_counted(api, make, acme, alice, bob, monkeypatch):
    """The migration counts like `record`, by days in UTC, in batches, and also a second time."""
    migration = import_module("apps.events.migrations.0005_count_events")
    monkeypatch.setattr(migration, "BATCH_SIZE", 2)
    repo, own = make.repo(acme, "api", by=alice), make.repo(bob, by=bob)
    for _ in range(2):
        pull = make.pull(repo, by=bob)
        make.reply(make.thread(own, by=bob), by=bob)
    with transaction.atomic():
        record_all([Change(Kind.PULL_MERGED, None, pull), Change(Kind.BRANCH_DELETED, bob, pull)])
    names = ("actor", "date", "repo_id", "kind", "team_id", "count")
    before = {*ActivityCount.objects.values_list(*names)}
    night = timezone.now().replace(hour=23, minute=59) - dt.timedelta(days=1)
    late = Event.objects.filter(kind=Kind.PULL_CREATED)[0]
    late.pk, late.created_at = None, night
    late.save(force_insert=True)
    with as_of("events", "0003_pings"):
        pass
    of_night = (bob.pk, night.date(), repo.pk, Kind.PULL_CREATED, acme.pk, 1)
    assert len(before) == 4
    assert {*ActivityCount.objects.values_list(*names)} == {*before, of_night}
    with connection.schema_editor(atomic=False) as editor:
        migration.count_events(None, editor)
    assert {*ActivityCount.objects.values_list(*names)} == {*before, of_night}


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite's own")
@pytest.mark.django_db(transaction=True)
def test_deleted_content_is_overwritten_again_after_the_indexes_have_been_dropped():
    with as_of("events", "0003_pings"):
        pass
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA secure_delete")
        assert cursor.fetchone() == (1,)


def test_each_event_of_a_day_is_added_to_one_count(make, team_repo, bob):
    thread = make.thread(team_repo, by=bob)
    make.reply(thread, by=bob)
    record_all([Change(Kind.REPLY_CREATED, bob, thread)] * 3)
    counts = ActivityCount.objects.order_by("count").values_list("kind", "count")
    assert [*counts] == [("thread-created", 1), ("reply-created", 4)]

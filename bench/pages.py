"""Time of the pages with a hundred times the rows of the demo, in process. See bench/README.md.

On SQLite; with DATABASE_URL on PostgreSQL, where it names an empty database. `--events=300000`: so
many more events of alice's in the last 90 days.
"""

from __future__ import annotations

import copy
import datetime as dt
import gzip
import os
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from in_process import migrate

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.events.models import ActivityCount, Event, Key, Ping
from apps.events.record import count_events
from apps.events.serializers import activity_record
from apps.pulls.models import Pull, PullVersion, Review, VersionContents
from apps.repos.access import access_to
from apps.repos.models import Ref, Repo
from apps.teams.models import Member, Team
from apps.threads.actions import create_reply, create_thread
from apps.threads.models import Reply, Thread
from config import demo

TIMES, TURNS, REPLIES = 100, 15, 50
REPO = "teams/acme/tide-table"
TRIVIAL = "a form (/settings/appearance)"
BUDGETS = {
    TRIVIAL: None,
    "home": 60,
    "home of bob, a member": 60,
    "a repository": 80,
    "a pull": 80,
    f"a thread of {REPLIES} replies": 50,
}
"""Milliseconds."""
Places = dict[tuple[int, int], int]
"""The id of each copy, by the number of the copy and the id of the original."""


def main(events: int) -> None:
    migrate()
    demo.load()
    multiply()
    more_events(events)
    ActivityCount.objects.all().delete()
    count_events(Event.objects.iterator())
    measure(paths())


def multiply() -> None:
    """Copy each row of the demo 99 times: threads and what is in them beside the others of their
    repository; people and teams beside each other, and repositories, but these without threads.
    """
    people = copies(User, ["username", "username_key"], empty=["email", "email_key"])
    teams = copies(Team, ["slug"])
    copies(Member, team_id=teams, user_id=people)
    threads = copies(Thread, ["number"])
    replies: Places = {}
    for depth in range(9):
        rows = Reply.objects.filter(depth=depth)
        replies |= copies(Reply, rows=rows, thread_id=threads, parent_id=replies)
    pulls = copies(Pull, ["number"], thread_id=threads)
    copies(Review, pull_id=pulls)
    versions = copies(PullVersion, pull_id=pulls)
    copies(VersionContents, version_id=versions)
    events = copies(Event, ["number"], thread_id=threads)
    copies(Ping, event_id=events)
    places = copies(Repo, ["slug"])
    copies(Ref, repo_id=places)


def copies(
    model: Any,
    other: Any = (),
    rows: Any = None,
    empty: Any = (),
    **places: Mapping[tuple[int, int], int],
) -> Places:
    """Copy the rows of a model, or these rows. The columns `other` of a copy contain its number."""
    originals = [*(model.objects.all() if rows is None else rows)]
    made, keys = [], []
    for number in range(1, TIMES):
        for row in originals:
            one = copy.copy(row)
            one._state = copy.copy(row._state)
            one.pk, one._state.adding = None, True
            if hasattr(one, "uuid"):
                one.uuid = uuid4()
            for name in other:
                value = getattr(row, name)
                is_text = isinstance(value, str)
                setattr(one, name, f"{value}-{number}" if is_text else (value or 0) + number * 1000)
            for name in empty:
                setattr(one, name, None if model._meta.get_field(name).null else "")
            for name, ids in places.items():
                value = getattr(row, name)
                setattr(one, name, ids.get((number, value), value))
            made.append(one)
            keys.append((number, row.pk))
    model.objects.bulk_create(made, batch_size=500)
    return {key: one.pk for key, one in zip(keys, made, strict=True)}


def more_events(count: int) -> None:
    """Events of alice's, evenly over the last 90 days."""
    own = Event.objects.filter(actor=User.objects.get(username="alice"), repo_id__gt=0)
    samples = [*own.filter(kind__in=["reply-created", "branch-pushed", "thread-created"])]
    now, apart = timezone.now(), dt.timedelta(days=90) / max(count, 1)
    for begin in range(0, count, 10_000):
        made = []
        for number in range(begin, min(begin + 10_000, count)):
            one = copy.copy(samples[number % len(samples)])
            one._state = copy.copy(one._state)
            one.pk, one._state.adding = None, True
            one.created_at = now - apart * (count - number)
            made.append(one)
        Event.objects.bulk_create(made, batch_size=500)


def paths() -> dict[str, tuple[str, str]]:
    """The person and the address of each page, by name."""
    Repo.objects.update(last_number=TIMES * 1000)
    repo = Repo.objects.get(slug="tide-table", owner_team__slug="acme")
    bob = access_to(Principal(User.objects.get(username="bob")), repo)
    thread = create_thread(access=bob, title="Why?", body="Says who?", kind="question")
    number = None
    for count in range(REPLIES):
        text = f"Because of **{count}**, as `tide.py` has it, and #1 said."
        made = create_reply(
            access=bob, thread=thread, kind="comment", body=text, parent_reply_number=number
        )
        number = made.number if count % 4 else None
    pull = Pull.objects.get(thread__title="Estimate the surge", number__lt=1000)
    shown = ["alice"] * len(BUDGETS)
    shown[2] = "bob"
    addresses = ["/settings/appearance", "/", "/", f"/{REPO}", f"/{REPO}/pulls/{pull.number}"]
    addresses.append(f"/{REPO}/threads/{thread.number}")
    return dict(zip(BUDGETS, zip(shown, addresses, strict=True), strict=True))


def measure(pages: dict[str, tuple[str, str]]) -> None:
    """Print the best times of each page by processor and by clock, and the medians."""
    clients = {name: Client() for name, _ in pages.values()}
    for name, client in clients.items():
        client.force_login(User.objects.get(username=name))
    took: dict[str, list[tuple[float, float]]] = {words: [] for words in pages}
    sizes: dict[str, tuple[int, int]] = {}
    for words, (name, path) in pages.items():
        clients[name].get(path)
        with CaptureQueriesContext(connection) as captured:
            answer = clients[name].get(path)
        if answer.status_code != 200:
            sys.exit(f"{words}: {answer.status_code}")
        sizes[words] = len(captured), len(gzip.compress(answer.content, 6))
    for _ in range(TURNS):
        for words, (name, path) in pages.items():
            processor, clock = time.process_time(), time.perf_counter()
            clients[name].get(path, headers={"accept-encoding": "gzip"})
            spent = time.process_time() - processor, time.perf_counter() - clock
            took[words].append(spent)
    print(f"{Event.objects.count():,} events; load {os.getloadavg()[0]:.1f}; milliseconds")
    print("| | processor: best | median | clock: best | median | ratio | wanted | queries | KB |")
    print("|---|---|---|---|---|---|---|---|---|")
    unit = min(processor for processor, _ in took[TRIVIAL])
    for words, turns in took.items():
        columns = [*zip(*turns, strict=True)]
        figures = [1000 * of(one) for one in columns for of in (min, statistics.median)]
        ratio = min(columns[0]) / unit
        queries, size = sizes[words]
        cells = [f"{one:.1f}" for one in (*figures, ratio)]
        cells += [str(BUDGETS[words] or ""), str(queries), f"{size / 1024:.1f}"]
        print(f"| {words} | {' | '.join(cells)} |")
    measure_activity()


def measure_activity() -> None:
    """Print the best time of alice's record of activity alone."""
    alice = Principal(User.objects.get(username="alice"))
    took = []
    for _ in range(TURNS):
        processor, clock = time.process_time(), time.perf_counter()
        activity_record({}, Key("actor_id", alice.user.pk), alice)
        took.append((time.process_time() - processor, time.perf_counter() - clock))
    best = [f"{1000 * min(column):.1f}" for column in zip(*took, strict=True)]
    print(f"activity alone: processor {best[0]}, clock {best[1]}")


if __name__ == "__main__":
    given = dict(one.removeprefix("--").split("=") for one in sys.argv[1:])
    main(int(given.get("events", 0)))

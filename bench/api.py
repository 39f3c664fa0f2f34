"""Time of requests under gunicorn, relative to an empty response of Django. See bench/README.md.

    .venv/bin/python bench/api.py

On SQLite; with DATABASE_URL on PostgreSQL, in a database that is made for it and dropped.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from measuring import ROOT, Request, Site, alices, compare, serving

from tests.server import GUNICORN

SMALL, LARGE = 1000, 1_000_000
FILL = """
from django.db import connection
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.events.models import Event
from apps.repos.access import access_to, access_to_owner
from apps.repos.actions import create_repo
from apps.teams.actions import create_team
from apps.threads.actions import create_reply, create_thread
from apps.threads.models import Thread
UUID = {"sqlite": "lower(hex(randomblob(16)))", "postgresql": "gen_random_uuid()"}

def multiply(row, times, **changed):
    model = type(row)
    columns = [f.column for f in model._meta.concrete_fields if f.name != "id"]
    names = ", ".join(columns)
    values = ", ".join(changed.get(column, column) for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s) "
            f"INSERT INTO {model._meta.db_table} ({names}) "
            f"SELECT {values} FROM {model._meta.db_table}, n WHERE id = %s",
            [times, row.pk],
        )

alice = User.objects.get(username="alice")
for slug, times in (("small", SMALL), ("large", LARGE)):
    team = create_team(principal=Principal(alice), name=slug, slug=slug)
    space = access_to_owner(Principal(alice), team)
    for number in range(50):
        repo = create_repo(access=space, name="R", slug=f"r{number}")
    access = access_to(Principal(alice), repo)
    thread = create_thread(access=access, title="T", body="Why?", kind="question")
    for number in range(20):
        create_reply(access=access, thread=thread, kind="answer", body="Because.")
    multiply(thread, times, uuid=UUID[connection.vendor], number="number + i")
    repo.last_number += times
    repo.save()
    multiply(Event.objects.get(thread_id=thread.pk, kind="thread-created"), times)
with connection.cursor() as cursor:
    cursor.execute("ANALYZE")
"""


@contextmanager
def bare() -> Iterator[Site]:
    """Django with one view and no middleware, under the same gunicorn."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        options = [*GUNICORN["gunicorn"][:-1], "--bind", f"fd://{listening.fileno()}"]
        # The configuration of the project would load its models.
        options += ["--log-level", "warning", "--config", os.devnull]
        command = [sys.executable, "-m", "gunicorn", "--no-control-socket", *options]
        process = subprocess.Popen(
            [*command, "bench.bare:application"], cwd=ROOT, pass_fds=[listening.fileno()]
        )
        try:
            yield Site(listening.getsockname()[1])
        finally:
            process.terminate()
            process.wait(20)


def table(found: dict[str, float]) -> None:
    base = found["bare"]
    for name, seconds in found.items():
        print(f"  {name:44} {seconds * 1e6:8.0f} µs   {100 * base / seconds:5.1f} % of bare")


def ways(plain: Site, site: Site) -> dict[str, tuple[Request, int]]:
    number = count(1)

    def fresh() -> bytes:
        return b'{"kind": "question", "title": "T%d", "body": "Why?"}' % next(number)

    def answer() -> bytes:
        return b'{"kind": "answer", "body": "Because of %d."}' % next(number)

    small, large = "/api/v1/teams/small/repos", "/api/v1/teams/large/repos"
    reads = {
        "list of 50 repositories": f"{small}?per_page=50",
        "list of 50 threads of 1,000": f"{small}/r49/threads?per_page=50",
        "list of 50 threads of 1,000,000": f"{large}/r49/threads?per_page=50",
        "list of 50 events of 1,000": "/api/v1/events?scope=repo:teams/small/r49&per_page=50",
        "list of 50 events of 1,000,000": "/api/v1/events?scope=repo:teams/large/r49&per_page=50",
        "oneself": "/api/v1/users/self",
        "a repository": f"{small}/r49",
        "a thread with 20 replies": f"{small}/r49/threads/1",
        "a reply": f"{small}/r49/threads/1/replies/1",
    }
    return {
        "bare": (plain.ask("/"), 200),
        **{name: (site.ask(path), 200) for name, path in reads.items()},
        "a new thread": (site.ask(f"{small}/r0/threads", fresh), 201),
        "a new reply": (site.ask(f"{large}/r49/threads/1/replies", answer), 201),
    }


def main() -> None:
    with serving() as (server, _), bare() as plain:
        site = alices(server)
        server.run(f"SMALL, LARGE = {SMALL}, {LARGE}\n{FILL}")
        table(compare(ways(plain, site)))


if __name__ == "__main__":
    main()

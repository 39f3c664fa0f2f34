"""Time of the admin's lists with 100,000 rows, as ratios to the same lists with 100.

On SQLite, or with DATABASE_URL on that PostgreSQL, where it makes and drops two databases. Two
processes, one for each size, take turns; the best turn of each page counts. See bench/README.md.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from django.db import connection
from django.test import Client
from django.utils import timezone
from in_process import ROOT, migrate

from apps.accounts.models import ApiToken, Invite, User
from apps.events.models import Event

SMALL, LARGE, ROUNDS = 100, 100_000, 9
PAGES = {
    "users": "accounts/user/",
    "users, page 20": "accounts/user/?p=20",
    "users, search that finds 1,111": "accounts/user/?q=user-99",
    "users, search that finds all": "accounts/user/?q=user",
    "users, search for one address": "accounts/user/?q=user-99@",
    "users, deactivated (1 %)": "accounts/user/?account=deactivated",
    "tokens": "accounts/apitoken/",
    "tokens, search that finds 1,111": "accounts/apitoken/?q=user-99",
    "tokens, revoked (1 %)": "accounts/apitoken/?status=revoked",
    "invites": "accounts/invite/",
    "invites, search for one address": "accounts/invite/?q=user-99@",
    "invites, expired (1 %)": "accounts/invite/?status=expired",
    "events": "events/event/",
    "events, page 20": "events/event/?p=20",
    "events of one person": "events/event/?q=user-99",
    "events of a rare kind": "events/event/?kind=team-created",
}


def fill(size: int) -> None:
    """This many people, each with a token, an invite and an event; one in a hundred differs."""
    now = timezone.now()
    ends = [now - dt.timedelta(days=1), now + dt.timedelta(days=1)]
    many = range(size)
    people = [person(n) for n in many]
    User.objects.bulk_create(people, 1000)
    tokens = (
        ApiToken(
            user=people[n],
            name="laptop",
            digest=f"{n:064}",
            token_prefix=f"ght_{n:08}",
            revoked_at=None if n % 100 else now,
        )
        for n in many
    )
    ApiToken.objects.bulk_create(tokens, 1000)
    invites = (
        Invite(created_by=one, email=one.email, email_key=one.email, expires_at=ends[one.is_active])
        for one in people
    )
    Invite.objects.bulk_create(invites, 1000)
    kinds = ["team-created"] + (size - 1) * ["user-joined"]
    events = (
        Event(kind=kinds[n], actor=people[n], site=1, target={"kind": "user"}, created_at=now)
        for n in many
    )
    Event.objects.bulk_create(events, 1000)


def person(n: int) -> User:
    name, called, email = f"user-{n}", f"Name {n}", f"user-{n}@example.org"
    keys = {"username_key": name, "display_name_key": called.lower(), "email_key": email}
    return User(username=name, display_name=called, email=email, is_active=n % 100 > 0, **keys)


def serve(size: int) -> None:
    """A database of this size; each line of input runs all pages once."""
    migrate()
    fill(size)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    client = Client()
    client.force_login(User.objects.create_superuser("sam"))
    print("ready", flush=True)
    for _ in sys.stdin:
        took = {}
        for name, path in PAGES.items():
            begin = time.perf_counter()
            answer = client.get(f"/admin/{path}")
            took[name] = time.perf_counter() - begin
            if answer.status_code != 200 and "p=20" not in path:
                raise RuntimeError(f"{path}: {answer.status_code}")
        print(json.dumps(took), flush=True)


def start(size: int, folder: Path, database: str) -> subprocess.Popen[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "DATA_DIR": str(folder / str(size)),
        "SECRET_KEY": "bench",
        **({"DATABASE_URL": database} if database else {}),
    }
    (folder / str(size)).mkdir()
    return subprocess.Popen(
        [sys.executable, __file__, str(size)],
        env=environment,
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def measure(servers: dict[int, subprocess.Popen[str]]) -> None:
    best: dict[int, dict[str, float]] = {size: {} for size in servers}
    for server in servers.values():
        if server.stdout.readline() != "ready\n":
            raise RuntimeError("a database could not be filled")
    for turn in range(ROUNDS + 1):
        for size, server in servers.items():
            server.stdin.write("\n")
            server.stdin.flush()
            for name, seconds in json.loads(server.stdout.readline()).items():
                if turn:  # the first one loads templates
                    best[size][name] = min(seconds, best[size].get(name, seconds))
    for name in PAGES:
        large = best[LARGE][name]
        alike = name.partition(",")[0].partition(" of ")[0]
        small = best[SMALL][alike]
        print(f"  {name:32} {large * 1e3:8.1f} ms {large / small:6.2f}")


def database(size: int, *, drop: bool = False) -> str:
    """A PostgreSQL database for this run, on the server of `DATABASE_URL`; "" on SQLite."""
    server = os.environ.get("DATABASE_URL", "")
    if not server:
        return ""
    import psycopg

    name = f"guildhall_bench_{os.getpid()}_{size}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"{'DROP' if drop else 'CREATE'} DATABASE {name}")
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def main() -> None:
    sizes = (SMALL, LARGE)
    with tempfile.TemporaryDirectory() as folder:
        urls = {size: database(size) for size in sizes}
        servers = {size: start(size, Path(folder), url) for size, url in urls.items()}
        try:
            measure(servers)
        finally:
            for server in servers.values():
                server.stdin.close()
                server.wait()
            for size in sizes:
                database(size, drop=True)


if __name__ == "__main__":
    serve(int(sys.argv[1])) if len(sys.argv) > 1 else main()

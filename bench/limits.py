"""Time of rate limits for a request: a table of ratios, all from one run. See bench/README.md.

    .venv/bin/python bench/limits.py

Needs an installed redis-server, which it starts and ends; touches no other data.
"""

from __future__ import annotations

import http.client
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
ROUNDS = 15
SCOPES = ("api", "authenticated", "api-tokens")
SELF, LIST = "/api/v1/api-tokens/self", "/api/v1/teams/acme/repos"
LIMITS = """
from apps.site.actions import create_rate_limit
for scope in {scopes!r}:
    create_rate_limit(principal=None, scope=scope, max_requests=1000000, window_seconds=86400)
"""
REPOS = """
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.repos.access import access_to_owner
from apps.repos.actions import create_repo
from apps.teams.actions import create_team
alice = User.objects.get(username="alice")
team = create_team(principal=Principal(alice), name="Acme", slug="acme")
space = access_to_owner(Principal(alice), team)
for number in range(30):
    create_repo(access=space, name="R", slug=f"r{number}")
"""

Way = Callable[[], object]


Took = dict[str, tuple[float, float]]


def each(ways: dict[str, Way], times: int) -> Took:
    """Seconds per call, by the clock and of this process's own work.

    The ways take turns, and the best turn of each counts: others use the machine too.
    """
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            begin = time.perf_counter(), time.process_time()
            for _ in range(times):
                way()
            end = time.perf_counter(), time.process_time()
            took[name].append(((end[0] - begin[0]) / times, (end[1] - begin[1]) / times))
    return {name: tuple(map(min, zip(*rounds, strict=True))) for name, rounds in took.items()}


def table(title: str, found: Took, *, own_work: bool = True) -> None:
    clock, work = next(iter(found.values()))
    print(f"\n{title}")
    for name, (seconds, busy) in found.items():
        line = f"  {name:22} {seconds * 1e6:8.1f} µs {seconds / clock:7.3f}"
        print(line + (f"   CPU {busy * 1e6:8.1f} µs {busy / work:7.3f}" if own_work else ""))


def bare(url: str) -> None:
    """The counters alone."""
    from apps.site.counters import Limit, MemoryCounters
    from apps.site.shared import RedisCounters

    asked = [(f"{scope}:1", Limit(scope, 10**9, 86_400_000)) for scope in SCOPES]
    memory, redis = MemoryCounters(), RedisCounters(url, prefix="bench")
    found = each(
        {
            "memory, one limit": lambda: memory.hit(asked[:1]),
            "memory, three limits": lambda: memory.hit(asked),
            "Redis, three limits": lambda: redis.hit(asked),
        },
        2000,
    )
    table("Counting alone", found)


class InProcess:
    """The counters in one process, without a server."""

    def __init__(self, url: str, token: str) -> None:
        from django.conf import settings

        from apps.site import limits

        settings.ALLOWED_HOSTS, settings.LIMITS_LOOK = ["*"], 1e9
        self.limits, self.token = limits, token
        limits.limit_cache.invalidate()
        self.full = dict(limits.limit_cache.get())
        counting = {"memory, three limits": "", "Redis, three limits": url}
        self.counting = {"no limits": None}
        self.counting |= {name: _counters(at) for name, at in counting.items()}

    def use(self, counters: object) -> None:
        """Use these counters; without any the limit cache is empty, as in a new installation."""
        self.limits.counters = lambda: counters
        self.limits.limit_cache.limits = self.full if counters else {}

    def throttled(self, counters: object) -> Way:
        """All costs of a request: limits, counters, headers."""
        from django.test import RequestFactory

        from apps.accounts.models import User

        request = RequestFactory().get(SELF)
        alice = User(pk=1, username="alice", username_key="alice")

        def way() -> None:
            self.use(counters)
            scopes = ["api", self.limits.personal_scope(alice), "api-tokens"]
            self.limits.throttle(request, scopes, user=alice)

        return way

    def request(self, path: str, counters: object) -> Way:
        """The whole WSGI application."""
        from django.test import RequestFactory

        from config.wsgi import application

        headers = {"Authorization": f"Bearer {self.token}"}
        environ = RequestFactory().get(path, headers=headers).environ

        def way() -> None:
            self.use(counters)
            status: list[str] = []
            application(dict(environ), lambda line, _: status.append(line)).close()
            if status != ["200 OK"]:
                sys.exit(f"{path} answers {status}")

        return way

    def measure(self) -> None:
        ways = {name: self.throttled(one) for name, one in self.counting.items()}
        table("What a request pays: rules, count, headers", each(ways, 1000))
        for path in (SELF, LIST):
            ways = {name: self.request(path, one) for name, one in self.counting.items()}
            table(f"In process, GET {path}", each(ways, 50))


def _counters(url: str) -> object:
    from apps.site.counters import MemoryCounters
    from apps.site.shared import RedisCounters, SharedCounters

    return SharedCounters(RedisCounters(url, prefix="bench")) if url else MemoryCounters()


def under_gunicorn(url: str, folder: Path) -> None:
    """Three servers side by side; one client on one connection to each."""
    from tests.server import Server

    kinds = {"no limits": {}, "memory, three limits": {}, "Redis, three limits": {"REDIS_URL": url}}
    servers = {name: Server(folder / name[:3], "gunicorn", **more) for name, more in kinds.items()}
    try:
        for name, server in servers.items():
            (folder / name[:3]).mkdir()
            server.__enter__()
            server.token("alice")
            server.run(REPOS)
            if name != "no limits":
                server.run(LIMITS.format(scopes=SCOPES))
        time.sleep(3)  # until every worker has looked at its limits
        for path in (SELF, LIST):
            ways = {name: _client(server, path) for name, server in servers.items()}
            table(f"Under gunicorn, GET {path}", each(ways, 50), own_work=False)
    finally:
        for server in servers.values():
            server.__exit__()


def _client(server: object, path: str) -> Way:
    headers = {"Authorization": f"Bearer {server.token('alice')}"}
    connection: http.client.HTTPConnection = server.connect()

    def way() -> None:
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
        except http.client.RemoteDisconnected:  # gunicorn closes idle connections
            connection.close()
            return way()
        answer.read()
        if answer.status != 200:
            sys.exit(f"{path} answers {answer.status}")
        return None

    return way


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {"DATA_DIR": str(folder / "here"), "SECRET_KEY": "bench"}
        os.environ |= {"DJANGO_SETTINGS_MODULE": "config.settings"}
        (folder / "here").mkdir()
        import django

        django.setup()
        from django.core.management import call_command

        from apps.accounts.actions import create_token, create_user
        from tests.site.conftest import RedisServer

        call_command("migrate", verbosity=0)
        alice = create_user(principal=None, username="alice")
        _, token = create_token(principal=None, owner=alice, name="bench")
        exec(LIMITS.format(scopes=SCOPES))  # noqa: S102 - the text above
        exec(REPOS)  # noqa: S102
        with RedisServer(folder) as redis:
            bare(redis.url)
            InProcess(redis.url, token).measure()
            under_gunicorn(redis.url, folder)


if __name__ == "__main__":
    main()

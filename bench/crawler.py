"""Response times for other people while a crawler reads blame, archives and comparisons. See
bench/README.md.

`bench/crawler.py [folder of the snapshot] [--kind=gunicorn-asgi] [--rude]`: 16 connections of one
person for SECONDS (60); bad is a ratio over 3, or another 5xx than 503. Rude ignores Retry-After.
"""

from __future__ import annotations

import http.client
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from threading import Event, Thread

from browse import Git, fill
from measuring import serving
from snapshot import snapshot

SECONDS = float(os.environ.get("SECONDS", "60"))
HONOURS = "--rude" not in sys.argv
CONNECTIONS, QUIET_SECONDS, SEED = 16, 10.0, 15
MOST = 3.0
PATIENCE = 90.0
PIECE = 1 << 16
ORDINARY = ("/users/alice/repos?per_page=30", "/users/alice/repos/snapshot/threads/1")


class Crawler(Thread):
    """One connection at a time."""

    def __init__(self, port: int, token: str, commits: list[str], number: int, stop: Event) -> None:
        super().__init__(daemon=True)
        self.port, self.commits, self.stop = port, commits, stop
        self.headers = {"Authorization": f"Bearer {token}"}
        self.random = random.Random(SEED + number)  # noqa: S311 - no secret
        self.statuses = Counter[tuple[str, int, bool]]()
        self.bytes = 0

    def run(self) -> None:
        while not self.stop.is_set():
            again: str | None = None
            what, path = self.next()
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            try:
                asked = f"/api/v1/users/alice/repos/snapshot/{path}"
                connection.request("GET", asked, headers=self.headers)
                answer = connection.getresponse()
                again = answer.headers.get("Retry-After")
                self.statuses[what, answer.status, again is not None] += 1
                while (piece := answer.read(PIECE)) and not self.stop.is_set():
                    self.bytes += len(piece)
            except (OSError, http.client.HTTPException) as error:
                if not self.stop.is_set():
                    self.statuses[f"{what}: {type(error).__name__}", 0, False] += 1
                again = None
            finally:
                connection.close()
            if again and HONOURS:
                self.stop.wait(float(again))

    def next(self) -> tuple[str, str]:
        one, other = self.random.sample(self.commits, 2)
        begin = self.random.randrange(6000)
        return self.random.choice(
            [
                ("blame", f"blame/src/large.c?ref={one}&from={begin + 1}&to={begin + 500}"),
                ("archive", f"archive?ref={one}&format={self.random.choice(['zip', 'tar.gz'])}"),
                ("compare", f"compare/{one}...{other}"),
            ]
        )


def ordinary(
    port: int, token: str, goes_on: Callable[[], bool]
) -> tuple[list[float], Counter[int]]:
    """Seconds for each request of a person who alternately reads a list and a record."""
    took: list[float] = []
    statuses = Counter[int]()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    while goes_on():
        for path in ORDINARY:
            begin = time.perf_counter()
            connection.request(
                "GET", f"/api/v1{path}", headers={"Authorization": f"Bearer {token}"}
            )
            answer = connection.getresponse()
            answer.read()
            took.append(time.perf_counter() - begin)
            statuses[answer.status] += 1
        time.sleep(0.01)  # a person, not a second crawler
    connection.close()
    return took, statuses


def until(end: float) -> Callable[[], bool]:
    return lambda: time.monotonic() < end


def told(name: str, took: list[float], statuses: Counter[int]) -> float:
    middle, worst = statistics.median(took), sorted(took)[int(len(took) * 0.95)]
    print(f"  {name:10} {middle * 1e3:7.1f} ms, 95 of 100 within {worst * 1e3:7.1f} ms", end="")
    print(f", {dict(statuses)}")
    return middle


def main() -> None:
    kind = next((one[7:] for one in sys.argv if one.startswith("--kind=")), "gunicorn-asgi")
    source = snapshot()
    with serving(kind) as (server, _):
        commits = Git(fill(server, source)).commits
        port, token = int(server.url.rpartition(":")[2]), server.token("alice")
        print(f"{kind}, load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        ordinary(port, token, until(time.monotonic() + 2))
        before = told("before", *ordinary(port, token, until(time.monotonic() + QUIET_SECONDS)))
        stop = Event()
        crawler = server.token("bob")
        crawlers = [Crawler(port, crawler, commits, n, stop) for n in range(CONNECTIONS)]
        for one in crawlers:
            one.start()
        meanwhile = told("meanwhile", *ordinary(port, token, until(time.monotonic() + SECONDS)))
        stop.set()
        for one in crawlers:
            one.join(PATIENCE)
    print(f"  ratio {meanwhile / before:.1f}, wanted {MOST:.0f} or less")
    statuses = sum((one.statuses for one in crawlers), Counter[tuple[str, int, bool]]())
    for (what, status, retry), count in sorted(statuses.items()):
        print(f"  {what:12} {status}{' with Retry-After' if retry else ''}: {count}")
    print(f"  {sum(one.bytes for one in crawlers) / 1e6:.0f} MB to crawlers")


if __name__ == "__main__":
    main()

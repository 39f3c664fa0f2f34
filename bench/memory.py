"""Memory of the default server under mixed load, after a minute and at the end.

    .venv/bin/python bench/memory.py [MINUTES]

The requests are the rows of bench/serve.py, also those that write, over connections that stay open.
"""

from __future__ import annotations

import http.client
import itertools
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from serve import SMALL, questions

from bench.load import Question, processes, proportional_memory
from bench.team import fill
from tests.server import Server

CLIENTS = 4


def ask(rows: list[Question], until: float, first: int) -> int:
    """Send these requests in turns; the number of answers. Ends the program if one fails."""
    parts = urlsplit(rows[0].url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    turns = itertools.cycle(rows[first:] + rows[:first])
    for number, question in enumerate(turns):
        if time.monotonic() > until:
            return number
        path = question.paths[number % len(question.paths)]
        kind = {"Content-Type": "application/json"} if question.body else {}
        method, body = ("POST", question.body) if question.body else ("GET", None)
        connection.request(method, path, body, {**question.headers, **kind})
        answer = connection.getresponse()
        answer.read()
        if answer.status >= 400:
            sys.exit(f"{path}: {answer.status}")
    return 0


def main(minutes: float) -> None:
    with tempfile.TemporaryDirectory() as name, Server(Path(name, "serve"), "serve") as server:
        rows = [*questions(server, fill(server, Path(name), SMALL)).values()]

        def memory() -> float:
            return sum(map(proportional_memory, processes(server.process.pid)))

        begun = time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as clients:
            ends = begun + minutes * 60
            running = [clients.submit(ask, rows, ends, first) for first in range(CLIENTS)]
            time.sleep(60)
            early = memory()
            print(f"after a minute: {early:.0f} MB", flush=True)
            answers = sum(each.result() for each in running)
        late = memory()
        print(f"after {minutes:.0f} minutes and {answers:,} answers: {late:.0f} MB")
        print(f"ratio: {late / early:.2f}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10)

"""The memory of one process of `bin/serve` after rounds of large requests; see bench/README.md.

.venv/bin/python bench/memory.py
"""

from __future__ import annotations

import os
import tempfile
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import measuring  # noqa: F401 - sets the path and Django up

from tests.processes import proportional_memory
from tests.server import Server

ROUNDS, CLIENTS = 3, 6
REPOS = "/users/alice/repos"
FILES, LISTS = 18, 60
"""Requests of a round."""
MEGABYTES = (1, 3, 6)
THREADS, WORDS = 50, 13_000


def upload(server: Server, sent: dict[str, Any]) -> None:
    answer = server.api("alice").post(f"{REPOS}/large/uploads", **sent)
    if answer.status not in {201, 503}:  # 503 if there are too many at once
        raise RuntimeError(f"an upload is answered {answer.status}")


def read_list(server: Server) -> None:
    address = f"/api/v1{REPOS}/large/threads?per_page={THREADS}"
    with closing(server.connect()) as connection:
        connection.request("GET", address, headers=server.api("alice").headers)
        if len(connection.getresponse().read()) < THREADS * WORDS * 5:
            raise RuntimeError("the list is too short")


def rounds(server: Server, name: str, count: int, request: Callable[[], None]) -> None:
    for number in range(1, ROUNDS + 1):
        with ThreadPoolExecutor(CLIENTS) as clients:
            for future in [clients.submit(request) for _ in range(count)]:
                future.result()
        print(f"{name}, round {number}: {proportional_memory(*server.pids):.0f} MB", flush=True)


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(Path(folder), WEB_CONCURRENCY="1") as server,
    ):
        alice = server.api("alice")
        alice.post(REPOS, name="Large", slug="large").gives(201)
        server.api("sam").put("/site-settings", rate_limits_enabled=False).gives()
        print(f"before: {proportional_memory(*server.pids):.0f} MB", flush=True)
        for size in MEGABYTES:
            content = b64encode(os.urandom(size * 1_000_000)).decode()
            sent = {"filename": "a.bin", "content_base64": content}
            rounds(server, f"{FILES} uploads of {size} MB", FILES, partial(upload, server, sent))
        for number in range(THREADS):
            body = {"kind": "question", "title": f"{number}", "body": "word " * WORDS}
            alice.post(f"{REPOS}/large/threads", **body).gives(201)
        rounds(server, f"{LISTS} lists of 3 MB", LISTS, partial(read_list, server))


if __name__ == "__main__":
    main()

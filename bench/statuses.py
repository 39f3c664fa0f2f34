"""Time of reporting and reading statuses of a commit that has 10,000 of them.

    .venv/bin/python bench/statuses.py [serve|gunicorn]     (gunicorn without)

In turns with a commit that has one. SQLite, or PostgreSQL with DATABASE_URL. See bench/README.md.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator
from itertools import count
from typing import Any

from measuring import Call, alices, serving, take_turns

ROUNDS = int(os.environ.get("ROUNDS", "60"))
SHAPES = {"1": (1, 1), "100 x 100": (100, 100), "10,000 x 1": (10_000, 1)}
"""The statuses of a commit: the number of contexts, and of statuses of each."""
REPO = "/users/alice/repos/hello"
FILL = """
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.repos.access import access_to_owner
from apps.repos.actions import create_repo
from apps.statuses.models import CommitChecks, CommitStatus
from tests.gitclient import Clone
from pathlib import Path
alice = User.objects.get(username="alice")
repo = create_repo(access=access_to_owner(Principal(alice), alice), name="Hello", slug="hello")
clone = Clone(Path(FOLDER), repo, alice)
for contexts, each in SHAPES:
    sha = clone.push_commit("main", {"file": str(contexts)})
    CommitStatus.objects.bulk_create(
        [
            CommitStatus(repo=repo, sha=sha, context=f"ci/{n}", state="success", created_by=alice)
            for _ in range(each)
            for n in range(contexts)
        ],
        batch_size=500,
    )
    CommitChecks.objects.create(repo=repo, sha=sha, state="success")
    print(sha)
"""


def sending(site: Any, path: str, bodies: Iterator[bytes] | None = None) -> Call:
    """A request that must succeed: a report with the next of these bodies, or a read."""
    send = site.ask(path, (lambda: next(bodies)) if bodies else bytes)
    expected = 201 if bodies else 200

    def call() -> None:
        if (status := send()) != expected:
            sys.exit(f"{path}: {status}")

    return call


def reports(contexts: int) -> Iterator[bytes]:
    """Reports of these contexts in turn, of a state that changes."""
    for number in count():
        state = ("pending", "success")[number // contexts % 2]
        yield f'{{"context": "ci/{number % contexts}", "state": "{state}"}}'.encode()


def main() -> None:
    kind = (sys.argv[1:] or ["gunicorn"])[0]
    with serving(kind) as (server, folder):
        site = alices(server)
        shapes = [*SHAPES.values()]
        printed = server.run(f"FOLDER, SHAPES = {str(folder / 'clone')!r}, {shapes!r}\n{FILL}")
        ways: dict[str, Call] = {}
        for name, sha in zip(SHAPES, printed.split()[-len(SHAPES) :], strict=True):
            commit = f"/api/v1{REPO}/commits/{sha}"
            ways[f"post, {name}"] = sending(site, f"{commit}/statuses", reports(SHAPES[name][0]))
            ways[f"combined, {name}"] = sending(site, f"{commit}/status")
            ways[f"list, {name}"] = sending(site, f"{commit}/statuses?per_page=100")
        took = take_turns({name: lambda _, w=way: w for name, way in ways.items()}, ROUNDS, 3)
    for name, seconds in took.items():
        first = statistics.median(took[f"{name.split(',')[0]}, 1"])
        median = statistics.median(seconds)
        print(f"{name:24}{median * 1000:8.1f} ms  {median / first:5.2f} x")


if __name__ == "__main__":
    main()

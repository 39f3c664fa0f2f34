"""Time of a push to a pull with 500 comments on lines, in turns with one to a pull without any, and
the size, queries and time of the pages of such pulls.

The comments are on ten versions, and each push changes all 50 files above them. Another pull has
500 on one file, each a suggestion. SQLite, or PostgreSQL with DATABASE_URL. See bench/README.md.
"""

from __future__ import annotations

import gzip
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import in_process
from django.db import connection
from django.test import Client

in_process.migrate()

from apps.accounts.models import User  # noqa: E402 - after the settings
from apps.accounts.principal import Principal  # noqa: E402 - after the settings
from apps.pulls.actions import comment_on_line, create_pull  # noqa: E402 - after the settings
from apps.pulls.models import Pull  # noqa: E402 - after the settings
from apps.pulls.places import LinePlace  # noqa: E402 - after the settings
from apps.repos.access import RepoAccess, access_to, access_to_owner  # noqa: E402 - after the settings
from apps.repos.actions import create_repo  # noqa: E402 - after the settings
from apps.threads.anchors import Anchor  # noqa: E402 - after the settings
from tests.gitclient import Clone  # noqa: E402 - after the settings

ROUNDS = int(os.environ.get("ROUNDS", "7"))
FILES, VERSIONS, COMMENTS = 50, 10, 500


def files(mark: str, above: int) -> dict[str, str]:
    """Files of 200 lines below some others."""
    return {
        f"{mark}{file}": "new\n" * above + "".join(f"line {n} of {file}\n" for n in range(200))
        for file in range(FILES)
    }


def one_file(clone: Clone, access: RepoAccess) -> Pull:
    """A pull of one file with a suggestion on each of 500 lines, all on its page."""
    text = "".join(f"line {n}\n" for n in range(600))
    head = clone.push_commit("one", {"one": text}, onto="main")
    branches = {"source_branch": "one", "target_branch": "main"}
    pull = create_pull(access=access, title="one", body="", **branches)
    pull = Pull.objects.select_related("thread", "repo").get(pk=pull.pk)
    for line in range(1, COMMENTS + 1):
        body = f"Better so:\n\n```suggestion\nanother line {line}\n```\n"
        place = LinePlace(head, b"one", line)
        comment_on_line(access=access, pull=pull, place=place, body=body, kind="suggestion")
    return pull


def measure(client: Client, name: str, address: str) -> None:
    """Print the queries, the size and the time of a page whose answers of git are cached."""
    client.get(address)
    queries: list[str] = []

    def count(execute: Any, sql: str, *further: Any) -> Any:
        queries.append(sql)
        return execute(sql, *further)

    with connection.execute_wrapper(count):
        response = client.get(address)
    if response.status_code != 200:
        sys.exit(f"{name}: {response.status_code}")
    seconds = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        client.get(address)
        seconds.append(time.process_time() - begun)
    size, sent = len(response.content), len(gzip.compress(response.content))
    comments = response.content.count(b'class="line-comment"')
    print(
        f"{name}: {len(queries)} queries, {size / 1024:.0f} KB, {sent / 1024:.0f} KB compressed, "
        f"{statistics.median(seconds) * 1000:.0f} ms, {comments} comments of lines"
    )


def main() -> None:
    alice = User.objects.create(username="alice", username_key="alice")
    repo = create_repo(access=access_to_owner(Principal(alice), alice), name="Hello", slug="hello")
    access = access_to(Principal(alice), repo)
    folder = tempfile.TemporaryDirectory()
    clone = Clone(Path(folder.name), repo, alice)
    clone.push_commit("main", {"README": "A place to meet.\n"})
    took: dict[str, list[float]] = {"without": [], "with": []}
    for name in took:
        clone.push_commit(name, files(name, 0), onto="main")
        branches = {"source_branch": name, "target_branch": "main"}
        pull = create_pull(access=access, title=name, body="", **branches)
        for version in range(VERSIONS):
            head = clone.push_commit(name, files(name, version + 1))
            pull = Pull.objects.select_related("thread", "repo").get(pk=pull.pk)
            for number in range(COMMENTS // VERSIONS if name == "with" else 0):
                path, line = f"{name}{number % FILES}".encode(), 20 + 13 * version
                place = LinePlace(head, path, line)
                comment_on_line(access=access, pull=pull, place=place, body="Why?")
    for turn in range(ROUNDS):
        for name, seconds in took.items():
            clone.commit(name, files(name, 20 + turn))
            begun = time.perf_counter()
            clone.push(name)
            seconds.append(time.perf_counter() - begun)
        print(f"due after push {turn + 1}: {Anchor.objects.exclude(due_at=None).count()}")
    moved = Anchor.objects.exclude(current_line=None).count()
    without, with_comments = (statistics.median(seconds) for seconds in took.values())
    print(f"{moved} of {Anchor.objects.count()} comments stand on their lines")
    print(f"without: {without:.2f} s, with {COMMENTS}: {with_comments:.2f} s")
    print(f"{with_comments - without:.2f} s more, {with_comments / without:.1f} x")
    client = Client()
    client.force_login(alice)
    one_file(clone, access)
    for pull in Pull.objects.order_by("number"):
        for tab in ("", "/files"):
            address = f"/{repo.path}/pulls/{pull.number}{tab}"
            measure(client, f"{pull.source_branch}{tab}", address)


if __name__ == "__main__":
    main()

"""Time of a push to a pull with 500 comments on lines, in turns with one to a pull without any.

The comments are on ten versions, and each push changes all 50 files above them. SQLite, or
PostgreSQL with DATABASE_URL. See bench/README.md.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

import in_process

in_process.migrate()

from apps.accounts.models import User  # noqa: E402 - after the settings
from apps.accounts.principal import Principal  # noqa: E402 - after the settings
from apps.pulls.actions import comment_on_line, create_pull  # noqa: E402 - after the settings
from apps.pulls.models import Pull  # noqa: E402 - after the settings
from apps.pulls.places import LinePlace  # noqa: E402 - after the settings
from apps.repos.access import access_to, access_to_owner  # noqa: E402 - after the settings
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


if __name__ == "__main__":
    main()

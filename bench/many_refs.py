"""Time of a push of many new tags, and response times for others meanwhile.

    .venv/bin/python bench/many_refs.py [gunicorn|gunicorn-asgi|serve]     (gunicorn without)

SQLite, or PostgreSQL with DATABASE_URL. See bench/README.md.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread

from measuring import serving

from apps.git.repo import GitRepo
from tests.gitclient import Git

COUNTS = (10, 1_000, 10_000)
THREAD = {"title": "A thread", "body": "text", "kind": "discussion"}


def seconds(call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


class Writer(Thread):
    """A person who opens threads one after the other, until stopped."""

    def __init__(self, client, path: str) -> None:
        super().__init__()
        self.client, self.path = client, path
        self.over, self.waits = Event(), []

    def run(self) -> None:
        while not self.over.is_set():
            self.waits.append(seconds(self.write))

    def write(self) -> None:
        self.client.post(f"{self.path}/threads", **THREAD).gives(201)

    def stop(self) -> None:
        self.over.set()
        self.join()


def tag(git, count: int) -> None:
    sha = git("rev-parse", "HEAD")
    lines = "".join(f"create refs/tags/v{number:05} {sha}\n" for number in range(count))
    subprocess.run(
        ["git", "update-ref", "--stdin"], input=lines.encode(), cwd=git.folder, check=True
    )


def plain_push(git, folder: Path) -> float:
    """The same push from git to git, into a store with our configuration."""
    store = folder / "plain.git"
    shutil.rmtree(store, ignore_errors=True)
    GitRepo(store).create("main")
    fsync = ["-c", "core.fsync=committed,loose-object,reference"]
    receive = f"git {' '.join(fsync)} receive-pack"
    push = ("push", "--quiet", f"--receive-pack={receive}", str(store), "main", "--tags")
    return seconds(lambda: git(*push))


def measure(server, folder: Path, count: int) -> None:
    alice, bob, slug = server.api("alice"), server.api("bob"), f"tags-{count}"
    alice.post("/teams/crew/repos", name=slug, slug=slug).gives(201)
    path = f"/teams/crew/repos/{slug}"
    git = Git(folder / slug, f"{server.url}/teams/crew/{slug}.git", server.token("alice"))
    git.commit()
    tag(git, count)
    plain = plain_push(git, folder)
    idle = statistics.median(
        seconds(lambda: bob.post(f"{path}/threads", **THREAD).gives(201)) for _ in range(15)
    )
    writer = Writer(bob, path)
    writer.start()
    ours = seconds(lambda: git("push", "--quiet", git.url, "main", "--tags"))
    writer.stop()
    usual, longest = statistics.median(writer.waits), max(writer.waits)
    print(
        f"{count:6,} tags: git alone {plain * 1000:7.0f} ms, Guildhall {ours * 1000:7.0f} ms, "
        f"{ours / plain:.2f}; a thread {idle * 1000:.0f} ms, meanwhile {usual * 1000:.0f} ms, "
        f"at most {longest * 1000:.0f} ms of {len(writer.waits)}"
    )


def main() -> None:
    with serving(*sys.argv[1:2]) as (server, folder):
        alice = server.api("alice")
        alice.post("/teams", name="Crew", slug="crew").gives(201)
        server.token("bob")
        alice.post("/teams/crew/members", username="bob", role="member").gives(201)
        for count in COUNTS:
            measure(server, folder, count)


if __name__ == "__main__":
    main()

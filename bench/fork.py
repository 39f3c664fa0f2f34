"""Time and memory of a fork of 10,000 commits and 200 MB, for its creator and the server.

    .venv/bin/python bench/fork.py

Needs 1.5 GB on the disk for a minute or two. See bench/README.md.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from measuring import serving

from tests.gitclient import Git

COMMITS, BLOB = 10_000, 20_000
FORKS, THREADS = 5, 10
UPSTREAM = "/users/alice/repos/big"


def write_history(git) -> None:
    """Created by `git fast-import`, in seconds."""
    stream = subprocess.Popen(
        ["git", "-c", "core.compression=0", "fast-import", "--quiet"],
        cwd=git.folder,
        stdin=subprocess.PIPE,
    )
    for number in range(COMMITS):
        head = f"commit refs/heads/main\ncommitter A <a@example.org> {10**9 + number} +0000\n"
        file = f"data 1\nx\nM 100644 inline f{number % 500}\ndata {BLOB}\n"
        stream.stdin.write(head.encode() + file.encode() + os.urandom(BLOB) + b"\n")
    stream.stdin.close()
    if stream.wait():
        sys.exit("git fast-import failed")


def timed(call) -> tuple[float, object]:
    begin = time.perf_counter()
    answer = call().gives(201)
    return time.perf_counter() - begin, answer


def peak(server) -> int:
    """The maximum memory of the serving process, in MB."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def wait(alice, uuid: str) -> float:
    """Seconds until the fork is completed; a failed one would make the figures worthless."""
    begin = time.perf_counter()
    while (fork := alice.get(f"/forks/{uuid}").gives())["status"] in {"queued", "running"}:
        time.sleep(0.05)
    if fork["status"] != "completed":
        sys.exit(f"the fork has {fork['status']}: {fork['error']}")
    return time.perf_counter() - begin


def measure(server, folder: Path) -> None:
    alice = server.api("alice")
    alice.post("/users/alice/repos", name="Big", slug="big").gives(201)
    git = Git(folder / "ours", f"{server.url}/users/alice/big.git", server.token("alice"))
    write_history(git)
    begin = time.perf_counter()
    git("push", "--quiet", git.url, "main")
    print(f"pushed {COMMITS:,} commits in {time.perf_counter() - begin:.1f} s")
    forks, threads, busy, copies = [], [], [], []
    body = {"title": "A thread", "body": "text", "kind": "discussion"}

    def thread():
        return alice.post(f"{UPSTREAM}/threads", **body)

    thread()
    before = peak(server)
    for number in range(FORKS):
        alice.post("/teams", name="Team", slug=f"team-{number}").gives(201)
        threads += [timed(thread)[0] for _ in range(THREADS)]
        ask = f"{UPSTREAM}/forks?team_slug=team-{number}"
        seconds, fork = timed(lambda ask=ask: alice.post(ask))
        forks.append(seconds)
        busy += [timed(thread)[0] for _ in range(THREADS)]
        copies.append(wait(alice, fork["uuid"]))
    usual = statistics.median(threads)
    for name, found in (
        ("POST …/threads", threads),
        ("POST …/forks", forks),
        ("POST …/threads after that", busy),
    ):
        seconds = statistics.median(found)
        print(f"  {name:36} {seconds * 1000:7.1f} ms {seconds / usual:6.2f}")
    print(f"  the copy is complete after {statistics.median(copies):.1f} s")
    print(f"  peak of the server's memory: {before} MB before, {peak(server)} MB after")


def main() -> None:
    os.environ.pop("DATABASE_URL", None)  # the worker is to be a thread of the server
    with serving() as (server, folder):
        measure(server, folder)


if __name__ == "__main__":
    main()

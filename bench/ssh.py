"""Clone and push of random bytes over HTTP and over SSH, by `manage.py serve`.

    .venv/bin/python bench/ssh.py [MB]     (300 without)

Prints seconds, MB/s, processor time of the server, and its peak memory. See bench/README.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import ROOT  # noqa: F401 - makes the project importable

from tests.processes import memory, peak_memory
from tests.server import Server
from tests.ssh.conftest import Keys

ROUNDS = int(os.environ.get("ROUNDS", "3"))
FILE = 10


def run_git(folder: Path, *arguments: str, **environment: str) -> float:
    """Run git; return the seconds that it took."""
    plain = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    people = {
        f"GIT_{role}_{what}": "a@example.org"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    begun = time.perf_counter()
    subprocess.run(
        ["git", *arguments], cwd=folder, check=True, env={**plain, **people, **environment}
    )
    return time.perf_counter() - begun


def tree_of(pid: int) -> list[int]:
    """This process and its descendants, without git."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in tree_of(int(child)))]


def seconds_of(pids: list[int]) -> float:
    """Processor time of these processes and of their ended children."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def make_work(folder: Path, megabytes: int) -> None:
    folder.mkdir()
    run_git(folder, "init", "--quiet", "--initial-branch=main")
    for number in range(max(1, megabytes // FILE)):
        (folder / str(number)).write_bytes(os.urandom(FILE * 1_000_000))
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "--message", "Random bytes")
    run_git(folder, "gc", "--quiet")


def main(megabytes: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-ssh-"))
    try:
        with Server(folder, SSH_ADDRESS="127.0.0.1:0", WEB_CONCURRENCY="1") as server:
            (folder / "keys").mkdir()
            keys = Keys(folder / "keys", server)
            command = keys.command(keys.add("alice"))
            web = server.url.replace("://", f"://any:{server.token('alice')}@")
            make_work(folder / "work", megabytes)
            pids = tree_of(server.process.pid)
            for turn in range(ROUNDS):
                for name, base, over in (
                    ("HTTP", web, {}),
                    ("SSH", keys.url, {"GIT_SSH_COMMAND": command}),
                ):
                    slug = f"{name.lower()}{turn}"
                    server.api("alice").post("/users/alice/repos", name=slug, slug=slug).gives(201)
                    url = f"{base}/users/alice/{slug}.git"
                    for what, arguments in (
                        ("push", ("push", "--quiet", url, "main")),
                        ("clone", ("clone", "--quiet", "--bare", url, str(folder / "copy"))),
                    ):
                        before = seconds_of(pids)
                        took = run_git(folder / "work", *arguments, **over)
                        used = seconds_of(pids) - before
                        print(
                            f"{name:5}{what:6}{took:7.2f} s {megabytes / took:7.1f} MB/s"
                            f"  server {used:6.2f} s of processor,"
                            f" memory {memory(*pids) / 1e6:6.0f} MB,"
                            f" peak {peak_memory(*pids) / 1e6:6.0f} MB",
                            flush=True,
                        )
                    shutil.rmtree(folder / "copy")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)

"""Time of reading code in a repository as large as git/git, compared with the git command.

    .venv/bin/python bench/browse.py [folder of the snapshot] [--kind=gunicorn] [--first-look]

Medians, in turns. `--first-look`: instead, a pull of 300 files after a push. See bench/README.md.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from measuring import Call, alices, serving, take_turns
from snapshot import snapshot

from apps.git.repo import GitRepo
from tests.waiting import eventually

ROUNDS, WARM_UP = int(os.environ.get("ROUNDS", "40")), 3
BEYOND = 0.015
"""Seconds that a read may take longer than the same commands of git."""
REPO = "/users/alice/repos/snapshot"
FILL = """
import shutil
from pathlib import Path
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.repos.access import access_to, access_to_owner
from apps.repos.actions import create_repo
from apps.repos.models import Repo
from apps.repos.pushes import reconcile
from apps.threads.actions import create_thread
alice = User.objects.get(username="alice")
space = access_to_owner(Principal(alice), alice)
for number in range(60):
    create_repo(access=space, name="R", slug=f"r{number}")
repo = create_repo(access=space, name="Snapshot", slug="snapshot", visibility="public")
for number in range(60):
    create_thread(access=access_to(Principal(alice), repo), title="T", body="Why?", kind="question")
source, store = Path(SOURCE), repo.git.path
shutil.copytree(source / "objects", store / "objects", dirs_exist_ok=True)
shutil.copy(source / "packed-refs", store / "packed-refs")
reconcile(repo=repo)
repo.git.upkeep()
print(store)
"""
LOG = "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B"
Read = Callable[[int], object]


def fill(server, source: Path) -> Path:
    """Add the snapshot to the server's store as a public repository; returns its path."""
    server.token("alice")  # makes her
    said = server.run(f"SOURCE = {str(source)!r}\n{FILL}")
    return Path(said.strip().splitlines()[-1])


class Git:
    """git in the same store, without a pager and colours."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.commits = self.text("rev-list", "--max-count=3000", "refs/heads/main").split()

    def text(self, *args: str) -> str:
        return subprocess.check_output(["git", f"--git-dir={self.store}", *args], text=True)

    def run(self, *args: str) -> None:
        command = ["git", f"--git-dir={self.store}", *args]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)

    def pair(self, number: int) -> tuple[str, str]:
        """Two commits, 50 apart, which have not been compared before: comparisons are cached."""
        return self.commits[number * 7 + 50], self.commits[number * 7]

    def compare(self, number: int) -> None:
        base, head = self.pair(number)
        self.run("merge-base", base, head)
        self.run("rev-list", "--left-right", "--count", f"{base}...{head}")
        self.run("log", "-z", LOG, "--max-count=250", f"{base}..{head}")
        self.run("diff-tree", "-r", "-M50", "-l1000", "--raw", "--numstat", "-z", base, head)


def compare(site, git: Git, number: int) -> int:
    base, head = git.pair(number)
    status: int = site.ask(f"/api/v1{REPO}/compare/{base}...{head}")()
    return status


def ways(site, git: Git) -> dict[str, tuple[Read, Read | None]]:
    """The requests to the API and the commands of git; None without git."""

    def get(path: str) -> Read:
        call = site.ask(f"/api/v1{path}")
        return lambda _: call()

    compared = partial(compare, site, git)
    head = git.commits[0]
    folder, file = "branch/branch", "src/large.c"
    return {
        "30 repositories": (get("/users/alice/repos?per_page=30"), None),
        "30 threads": (get(f"{REPO}/threads?per_page=30"), None),
        "30 branches of 30": (
            get(f"{REPO}/branches?per_page=30"),
            lambda _: git.run("for-each-ref", "refs/heads"),
        ),
        "30 tags of 4,000": (
            get(f"{REPO}/tags?per_page=30"),
            lambda _: git.run("for-each-ref", "--sort=-creatordate", "--count=30", "refs/tags"),
        ),
        "30 commits of 100,000": (
            get(f"{REPO}/commits?per_page=30"),
            lambda _: git.run("log", "-z", LOG, "--max-count=31", head),
        ),
        "a folder": (
            get(f"{REPO}/tree/{folder}"),
            lambda _: git.run("ls-tree", "-z", head, f"{folder}/"),
        ),
        "a file of 60 lines": (
            get(f"{REPO}/contents/t/t0000.sh"),
            lambda _: git.run("cat-file", "blob", f"{head}:t/t0000.sh"),
        ),
        "a file of 7,000 lines": (
            get(f"{REPO}/contents/{file}"),
            lambda _: git.run("cat-file", "blob", f"{head}:{file}"),
        ),
        "compare of 50 commits, asked for the first time": (compared, git.compare),
        "the same compare again": (lambda _: compared(0), None),
    }


def measure(both: dict[str, tuple[Read, Read | None]]) -> Iterator[tuple[str, float, float | None]]:
    def way(name: str, read: Read, number: int) -> Call:
        def run() -> None:
            if (status := read(number)) not in (None, 200):
                sys.exit(f"{name}: {status}")

        return run

    took = take_turns(
        {
            (name, side): partial(way, name, read)
            for name, sides in both.items()
            for side, read in enumerate(sides)
            if read is not None
        },
        ROUNDS,
        WARM_UP,
    )
    medians = {way: statistics.median(seconds) for way, seconds in took.items()}
    for name in both:
        yield name, medians[name, 0], medians.get((name, 1))


PUSHES, FILES = int(os.environ.get("PUSHES", "11")), 300
CODE = Path(__file__).read_text().splitlines()[:200]
DUE = "SELECT count(*) FROM pulls_pullversion WHERE changes_due_at IS NOT NULL"


def history() -> Iterator[bytes]:
    """Input of `git fast-import`: `main`, and branches that each change 5 lines of 300 files."""
    for push in range(PUSHES + 1):
        yield b"commit refs/heads/topic-%d\ncommitter A <a@example.org> 1700000000 +0000\n" % push
        yield b"data 1\nx\n" + (b"from refs/heads/topic-0\n" if push else b"")
        for file in range(FILES):
            lines = [f"# file {file}", *CODE]
            for line in range(5 if push else 0):
                lines[(file * 7 + line * 37) % len(CODE)] += f"  # push {push}"
            text = "\n".join(lines).encode()
            yield b"M 100644 inline src-%d/%d.py\ndata %d\n" % (file % 10, file, len(text))
            yield text + b"\n"


def first_looks(server, folder: Path) -> Iterator[tuple[str, list[float]]]:
    """The seconds of the first four looks at each page after each push. No worker prepares the
    changes without white space.
    """
    source, alice = folder / "source.git", server.api("alice")
    GitRepo(source).create("main")
    command = ["git", f"--git-dir={source}", "fast-import", "--quiet"]
    subprocess.run(command, input=b"".join(history()), check=True)
    alice.post("/users/alice/repos", name="R", slug="r", visibility="public").gives(201)
    address = server.url.replace("://", f"://any:{server.token('alice')}@")
    push = ["git", f"--git-dir={source}", "push", "-qf", f"{address}/users/alice/r.git"]
    subprocess.run([*push, "topic-0:main", "topic-1:topic"], check=True)
    branches = {"source_branch": "topic", "target_branch": "main"}
    pull = alice.post("/users/alice/repos/r/pulls", title="P", body="", **branches).gives(201)
    files, site = f"/pulls/{pull['number']}/files", alices(server)
    pages = {
        "the page": f"/users/alice/r{files}",
        "the API, with patches": f"/api/v1/users/alice/repos/r{files}?patch=true",
        "the page, not prepared": f"/users/alice/r{files}?w=1",
    }
    for number in range(1, PUSHES + 1):
        subprocess.run([*push, f"topic-{number}:topic"], check=True)
        eventually(lambda: not due(server))
        for name, path in pages.items():
            yield name, [seconds(site.ask(path)) for _ in range(4)]


def due(server) -> int:
    """The number of versions whose changes the worker has to prepare; on SQLite."""
    with closing(sqlite3.connect(server.file)) as connection:
        [count] = connection.execute(DUE).fetchone()
    return int(count)


def seconds(call: Callable[[], int]) -> float:
    begin = time.perf_counter()
    if (status := call()) != 200:
        sys.exit(str(status))
    return time.perf_counter() - begin


def compare_looks(kind: str) -> None:
    with serving(kind) as (server, folder):
        looks = [*first_looks(server, folder)]
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {PUSHES} pushes")
    for name in dict.fromkeys(name for name, _ in looks):
        rows = [seconds for other, seconds in looks if other == name]
        for words, of in (("median", statistics.median), ("best", min)):
            first = 1e3 * of([row[0] for row in rows])
            later = 1e3 * of([one for row in rows for one in row[1:]])
            ratio = f"ratio {first / later:.2f}"
            print(f"  {name:24} {words:6} {first:7.1f} ms, again {later:7.1f} ms, {ratio}")


def main() -> None:
    kind = next((one[7:] for one in sys.argv if one.startswith("--kind=")), "gunicorn")
    if "--first-look" in sys.argv:
        return compare_looks(kind)
    source = snapshot()
    with serving(kind) as (server, _):
        git = Git(fill(server, source))
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, medians of {ROUNDS}")
        times = [*measure(ways(alices(server), git))]
    for what, ours, program in times:
        beside = f"git {program * 1e3:7.1f} ms  {1e3 * (ours - program):+7.1f}" if program else ""
        print(f"  {what:48} {ours * 1e3:7.1f} ms  {beside}")
    print(f"  not as wanted: {', '.join(missed(times)) or 'nothing'}")


def missed(found: list[tuple[str, float, float | None]]) -> Iterator[str]:
    """The reads that take longer than the slower of the other lists, or longer than git by
    `BEYOND`.
    """
    times = {what: ours for what, ours, _ in found}
    other = max(times[f"30 {what}"] for what in ("repositories", "threads"))
    for what, ours, program in times:
        is_list = what.startswith(("30 branches", "30 tags"))
        if ours > other if is_list else program and ours > program + BEYOND:
            yield what


if __name__ == "__main__":
    main()

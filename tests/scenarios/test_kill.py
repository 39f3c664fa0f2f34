"""kill -9, over and over: whatever dies, what was reported as done is there, and all agrees.

People push, fork, merge and rename; the server, one of its processes or the worker is killed at
random moments and started again on the same data. On PostgreSQL the worker is a process of its own.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from select import POLLIN, poll
from threading import Event
from typing import Any

import orjson
import pytest

from apps.repos.rules import ZERO
from tests.scenarios.crowd import Person, Place
from tests.server import PATIENCE, ROOT, Server
from tests.waiting import eventually

ROUNDS = int(os.environ.get("KILL_ROUNDS", "10"))
"""How often processes are killed and started again."""
MOVES, KILLS = 6, 3
"""So many refs have to move, and so many times has something to die, for a run to say anything."""
SEED = int(os.environ.get("KILL_SEED", "1"))
LEFTOVERS = ("**/*.lock", "**/tmp_*", "??/??/*.tmp-*")
TIME_PASSES = (
    "UPDATE repos_fork SET lease_until = created_at WHERE lease_until IS NOT NULL RETURNING 1"
)
"""The minute after which a dead worker's fork is taken over."""
PAUSE = Event()
pytestmark = pytest.mark.slow


class Site:
    """A server, on PostgreSQL with its worker beside it, that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        kind = "gunicorn" if os.environ.get("DATABASE_URL") else "serve"
        self.server = Server(folder, kind, TMPDIR=str(self.temporary))
        self.data = folder / "data"
        self.worker: subprocess.Popen[str] | None = None

    def start_worker(self) -> None:
        if self.server.kind == "gunicorn":
            self.worker = subprocess.Popen(
                [sys.executable, "manage.py", "run_jobs"],
                cwd=ROOT,
                env=self.server.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
            )

    def kill_worker(self) -> None:
        if self.worker is not None:
            self.worker.kill()
            self.worker.wait(PATIENCE)

    def kill(self, random: Random) -> str:
        """Kill all or a part; returns what has to be started again."""
        what = random.choice(["all", "worker", "serving"]) if self.worker else "all"
        if what == "serving":
            os.kill(self.server.pid, 9)  # its master starts another one
        if what == "all":
            self.server.kill()
        if what in {"all", "worker"}:
            self.kill_worker()
        return what

    def wait_for_a_move(self, uuid: str, people: list[Person]) -> None:
        """Until git has just touched a branch, whose rows are not written then."""
        store = self.data / "repositories" / uuid[:2] / uuid[2:4] / f"{uuid}.git"
        heads = store / "refs" / "heads"
        before = heads.stat().st_mtime_ns
        eventually(
            lambda: heads.stat().st_mtime_ns != before or not all_alive(people), pause_for=0.002
        )
        PAUSE.wait(0.01)  # from its lock to the move

    def let_time_pass(self) -> None:
        if self.worker is not None:
            self.server.sql(TIME_PASSES)
            return
        connection = sqlite3.connect(self.data / "guildhall.db", timeout=PATIENCE)
        with connection:
            connection.execute(TIME_PASSES).fetchall()
        connection.close()

    def wait_for_orphans(self) -> None:
        """The gits of a killed server end by themselves, and may still move a ref before."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                line = (folder / "cmdline").read_bytes()
                handle = os.pidfd_open(int(folder.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
            if f"--git-dir={self.data}".encode() in line:
                waiting = poll()
                waiting.register(handle, POLLIN)
                assert waiting.poll(PATIENCE * 1000), f"this git does not end: {line!r}"
            os.close(handle)


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    with site.server:
        site.start_worker()
        try:
            yield site
        finally:
            site.kill_worker()


def test_what_was_reported_as_done_outlives_every_kill(site, tmp_path):
    print(f"KILL_SEED={SEED}")
    place = Place(site.server)
    place.build(tmp_path / "seed")
    people = [Person(place, name, tmp_path / name, SEED) for name in ("alice", "bob", "carol")]
    killed = live_through(site, place, people)
    settle(site, place)
    counted = sum((person.count for person in people), Counter[str]())
    found = orjson.loads(site.server.run("from tests.scenarios.facts import show; show()"))
    print(dict(killed), dict(counted), Counter(fork["status"] for fork in found["forks"]))
    assert counted["refs moved"] >= MOVES and killed.total() >= KILLS, "nothing was tried"
    check_chains(found)
    check_told(found, people)
    check_ends(found, place)
    check_disk(site, found)
    assert "Internal Server Error" not in site.server.log


def live_through(site: Site, place: Place, people: list[Person]) -> Counter[str]:
    """People at work while processes die; how often each was killed."""
    random, killed = Random(SEED), Counter[str]()  # noqa: S311
    place.up.set()
    for person in people:
        person.start()
    for _ in range(ROUNDS):
        if random.random() < 0.5:
            PAUSE.wait(random.uniform(0.2, 3))  # any moment
        else:
            site.wait_for_a_move(place.uuid, people)
        place.up.clear()
        killed[what := site.kill(random)] += 1
        site.let_time_pass()
        if what == "all":
            site.server.start()
        if what in {"all", "worker"}:
            site.start_worker()
        place.up.set()
    # On a slow machine hardly any push may come through between two kills.
    eventually(
        lambda: (
            sum(person.count["refs moved"] for person in people) >= MOVES or not all_alive(people)
        ),
        within=5 * PATIENCE,
    )
    place.over.set()
    for person in people:
        person.join(2 * PATIENCE)
        assert not person.is_alive()
        if person.failure:
            raise person.failure
    return killed


def all_alive(people: list[Person]) -> bool:
    """Whether all go on: one ends early only with a failure, which the test raises."""
    return all(person.is_alive() for person in people)


def settle(site: Site, place: Place) -> None:
    """Once more kill and start; when all forks have ended, nothing is left to do but to sweep."""
    site.server.kill()
    site.kill_worker()
    site.wait_for_orphans()
    site.let_time_pass()
    site.server.start()
    site.start_worker()
    alice = site.server.api("alice")
    alice.post("/teams", name="Last", slug="last").gives(201)
    slug = alice.get("/teams/crew/repos").gives()["results"][0]["slug"]
    last = alice.post(f"/teams/crew/repos/{slug}/forks?team_slug=last").gives(201)["uuid"]

    def unfinished() -> list[str]:
        statuses = {fork: alice.get(f"/forks/{fork}").gives()["status"] for fork in forks}
        return [fork for fork in forks if statuses[fork] not in {"completed", "failed"}]

    forks = [*place.forks, last]
    eventually(lambda: not unfinished(), within=5 * PATIENCE, pause_for=0.1)
    site.server.kill()
    site.kill_worker()
    assert ", 0 moves recorded" in site.server.manage("reconcile")
    print(mended := site.server.manage("check_repos", "--fix", "--older-than=0s"))
    assert "HEAD is" not in mended, "the worker has left it"
    assert " 0 differences" in site.server.manage("check_repos")


def check_chains(found: dict[str, Any]) -> None:
    """Heads are git's, and the events of each ref lead from its beginning to its head."""
    beginnings = {fork["repo"]: fork["upstream"] for fork in found["forks"]}
    for uuid, repo in found["repos"].items():
        assert repo["stored"] == repo["git"]
        upstream = found["repos"].get(beginnings.get(uuid), {"moves": []})
        ever = {(move["ref"], move["after"]) for move in upstream["moves"]}
        last: dict[str, str | None] = {}
        for move in repo["moves"]:
            ref, before = move["ref"], move["before"]
            assert before == last.get(ref) or (ref not in last and (ref, before) in ever), move
            assert move["actor"] is not None, f"nobody explains {move}"
            last[ref] = move["after"]
        for ref, sha in repo["stored"].items():
            assert last.get(ref) == sha or (ref not in last and (ref, sha) in ever), ref
        assert {ref for ref, sha in last.items() if sha} <= set(repo["stored"])


def check_told(found: dict[str, Any], people: list[Person]) -> None:
    """What each was told happened, in the order in which they were told; so the head is that or
    a later one, as the chain leads there.
    """
    written: dict[tuple[str, str], list[str]] = {}
    for uuid, repo in found["repos"].items():
        for move in repo["moves"]:
            written.setdefault((uuid, move["ref"]), []).append(move["after"] or ZERO)
    for person in people:
        for key in {(told.repo, told.ref) for told in person.told}:
            rest = iter(written[key])
            for told in person.told:
                if (told.repo, told.ref) == key:
                    assert told.sha in rest, f"{person.name} was told of {told}"


def check_ends(found: dict[str, Any], place: Place) -> None:
    """Forks have ended, each merge is one, and what is left over is explained."""
    ends = {fork["uuid"]: fork["status"] for fork in found["forks"]}
    assert set(ends.values()) <= {"completed", "failed"}
    assert set(place.forks) <= set(ends)
    assert all(fork["error"] for fork in found["forks"] if fork["status"] == "failed")
    assert len(found["merged"]) == found["pull-merged"]
    moved = {
        (uuid, move["ref"], move["after"])
        for uuid, repo in found["repos"].items()
        for move in repo["moves"]
    }
    assert {tuple(merge) for merge in found["merged"]} <= moved
    # A step that git has not carried out is kept for as long as a push may last, also if the same
    # commit has come from elsewhere since; a merge that died before its ref moved waits for the
    # next one.
    steps = {
        (uuid, move["ref"], move["before"] or ZERO, move["after"] or ZERO)
        for uuid, repo in found["repos"].items()
        for move in repo["moves"]
    }
    assert not {tuple(step) for step in found["journal"]} & steps
    assert "merged" not in found["attempts"]


def check_disk(site: Site, found: dict[str, Any]) -> None:
    stores = {Path(repo["store"]) for repo in found["repos"].values()}
    root = next(iter(stores)).parent.parent.parent
    assert set(root.glob("??/??/*")) == stores
    assert [path for pattern in LEFTOVERS for path in root.glob(pattern)] == []
    assert list(site.temporary.iterdir()) == []
    for store in stores:
        done = subprocess.run(
            ["git", f"--git-dir={store}", "fsck", "--strict", "--no-dangling"],
            check=False,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr

"""After repeated kill -9, all reported changes exist, and git, rows and events are consistent.

People push, fork, merge and rename. The server, one of its processes or the worker is killed at
random moments, and started again on the same data. On PostgreSQL the worker has its own process.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from select import POLLIN, poll
from threading import Event
from typing import Any

import orjson
import pytest

from apps.repos.rules import ZERO
from tests.scenarios.people import Person, SharedState
from tests.server import PATIENCE, ROOT, Server
from tests.waiting import eventually

ROUNDS = int(os.environ.get("KILL_ROUNDS", "10"))
"""How many times processes are killed and started again."""
MOVES, KILLS = 6, 3
"""The minimum numbers of ref updates and kills of a meaningful run."""
SEED = int(os.environ.get("KILL_SEED", "1"))
LEFTOVERS = ("**/*.lock", "**/tmp_*", "??/??/*.tmp-*")
TIME_PASSES = (
    "UPDATE repos_fork SET lease_until = created_at WHERE lease_until IS NOT NULL RETURNING 1"
)
"""Ends the leases of forks, as if the minute had passed after which others take them over."""
PAUSE = Event()
pytestmark = pytest.mark.slow


class Site:
    """A server, on PostgreSQL with a separate worker, that can be killed and started again."""

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
        """Kill all processes or one; returns the part that has to be started again."""
        what = random.choice(["all", "worker", "serving"]) if self.worker else "all"
        if what == "serving":
            os.kill(random.choice(self.server.pids), 9)  # the master process starts another
        if what == "all":
            self.server.kill()
        if what in {"all", "worker"}:
            self.kill_worker()
        return what

    def wait_for_a_move(self, uuid: str, people: list[Person]) -> None:
        """Wait until git has just locked a branch: its rows have not been written yet."""
        store = self.data / "repositories" / uuid[:2] / uuid[2:4] / f"{uuid}.git"
        heads = store / "refs" / "heads"
        before = heads.stat().st_mtime_ns
        eventually(
            lambda: heads.stat().st_mtime_ns != before or not all_alive(people), pause_for=0.002
        )
        PAUSE.wait(0.01)  # from git's lock to the update

    def let_time_pass(self) -> None:
        if self.worker is not None:
            self.server.sql(TIME_PASSES)
            return
        connection = sqlite3.connect(self.data / "guildhall.db", timeout=PATIENCE)
        with connection:
            connection.execute(TIME_PASSES).fetchall()
        connection.close()

    def wait_for_orphans(self) -> None:
        """Wait for the git processes of a killed server, which may still update refs."""
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
    state = SharedState(site.server)
    state.build(tmp_path / "seed")
    people = [Person(state, name, tmp_path / name, SEED) for name in ("alice", "bob", "carol")]
    killed = live_through(site, state, people)
    settle(site, state)
    counts = sum((person.count for person in people), Counter[str]())
    facts = orjson.loads(site.server.run("from tests.scenarios.facts import show; show()"))
    print(dict(killed), dict(counts), Counter(fork["status"] for fork in facts["forks"]))
    assert counts["refs moved"] >= MOVES and killed.total() >= KILLS, "too few updates or kills"
    check_chains(facts)
    check_reported(facts, people)
    check_ends(facts, state)
    check_disk(site, facts)
    assert "Internal Server Error" not in site.server.log


def live_through(site: Site, state: SharedState, people: list[Person]) -> Counter[str]:
    """Let people work while processes are killed; returns the number of kills of each process."""
    random, killed = Random(SEED), Counter[str]()  # noqa: S311
    state.up.set()
    for person in people:
        person.start()
    for _ in range(ROUNDS):
        if random.random() < 0.5:
            PAUSE.wait(random.uniform(0.2, 3))  # a random moment
        else:
            site.wait_for_a_move(state.uuid, people)
        state.up.clear()
        killed[what := site.kill(random)] += 1
        site.let_time_pass()
        if what == "all":
            site.server.start()
        if what in {"all", "worker"}:
            site.start_worker()
        state.up.set()
    # On a slow machine, few pushes may succeed between two kills.
    eventually(
        lambda: (
            sum(person.count["refs moved"] for person in people) >= MOVES or not all_alive(people)
        ),
        within=5 * PATIENCE,
    )
    state.done.set()
    for person in people:
        person.join(2 * PATIENCE)
        assert not person.is_alive()
        if person.failure:
            raise person.failure
    return killed


def all_alive(people: list[Person]) -> bool:
    """Whether all people still work. A person stops early only with a failure."""
    return all(person.is_alive() for person in people)


def settle(site: Site, state: SharedState) -> None:
    """Kill and start once more, wait for all forks, and check that only leftovers remain."""
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

    forks = [*state.forks, last]
    eventually(lambda: not unfinished(), within=5 * PATIENCE, pause_for=0.1)
    site.server.kill()
    site.kill_worker()
    assert ", 0 moves recorded" in site.server.manage("reconcile")
    print(mended := site.server.manage("check_repos", "--fix", "--older-than=0s"))
    assert "HEAD is" not in mended, "the worker has not fixed HEAD"
    assert " 0 differences" in site.server.manage("check_repos")


def check_chains(facts: dict[str, Any], *, has_actors: bool = True) -> None:
    """Stored heads equal git's, and the events of each ref form a chain to its head."""
    beginnings = {fork["repo"]: fork["upstream"] for fork in facts["forks"]}
    for uuid, repo in facts["repos"].items():
        assert repo["stored"] == repo["git"]
        upstream = facts["repos"].get(beginnings.get(uuid), {"moves": []})
        ever = {(move["ref"], move["after"]) for move in upstream["moves"]}
        last: dict[str, str | None] = {}
        for move in repo["moves"]:
            ref, before = move["ref"], move["before"]
            assert before == last.get(ref) or (ref not in last and (ref, before) in ever), move
            assert move["actor"] is not None or not has_actors, f"{move} has no actor"
            last[ref] = move["after"]
        for ref, sha in repo["stored"].items():
            assert last.get(ref) == sha or (ref not in last and (ref, sha) in ever), ref
        assert {ref for ref, sha in last.items() if sha} <= set(repo["stored"])


def check_reported(facts: dict[str, Any], people: Iterable[Any]) -> None:
    """All updates that a person saw reported are in the events, in the same order."""
    written: dict[tuple[str, str], list[str]] = {}
    for uuid, repo in facts["repos"].items():
        for move in repo["moves"]:
            written.setdefault((uuid, move["ref"]), []).append(move["after"] or ZERO)
    for person in people:
        for key in {(update.repo, update.ref) for update in person.reported}:
            rest = iter(written[key])
            for update in person.reported:
                if (update.repo, update.ref) == key:
                    assert update.sha in rest, f"{person.name} saw {update} reported"


def check_ends(facts: dict[str, Any], state: SharedState) -> None:
    """All forks have ended, each merge has one event, and leftovers are of interrupted changes."""
    ends = {fork["uuid"]: fork["status"] for fork in facts["forks"]}
    assert set(ends.values()) <= {"completed", "failed"}
    assert set(state.forks) <= set(ends)
    assert all(fork["error"] for fork in facts["forks"] if fork["status"] == "failed")
    assert len(facts["merged"]) == facts["pull-merged"]
    moved = {
        (uuid, move["ref"], move["after"])
        for uuid, repo in facts["repos"].items()
        for move in repo["moves"]
    }
    assert {tuple(merge) for merge in facts["merged"]} <= moved
    # The journal keeps a step that git has not performed until no push can be running any more,
    # also if another push has brought the same commit. An attempt of a merge that died before it
    # moved the ref stays until the next merge.
    steps = {
        (uuid, move["ref"], move["before"] or ZERO, move["after"] or ZERO)
        for uuid, repo in facts["repos"].items()
        for move in repo["moves"]
    }
    assert not {tuple(step) for step in facts["journal"]} & steps
    assert "merged" not in facts["attempts"]


def check_disk(site: Site, facts: dict[str, Any]) -> None:
    stores = {Path(repo["store"]) for repo in facts["repos"].values()}
    root = next(iter(stores)).parent.parent.parent
    assert set(root.glob("??/??/*")) == stores
    assert [path for pattern in LEFTOVERS for path in root.glob(pattern)] == []
    assert list(site.temporary.iterdir()) == []
    check_stores(stores)


def check_stores(stores: Iterable[Path]) -> None:
    for store in stores:
        done = subprocess.run(
            ["git", f"--git-dir={store}", "fsck", "--strict", "--no-dangling"],
            check=False,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr

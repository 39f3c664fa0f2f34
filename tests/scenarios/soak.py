"""A site under mixed load for a given time, with kills, and what it leaves behind.

In the first half, processes are killed at random moments and started again. The second half
compares the resources of the processes at rest: after a warm-up, and at the end. People write, read
and use git all the time, and streams are cut and resumed. The seed determines the plan, but not the
timing.
"""

from __future__ import annotations

import os
import shutil
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import orjson

from tests.scenarios.checks import (
    check_chains,
    check_disk,
    check_ends,
    check_reported,
)
from tests.scenarios.people import ACTIONS, HOME, WEIGHTS, Person, SharedState
from tests.scenarios.site import LEFTOVERS, PAUSE, RESOURCES, Footprint, Site
from tests.server import PATIENCE, Server
from tests.tail import follow
from tests.test_health import SIGN_IN
from tests.waiting import eventually

MOVES, KILLS = 6, 3
"""The minimum numbers of ref updates and kills of a meaningful run."""
WARM = 500
"""The minimum number of actions of the warm-up: a new process loads modules and fills caches. Only
the number of requests matters for these, and not the time.
"""
MEMORY_GROWTH = 1.2
"""At the end the memory may be this many times what it was after the warm-up."""
GROWTH, SLACK = 1.5, 12
"""A number may be this many times what it was then, and this many more: threads and connections are
made when they are first needed at once.
"""
FOLLOWERS = 3
"""Streams of each scope."""
LOST = (OSError, HTTPException, AssertionError, ValueError)
"""Errors of a client whose server was killed, or refuses it for a moment."""
READ = {200, 301, 302, 404, 503}
"""Statuses of reads: the repository may be renamed meanwhile, and processes killed."""
BODIES = """
import sys, orjson
from apps.threads.models import Reply, Thread
bodies = dict(Thread.objects.values_list("title", "body"))
bodies |= {str(uuid): body for uuid, body in Reply.objects.values_list("uuid", "body")}
sys.stdout.write(orjson.dumps(bodies).decode())
"""
LOOKS = ("", "/threads", "/threads/{n}", "/pulls", "/commits", "/branches")
API_LOOKS = (*LOOKS, "/threads/{n}/replies", "/tags", "/tree", "/contributors", "/pulls/{n}/files")
PAGES = (*LOOKS, "/files", "/pulls/{n}/files", "/activity")
SITE_PAGES = ("/", "/activity", "/search?q=thread", "/admin/", "/admin/overview/", "/readyz")

Say = Callable[[str], object]


class Writer(Person):
    """Also opens threads, replies, edits, uploads and clones; keeps what was acknowledged."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.threads: dict[str, int] = {}
        self.bodies: dict[str, set[str]] = {}
        """The possible bodies of acknowledged threads by title, and of replies by uuid."""
        self.uploads: dict[str, bytes] = {}

    def act(self) -> None:
        actions = (*ACTIONS, Writer.talk, Writer.reply, Writer.edit, Writer.upload, Writer.clone)
        weights = (*WEIGHTS[:-3], 0.2, 0.2, *WEIGHTS[-1:], 4, 8, 4, 2, 1)
        action = self.random.choices(actions, weights)[0]
        action(self)
        self.count[action.__name__] += 1

    def post(self, path: str, **body: Any) -> Any:
        """The record that a POST below the repository makes; None if it is refused."""
        answer = self.api.post(f"{self.state.api_path}{path}", **body)
        if answer.status == 201:
            return answer.json
        return self.check(answer, {404, 503})

    def talk(self) -> None:
        title = self.next("thread")
        if thread := self.post("/threads", kind="question", title=title, body="First"):
            self.threads[title] = thread["number"]
            self.bodies[title] = {"First"}

    def reply(self) -> None:
        if self.threads:
            number, body = self.random.choice([*self.threads.values()]), self.next("reply")
            if reply := self.post(f"/threads/{number}/replies", kind="comment", body=body):
                self.bodies[reply["uuid"]] = {body}

    def edit(self) -> None:
        if not self.threads:
            return
        title, body = self.random.choice([*self.threads]), self.next("body")
        self.bodies[title].add(body)  # also if the answer is lost
        path = f"{self.state.api_path}/threads/{self.threads[title]}"
        answer = self.api.patch(path, body=body)
        if answer.status == 200:
            self.bodies[title] = {body}
        else:
            self.check(answer, {404, 503})

    def upload(self) -> None:
        """Upload a file, and refer to it in a thread, so that it stays."""
        content = self.random.randbytes(self.random.choice([100, 50_000, 500_000]))
        sent = {"filename": "a.bin", "content_base64": b64encode(content).decode()}
        if upload := self.post("/uploads", **sent):
            title, body = self.next("thread"), f"See {upload['url']}"
            if self.post("/threads", kind="question", title=title, body=body):
                self.bodies[title] = {body}
                self.uploads[upload["uuid"]] = content

    def clone(self) -> None:
        target = self.git.folder.with_name(f"{self.name}-clone")
        result = self.git.run("clone", "--quiet", self.url(self.state.path), str(target))
        shutil.rmtree(target, ignore_errors=True)
        if result.returncode:
            self.check_failure(result.stdout)


class Reader(Person):
    """sam, who reads the API and pages with a session of staff."""

    cookie = ""

    def act(self) -> None:
        number, is_page = self.random.randint(1, 20), self.random.random() < 0.5
        path = self.random.choice(PAGES if is_page else API_LOOKS).format(n=number)
        path = f"/{self.state.path}{path}" if is_page else f"/api/v1{self.state.api_path}{path}"
        if self.random.random() < 0.2:
            path, is_page = self.random.choice(SITE_PAGES), True
        headers = {"Cookie": f"sessionid={self.cookie}"}
        if not is_page:
            headers = {"Authorization": f"Bearer {self.token}"}
        with closing(self.state.server.connect()) as connection:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answer.read()
        assert answer.status in READ, f"{path}: {answer.status}"
        self.count[f"reads {answer.status}"] += 1


class Follower(Thread):
    """Follows a scope from its beginning, and resumes after random numbers of events."""

    def __init__(self, server: Server, name: str, scope: str, seed: str, ended: Event) -> None:
        super().__init__(daemon=True)
        self.server, self.person, self.scope, self.ended = server, name, scope, ended
        self.random = Random(seed)  # noqa: S311 - to be repeated
        self.ids: list[int] = []
        self.resumed = 0

    def run(self) -> None:
        while not self.ended.is_set():
            with suppress(*LOST):
                self.read(self.random.randint(1, 60))

    def read(self, count: int) -> None:
        last = self.ids[-1] if self.ids else 0
        query = f"scope={self.scope}"
        with follow(self.server, self.person, query, Last_Event_ID=str(last)) as stream:
            stream.opened()
            self.resumed += 1
            for _ in range(count):
                if (frame := stream.next()) is None:
                    return
                self.ids.append(frame.id)


class Crowd:
    """All people and followers of a site."""

    def __init__(self, site: Site, folder: Path, seed: int) -> None:
        self.site, self.state, self.ended = site, SharedState(site.server), Event()
        self.state.build(folder / "seed")
        server = site.server
        server.api("sam").put("/site-settings", rate_limits_enabled=False).gives()
        names = ("alice", "bob", "carol")
        self.writers = [Writer(self.state, name, folder / name, seed) for name in names]
        reader = Reader(self.state, "sam", folder / "sam", seed)
        reader.cookie = server.run(SIGN_IN).strip()
        self.people: list[Person] = [*self.writers, reader]
        # The repository is followed by its first name: it will be renamed.
        self.scopes = {"team:crew": "bob", f"repo:{self.state.path}": "carol"}
        self.followers = [
            Follower(site.stream, name, scope, f"{seed} {scope} {number}", self.ended)
            for scope, name in self.scopes.items()
            for number in range(FOLLOWERS)
        ]

    @property
    def counts(self) -> Counter[str]:
        return sum((person.count.copy() for person in self.people), Counter[str]())

    def has_failed(self) -> bool:
        """Whether a person has stopped early, which happens only with a failure."""
        return not all(person.is_alive() for person in self.people)

    def rest(self) -> Footprint:
        """Let everybody pause; returns what the processes then hold."""
        self.state.up.clear()
        eventually(lambda: self.has_failed() or all(one.is_idle for one in self.people))
        self.raise_failure()
        return self.site.footprint()

    def raise_failure(self) -> None:
        for failure in (person.failure for person in self.people if person.failure):
            raise failure

    @contextmanager
    def at_work(self) -> Iterator[None]:
        for thread in (*self.people, *self.followers):
            thread.start()
        try:
            yield
        finally:
            self.ended.set()
            self.state.done.set()
            self.state.up.set()
            for person in self.people:
                person.join(2 * PATIENCE)

    def work(self, seconds: float) -> None:
        self.state.up.set()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and not self.has_failed():
            PAUSE.wait(0.5)
        self.raise_failure()

    def warm_up(self, seconds: float) -> None:
        """Let people work for so many seconds, and until they have done `WARM` things."""
        enough = self.counts.total() + WARM
        self.work(seconds)
        eventually(lambda: self.counts.total() >= enough or self.has_failed(), 10 * PATIENCE)
        self.raise_failure()


def soak(
    folder: Path, seconds: float, seed: int, say: Say, make: Callable[..., Server] = Server
) -> None:
    """Run the site for so many seconds, and for the checks. `AssertionError` if one fails."""
    say(f"seed {seed}, {seconds:.0f} s, load {os.getloadavg()[0]:.0f}")
    with Site(folder / "site", make) as site:
        crowd = Crowd(site, folder, seed)
        with crowd.at_work():
            killed = live_with_kills(crowd, seconds / 2, Random(seed))  # noqa: S311
            crowd.warm_up(max(10, seconds / 8))
            first = crowd.rest()
            crowd.work(seconds * 3 / 8)
            last = crowd.rest()
            check_streams(crowd)
            check_uploads(crowd)
        report(crowd, killed, first, last, say)
        settle(site, crowd.state)
        check_all(site, crowd)
        check_footprints(first, last)
    say("everything agrees")


def live_with_kills(crowd: Crowd, seconds: float, random: Random) -> Counter[str]:
    """Let people work while processes are killed; returns the number of kills of each kind."""
    site, state, killed = crowd.site, crowd.state, Counter[str]()
    ends = time.monotonic() + seconds
    while (time.monotonic() < ends or killed.total() < KILLS) and not crowd.has_failed():
        state.up.set()
        if random.random() < 0.5:
            PAUSE.wait(random.uniform(0.2, 5))  # a random moment
        else:
            site.wait_for_a_move(state.uuid, crowd.has_failed)
        state.up.clear()
        killed[what := site.kill(random)] += 1
        site.let_time_pass()
        site.start_again(what)
    # On a slow machine, few pushes may succeed between two kills.
    state.up.set()
    eventually(lambda: crowd.counts["refs moved"] >= MOVES or crowd.has_failed(), 5 * PATIENCE)
    crowd.raise_failure()
    return killed


def check_streams(crowd: Crowd) -> None:
    """Each follower has got each event of its scope once, in the order of the log."""
    for scope, name in crowd.scopes.items():
        ids = [int(event["id"]) for event in listed(crowd.site.server, name, scope)]
        followers = [one for one in crowd.followers if one.scope == scope]
        eventually(lambda: all(len(one.ids) >= len(ids) for one in followers))  # noqa: B023
        assert all(one.ids == ids for one in followers), f"a follower of {scope} differs"


def listed(server: Server, name: str, scope: str) -> list[dict[str, Any]]:
    """All events of a scope, oldest first."""
    events: list[dict[str, Any]] = []
    api, address = server.api(name), f"/events?scope={scope}&after=0&per_page=100"
    while address:
        page = api.get(address).gives()
        events += page["results"]
        following = urlsplit(page["next"] or "")
        address = f"{following.path}?{following.query}" if page["next"] else ""
    return sorted(events, key=lambda event: int(event["id"]))


def check_uploads(crowd: Crowd) -> None:
    for writer in crowd.writers:
        for uuid, content in writer.uploads.items():
            with closing(crowd.site.server.connect()) as connection:
                headers = {"Authorization": f"Bearer {writer.token}"}
                connection.request("GET", f"/api/v1/uploads/{uuid}/content", headers=headers)
                assert connection.getresponse().read() == content, f"upload {uuid} differs"


def settle(site: Site, state: SharedState) -> None:
    """Kill and start once more, wait for all forks, and check that only leftovers remain."""
    site.kill_all()
    site.wait_for_orphans()
    site.let_time_pass()
    site.start()
    alice = site.server.api("alice")
    alice.post("/teams", name="Last", slug="last").gives(201)
    slug = alice.get(f"{HOME}/repos").gives()["results"][0]["slug"]
    last = alice.post(f"{HOME}/repos/{slug}/forks?team_slug=last").gives(201)["uuid"]
    forks = [*state.forks, last]

    def unfinished() -> list[str]:
        statuses = {fork: alice.get(f"/forks/{fork}").gives()["status"] for fork in forks}
        return [fork for fork in forks if statuses[fork] not in {"completed", "failed"}]

    eventually(lambda: not unfinished(), within=5 * PATIENCE, pause_for=0.1)
    site.kill_all()
    manage = site.server.manage
    assert ", 0 moves recorded" in manage("reconcile")
    assert "HEAD is" not in manage("check_repos", "--fix", "--older-than=0s"), "HEAD is wrong"
    assert " 0 differences" in manage("check_repos")
    assert "none damaged" in manage("check_uploads")


def check_all(site: Site, crowd: Crowd) -> None:
    """Compare what people saw with rows, events, git and folders."""
    facts = orjson.loads(site.server.run("from tests.scenarios.facts import show; show()"))
    check_chains(facts)
    check_reported(facts, crowd.writers)
    check_ends(facts, crowd.state)
    check_disk(site, facts)
    bodies = orjson.loads(site.server.run(BODIES))
    for writer in crowd.writers:
        for key, possible in writer.bodies.items():
            assert bodies.get(key) in possible, f"{key}: {bodies.get(key)!r}, not {possible}"
    assert "Internal Server Error" not in site.log


def report(crowd: Crowd, killed: Counter[str], first: Footprint, last: Footprint, say: Say) -> None:
    say(f"killed: {dict(killed)}")
    say(f"done: {dict(sorted(crowd.counts.items()))}")
    for scope in crowd.scopes:
        followers = [one for one in crowd.followers if one.scope == scope]
        resumed = sum(one.resumed for one in followers)
        say(f"{scope}: {len(followers[0].ids)} events, {resumed} streams opened")
    say(f"{'':12}{'warmed up':>12}{'at the end':>12}{'ratio':>8}")
    for name in RESOURCES:
        before, after = getattr(first, name), getattr(last, name)
        ratio = f"{after / before:.2f}" if before else "-"
        say(f"{name:12}{before:12.0f}{after:12.0f}{ratio:>8}")


def check_footprints(first: Footprint, last: Footprint) -> None:
    """Nothing has grown beyond its limit. There are no kills between the two: no process or
    temporary file may be left.
    """
    assert last.megabytes <= first.megabytes * MEMORY_GROWTH, "memory grows"
    for name in ("threads", "sockets", "files", "pipes", "connections"):
        assert getattr(last, name) <= getattr(first, name) * GROWTH + SLACK, f"{name} grow"
    assert last.children <= first.children, "processes are left"
    assert last.leftovers <= first.leftovers, f"files like {LEFTOVERS} are left"

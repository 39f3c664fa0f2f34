"""Two nodes on one database and one folder, with nginx before them; one is killed under load."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any, Self
from urllib.parse import urlsplit

import orjson
import pytest
from django.db import connection

from tests.api import Answer
from tests.idempotency.test_servers import Writer, let_time_pass
from tests.scenarios.checks import check_chains, check_disk, check_ends, check_reported
from tests.scenarios.people import Person, SharedState
from tests.scenarios.site import Site
from tests.scenarios.soak import Follower, listed, settle
from tests.scenarios.test_proxy import HAS_NGINX, nginx
from tests.server import PATIENCE, ROOT, Remote, Server
from tests.site.conftest import own_redis
from tests.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one node"),
]
__all__ = ["own_redis"]
PATIENT = ROOT / "tests/site/patient.py"
SEED, SCOPE = 1, "team:crew"
MOST = 20
"""Requests of sam's in a day."""
TALK = "/teams/crew/repos/talk/threads"
HOSTS = ("127.0.0.2", "127.0.0.3")
"""Addresses of their own: nothing else takes the port of a dead node."""


class Node(Site):
    """The three services of a node. `beside` is another node with the same data."""

    def __init__(self, folder: Path, api: Server, host: str) -> None:
        self.temporary, self.data = folder / "tmp", folder / "data"
        self.server, self.is_deployed = api, True
        self.stream = Server(folder, "gunicorn-asgi", beside=api)
        self.worker: subprocess.Popen[bytes] | None = None
        for server in (self.server, self.stream):
            server.listens_at = (host, 0)

    def start(self) -> None:
        """Start all three; after `kill_all` at the same addresses."""
        for server in (self.server, self.stream):
            server.start()
            parts = urlsplit(server.url)
            server.listens_at = (str(parts.hostname), int(parts.port or 0))
        self.start_worker()


class Balancer:
    """nginx before the nodes, for the tools that expect a server."""

    def __init__(self, url: str, node: Node) -> None:
        self.url, self.token, self.log = url, node.server.token, ""

    def api(self, name: str) -> Remote:
        front: Any = self
        return Balanced(front, self.token(name))

    connect = Server.connect


class Balanced(Remote):
    """A client behind nginx. Its answer for a node that has died is an error of the connection."""

    def send(self, *args: Any, **options: Any) -> Answer:
        try:
            answer = super().send(*args, **options)
        except orjson.JSONDecodeError:
            raise ConnectionError("nginx has no answer of a node") from None
        return answer


@pytest.fixture
def nodes(tmp_path: Path, new_server: Any, own_redis: Any) -> Iterator[list[Node]]:
    (tmp_path / "tmp").mkdir()
    configuration = tmp_path / "gunicorn.conf.py"
    configuration.write_text((ROOT / configuration.name).read_text() + PATIENT.read_text())
    given = {"REDIS_URL": own_redis.url, "TRUSTED_PROXIES": "1", "TMPDIR": str(tmp_path / "tmp")}
    given |= {"GUNICORN_CMD_ARGS": f"--config={configuration}"}
    with ExitStack() as ending:
        first = new_server(tmp_path, "gunicorn", **given)
        both = [first, Server(tmp_path, "gunicorn", beside=first)]
        started = [Node(tmp_path, api, host) for api, host in zip(both, HOSTS, strict=True)]
        for node in started:
            ending.push(node.server)
            ending.push(node.stream)
            ending.callback(node.kill_worker)
        for node in started:
            node.start()
        yield started


class Load:
    """People who work through nginx, and followers of the stream by each way."""

    def __init__(self, nodes: list[Node], url: str, folder: Path) -> None:
        self.nodes, self.over, self.have_read = nodes, Event(), Event()
        front: Any = Balancer(url, nodes[1])
        self.state = SharedState(front)
        self.state.build(folder / "seed")
        alice = front.api("alice")
        alice.post("/teams/crew/repos", name="Talk", slug="talk").gives(201)
        alice.post(TALK, title="Talk", body="", kind="issue").gives(201)
        names = ("alice", "bob", "carol")
        self.people = [Person(self.state, name, folder / name, SEED) for name in names]
        self.writers = [Writer(front, f"{TALK}/1/replies", self.over) for _ in range(2)]
        ways = [front, *(node.stream for node in nodes)]
        self.followers = [
            Follower(way, "bob", SCOPE, f"{SEED} {number}", self.have_read)
            for number, way in enumerate(ways)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for event in (self.state.done, self.over, self.have_read):
            event.set()

    def start(self, pool: ThreadPoolExecutor) -> None:
        self.state.up.set()
        for thread in (*self.people, *self.followers):
            thread.start()
        self.writing = [pool.submit(writer.run) for writer in self.writers]

    def goes_on(self) -> None:
        """Wait until each writer has several more answers, and somebody has pushed."""
        before, moves = [len(writer.answers) for writer in self.writers], self.moves()

        def advanced() -> bool:
            now = [len(writer.answers) for writer in self.writers]
            counts = [after - count for after, count in zip(now, before, strict=True)]
            return self.is_broken() or (min(counts) >= 10 and self.moves() >= moves + 6)

        eventually(advanced, within=3 * PATIENCE)

    def moves(self) -> int:
        return sum(person.count["refs moved"] for person in self.people)

    def is_broken(self) -> bool:
        return any(not person.is_alive() for person in self.people) or any(
            future.done() for future in self.writing
        )

    def end(self) -> None:
        """Let all people finish, and all followers read each event once and in order."""
        self.state.done.set()
        for person in self.people:
            person.join(2 * PATIENCE)
            if person.failure:
                raise person.failure
        self.over.set()
        for future in self.writing:
            future.result()
        eventually(self.is_read)

    def is_read(self) -> bool:
        events = listed(self.nodes[1].server, "bob", SCOPE)
        ids = [int(event["id"]) for event in events]
        return all(follower.ids == ids for follower in self.followers)


@HAS_NGINX
def test_a_node_is_killed_under_load_and_nothing_is_lost_or_doubled(nodes, tmp_path):
    (tmp_path / "nginx").mkdir()
    pairs = [(node.server, node.stream) for node in nodes]
    with (
        nginx(tmp_path / "nginx", *pairs) as url,
        ThreadPoolExecutor() as pool,
        Load(nodes, url, tmp_path) as load,
    ):
        assert admitted(nodes) == MOST
        load.start(pool)
        load.goes_on()
        ask_for_a_fork(load.state)
        nodes[0].kill_all()
        nodes[1].let_time_pass()
        let_time_pass(nodes[0].server)
        load.goes_on()
        nodes[0].start()
        load.goes_on()
        load.end()
    answers = [key for writer in load.writers for key in writer.answers]
    assert Counter(replies(nodes[1].server)) == Counter(answers)
    nodes[1].kill_all()
    check_facts(nodes[0], load)


def ask_for_a_fork(state: SharedState) -> None:
    alice = state.server.api("alice")
    alice.post("/teams", name="Moves", slug="moves").gives(201)
    [slug] = [
        repo["slug"]
        for repo in alice.get("/teams/crew/repos").gives()["results"]
        if repo["name"] == "Engine"
    ]
    state.forks.append(
        alice.post(f"/teams/crew/repos/{slug}/forks?team_slug=moves").gives(201)["uuid"]
    )


def admitted(nodes: list[Node]) -> int:
    """The number of admitted requests of sam's, sent to both nodes in turns."""
    apis = [node.server.api("sam") for node in nodes]
    limit = {"scope": "user:sam", "max_requests": MOST, "window_seconds": 86400}
    apis[0].post("/rate-limits", **limit, is_enabled=True).gives(201)
    statuses: list[int] = []

    def is_known(api: Remote) -> bool:
        answer = api.get("/users/sam")
        is_counted = "X-RateLimit-Limit" in answer.response.headers
        statuses.extend([answer.status] * is_counted)
        return is_counted

    eventually(lambda: is_known(apis[1]), pause_for=0.2)
    statuses += [apis[number % 2].get("/users/sam").status for number in range(MOST + 4)]
    assert set(statuses) == {200, 429}
    return statuses.count(200)


def replies(server: Server) -> list[str]:
    """The texts of all replies, which are the keys of their requests."""
    bodies: list[str] = []
    page = f"{TALK}/1/replies?per_page=100"
    while page:
        shown = server.api("alice").get(page.removeprefix(server.url)).gives()
        bodies += [row["body"] for row in shown["results"]]
        page = shown["next"]
    return bodies


def check_facts(node: Node, load: Load) -> None:
    """Rows, events and git agree after the worker of one node has done what was left."""
    settle(node, load.state)
    facts = orjson.loads(node.server.run("from tests.scenarios.facts import show; show()"))
    counts = sum((person.count for person in load.people), Counter[str]())
    print(dict(counts), Counter(fork["status"] for fork in facts["forks"]))
    check_chains(facts)
    check_reported(facts, load.people)
    check_ends(facts, load.state)
    check_disk(node, facts)
    assert "Internal Server Error" not in node.server.log

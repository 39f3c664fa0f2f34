"""People move one branch between two commits at once. git's reflog says which moves it made."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from apps.git.protocol import FLUSH, ZERO, Command, pkt
from tests.git.scratch import Scratch, git, push_body
from tests.server import Server

PEOPLE = ("alice", "bob", "carol")
COMMITS, CLIENTS, PUSHES = 2, 10, 15
MAIN = "refs/heads/main"
HEADER = b"PACK" + (2).to_bytes(4, "big") + (0).to_bytes(4, "big")
NO_OBJECTS = HEADER + hashlib.sha1(HEADER, usedforsecurity=False).digest()
pytestmark = pytest.mark.slow
FACTS = """
from apps.events.models import Event
from apps.repos.models import PushJournal, Ref
for event in Event.objects.filter(kind="branch-pushed", target__name="main").order_by("id"):
    print(event.actor.username, event.data["before"], event.data["after"])
print("stored", Ref.objects.get(full_name="refs/heads/main").sha, PushJournal.objects.count())
"""


def send(server: Server, name: str, method: str, path: str, body: bytes = b"") -> bytes:
    """Send a request of git; return the body of the answer, or its status as text."""
    token = base64.b64encode(f"{name}:{server.token(name)}".encode()).decode()
    headers = {"Authorization": f"Basic {token}"}
    if body:
        headers["Content-Type"] = "application/x-git-receive-pack-request"
    with closing(server.connect()) as connection:
        connection.request(method, f"/teams/acme/api.git/{path}", body, headers)
        answer = connection.getresponse()
        return answer.read() if answer.status == 200 else b"%d" % answer.status


def head(server: Server, name: str) -> str:
    """The head of main; "" if too many requests are under way."""
    refs = send(server, name, "GET", "info/refs?service=git-receive-pack")
    lines = [line for line in refs.split(b"\n") if MAIN.encode() in line]
    return lines[0].split(b" ")[0][-40:].decode() if lines else ""


def push_many(server: Server, number: int, commits: list[str]) -> list[tuple[str, str, str]]:
    """Push random commits; returns the acknowledged moves."""
    name, random, moves = PEOPLE[number % len(PEOPLE)], Random(number), []  # noqa: S311
    for _ in range(PUSHES):
        old = head(server, name)
        new = random.choice([sha for sha in commits if sha != old])
        if not old:
            continue
        line = pkt(f"{old} {new} {MAIN}\0 report-status".encode())
        report = send(server, name, "POST", "git-receive-pack", line + FLUSH + NO_OBJECTS)
        if f"ok {MAIN}".encode() in report:
            moves.append((name, old, new))
    return moves


def test_each_event_is_a_move_of_git_in_order_and_none_acknowledged_is_missing(
    tmp_path: Path,
) -> None:
    other = Scratch(tmp_path / "other.git")
    other.create()
    commits = [other.commit({"a": b"%d" % number}) for number in range(COMMITS)]
    with Server(tmp_path) as server:
        alice = server.api("alice")
        alice.post("/teams", name="Acme", slug="acme").gives(201)
        for name in PEOPLE[1:]:
            server.token(name)
            alice.post("/teams/acme/members", username=name, role="member").gives(201)
        uuid = alice.post("/teams/acme/repos", name="api", slug="api").gives(201)["uuid"]
        store = tmp_path / "data" / "repositories" / uuid[:2] / uuid[2:4] / f"{uuid}.git"
        commands = [Command(ZERO, sha, f"refs/heads/c{n}") for n, sha in enumerate(commits)]
        body = push_body(other, [Command(ZERO, commits[0], MAIN), *commands])
        assert b"unpack ok" in send(server, "alice", "POST", "git-receive-pack", body)
        git(store, "config", "core.logAllRefUpdates", "always")
        with ThreadPoolExecutor(CLIENTS) as pool:
            sent = pool.map(lambda n: push_many(server, n, commits), range(CLIENTS))
            acknowledged = [move for moves in sent for move in moves]
        *events, stored = server.run(FACTS).splitlines()
    moves = [line.split(" ")[:2] for line in (store / "logs" / MAIN).read_text().splitlines()]
    # Moves that were answered with 503 and undid each other may have no event; no other is missing.
    made = iter(moves)
    assert all(event.split(" ")[1:] in made for event in events), (len(events), len(moves))
    # A move that could not be recorded in time has an event but was answered with 503.
    assert Counter(acknowledged) <= Counter(tuple(event.split(" ")) for event in events)
    assert stored == f"stored {moves[-1][1]} 0"

"""The bot of docs/events.md merges each approved pull once, also if it or the server is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gitclient import Git
from tests.programs import Program
from tests.server import Server
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.once]

ROUNDS = 10
PULLS = 2
"""Pulls that are approved in each round. Each round ends with a kill."""
SEED = 1
REPO = "/teams/bots/repos/hello"


def test_the_bot_merges_each_pull_once_through_ten_kills(tmp_path, new_server):
    random = Random(SEED)  # noqa: S311 - the run has to be repeatable
    with new_server(tmp_path) as server:
        server.environment["PORT"] = str(urlsplit(server.url).port)
        bot = Program(tmp_path / "bot", server, "bob", "merge_bot.py", "team:bots")
        numbers = open_pulls(server, tmp_path / "work")
        bot.start()
        killed: Counter[str] = Counter()
        for before in range(0, len(numbers), PULLS):
            approve(server, numbers[before:][:PULLS])
            merges_at_least(server, before + random.randrange(PULLS))
            victim = random.choice(["bot", "server", "both"])
            killed[victim] += 1
            end_and_begin(victim, bot, server)
        assert len(killed) == 3 and killed.total() == ROUNDS
        all_of_them = merges_at_least(server, len(numbers))
        assert bot.is_alive, bot.log.read_text()
        bot.kill()
        assert Counter(all_of_them) == Counter(numbers)
        work = Git(tmp_path / "result", f"{server.url}/teams/bots/hello.git", server.token("alice"))
        work("fetch", "-q", work.url, "main")
        assert work("rev-list", "--merges", "--count", "FETCH_HEAD").strip() == str(len(numbers))


def open_pulls(server: Server, folder: Path) -> list[int]:
    """Open all pulls that will be approved, with one commit each."""
    alice = server.api("alice")
    alice.post("/teams", name="Bots", slug="bots").gives(201)
    alice.post("/teams/bots/members", username="bob", role="member").gives(201)
    alice.post("/teams/bots/repos", name="Hello", slug="hello").gives(201)
    work = Git(folder, f"{server.url}/teams/bots/hello.git", server.token("alice"))
    work("commit", "-q", "--allow-empty", "-m", "Begin")
    branches = [f"topic-{number}" for number in range(ROUNDS * PULLS)]
    for branch in branches:
        work("switch", "-q", "-c", branch, "main")
        work("commit", "-q", "--allow-empty", "-m", branch)
    work("push", "-q", work.url, "main", *branches)
    texts: dict[str, Any] = {"body": "", "target_branch": "main"}
    made = [
        alice.post(f"{REPO}/pulls", title=branch, source_branch=branch, **texts).gives(201)
        for branch in branches
    ]
    return [pull["number"] for pull in made]


def approve(server: Server, numbers: list[int]) -> None:
    for number in numbers:
        path = f"{REPO}/pulls/{number}/reviews"
        server.api("alice").post(path, status="approved").gives(201)


def merges_at_least(server: Server, count: int) -> list[int]:
    """Wait until at least `count` pulls have been merged; returns their numbers."""

    def enough() -> tuple[list[int], ...]:
        numbers = merges(server)
        return (numbers,) if len(numbers) >= count else ()

    return eventually(enough)[0]


def merges(server: Server) -> list[int]:
    """The numbers of the pulls of all `pull-merged` events."""
    query = "scope=team:bots&kind=pull-merged&per_page=100"
    page = server.api("alice").get(f"/events?{query}").gives()
    return [event["target"]["number"] for event in page["results"]]


def end_and_begin(victim: str, bot: Program, server: Server) -> None:
    if victim != "server":
        bot.kill()
    if victim != "bot":
        server.kill()
        server.start()
    if victim != "server":
        bot.start()

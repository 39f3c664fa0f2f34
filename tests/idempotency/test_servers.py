"""Keys on real servers: concurrent requests, and servers that are killed while they work."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from http.client import HTTPException
from random import Random
from threading import Event
from uuid import uuid4

import pytest

from tests.races import together
from tests.repos.test_git_http import api_path
from tests.server import PATIENCE, Server
from tests.waiting import eventually

MANY = 16
KILLS = 4
AT_LEAST = 6
"""Answers before the next kill."""
GONE = (OSError, HTTPException)
"""The errors of a client whose server has died."""
PAUSE = Event()
SEED = int(os.environ.get("KILL_SEED", "14"))
TIME_PASSES = "UPDATE idempotency_keyedrequest SET leased_until = created_at RETURNING id"
THREAD = {"title": "Once", "body": "", "kind": "issue"}
PULL = {"title": "Once", "body": "", "source_branch": "a", "target_branch": "b"}


def post_once(api, key, url, **body):
    return api.send("POST", url, body, **{"Idempotency-Key": key})


def until_answered(call):
    """The answer, once the first request with this key has one."""

    def answered():
        answer = call()
        return None if answer.status == 409 and "in_progress" in answer.json["error"] else answer

    return eventually(answered)


@pytest.mark.parametrize(
    ("url", "body", "kind"),
    [("/threads", THREAD, "thread-created"), ("/pulls", PULL, "pull-created")],
)
def test_many_with_one_key_make_one_record_and_get_one_answer(server, path, url, body, kind):
    alice, key, address = server.api("alice"), str(uuid4()), f"{api_path(path)}{url}"
    answers = together(*[lambda: post_once(alice, key, address, **body)] * MANY)
    last = until_answered(lambda: post_once(alice, key, address, **body))
    made = last.gives(201)
    for answer in answers:
        if answer.status == 409:
            answer.fails(409, "idempotency_in_progress")
            assert answer.header("Retry-After") == "1"
        else:
            assert answer.gives(201) == made
    first = [answer for answer in answers if answer.status == 201 and replayed(answer) is None]
    assert len(first) == 1 and replayed(last) == "true"
    assert [row["number"] for row in alice.get(address).gives()["results"]] == [made["number"]]
    told = alice.get(f"/events?scope=repo:{path}&kind={kind}").gives()["results"]
    assert len(told) == 1


def replayed(answer):
    return answer.response.headers.get("Idempotency-Replayed")


def test_many_merges_with_one_key_merge_once(server, path, git):
    ours, alice = git(), server.api("alice")
    ours.commit("base.txt")
    ours("push", "--quiet", ours.url, "main")
    ours("checkout", "--quiet", "-b", "feature")
    ours.commit("feature.txt")
    ours("push", "--quiet", ours.url, "feature")
    wanted = {"title": "t", "body": "", "source_branch": "feature", "target_branch": "main"}
    number = alice.post(f"{api_path(path)}/pulls", **wanted).gives(201)["number"]
    url, key = f"{api_path(path)}/pulls/{number}/merge", str(uuid4())
    answers = together(*[lambda: post_once(alice, key, url)] * MANY)
    merged = until_answered(lambda: post_once(alice, key, url)).gives()
    codes = Counter((answer.status, (answer.json or {}).get("error")) for answer in answers)
    assert set(codes) <= {(200, None), (409, "idempotency_in_progress")}, codes
    assert all(answer.json == merged for answer in answers if answer.status == 200)
    told = alice.get(f"/events?scope=repo:{path}&kind=pull-merged").gives()["results"]
    assert len(told) == 1


class Writer:
    """Reply to a thread with a new key each time, and repeat each request until it is answered."""

    def __init__(self, server: Server, url: str, over: Event) -> None:
        self.server, self.url, self.over = server, url, over
        self.answers: dict[str, bytes] = {}
        self.lost = 0

    def run(self) -> None:
        while not self.over.is_set():
            key = str(uuid4())
            send = partial(self.send, key)
            self.answers[key] = eventually(send, within=3 * PATIENCE) or b""

    def send(self, key: str) -> bytes | None:
        try:
            body = {"kind": "comment", "body": key}
            answer = post_once(self.server.api("alice"), key, self.url, **body)
        except GONE:
            self.lost += 1
            return None
        if answer.status in {409, 503}:
            return None
        assert answer.status < 500, self.server.log[-5000:]
        answer.gives(201)
        content: bytes = answer.response.content
        return content


def answered(writers: list[Writer]) -> int:
    """The number of requests that have their answer."""
    return sum(len(writer.answers) for writer in writers)


def let_time_pass(server: Server) -> None:
    """Let the leases of all requests expire."""
    if server.database:
        server.sql(TIME_PASSES)
        return
    with closing(sqlite3.connect(server.file, timeout=PATIENCE)) as connection:
        connection.execute(TIME_PASSES).fetchall()
        connection.commit()


@pytest.mark.slow
def test_what_a_killed_server_was_asked_for_happens_once(tmp_path, new_server):
    kind = "gunicorn-deployed" if os.environ.get("DATABASE_URL") else "serve"
    server = new_server(tmp_path, kind)
    random, over = Random(SEED), Event()  # noqa: S311 - to be repeated
    with server:
        alice = server.api("alice")
        alice.post("/users/alice/repos", name="Api", slug="api").gives(201)
        home = "/users/alice/repos/api/threads"
        alice.post(home, title="t", body="", kind="issue").gives(201)
        writers = [Writer(server, f"{home}/1/replies", over) for _ in range(3)]
        with ThreadPoolExecutor(len(writers)) as pool:
            futures = [pool.submit(writer.run) for writer in writers]
            for wanted in range(AT_LEAST, KILLS * AT_LEAST + 1, AT_LEAST):
                eventually(lambda: answered(writers) >= wanted)  # noqa: B023 - called at once
                PAUSE.wait(random.uniform(0, 0.5))
                server.kill()
                server.start()
                let_time_pass(server)
            over.set()
            for future in futures:
                future.result()
        assert sum(writer.lost for writer in writers) > 0, "nobody was cut off"
        answers = {key: answer for writer in writers for key, answer in writer.answers.items()}
        for key, first in list(answers.items())[-20:]:
            body = {"kind": "comment", "body": key}
            assert post_once(alice, key, f"{home}/1/replies", **body).response.content == first
        counts, page = Counter[str](), f"{home}/1/replies?per_page=100&render=html"
        while page:
            shown = alice.get(page.removeprefix(server.url)).gives()
            counts += Counter(row["body"] for row in shown["results"])
            assert all(row["body"] in row["body_html"] for row in shown["results"])
            page = shown["next"]
        assert counts == Counter(answers.keys())
        assert "Internal Server Error" not in server.log

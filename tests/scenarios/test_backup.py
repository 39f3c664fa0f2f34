"""Backups that are made while people work contain everything acknowledged before their start.

People push, merge, fork, rename, reply and upload, and repositories are tidied. A full and an
incremental backup are made meanwhile; the second is restored elsewhere and served.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from apps.git.repo import GitRepo
from apps.git.run import GitError
from tests.scenarios.checks import check_chains, check_reported, check_stores
from tests.scenarios.people import Person, SharedState
from tests.server import PATIENCE, Server
from tests.waiting import eventually

HOME = "/users/vic"
MANY = """
from pathlib import Path
from config.backups.backup import back_up
for number in range(10):
    back_up(Path({folder!r}, str(number)), None, str)
"""
"""More backups without the start of a command, so that more pushes come while files are copied."""
SEED = 1
pytestmark = pytest.mark.slow


class Worker(Thread):
    """Repeats one action until it is done, and keeps a failure."""

    def __init__(self, done: Event, act: Callable[[int], None]) -> None:
        super().__init__(daemon=True)
        self.done, self.act = done, act
        self.failure: BaseException | None = None

    def run(self) -> None:
        number = 0
        try:
            while not self.done.wait(0.05):
                number += 1
                self.act(number)
        except BaseException as failure:  # the test raises it
            self.failure = failure


class Talk:
    """A thread to which vic replies, each time with an upload."""

    def __init__(self, server: Server) -> None:
        self.api = server.api("vic")
        self.api.post(f"{HOME}/repos", name="Talk", slug="talk").gives(201)
        body = {"kind": "question", "title": "Backups?", "body": ""}
        number = self.api.post(f"{HOME}/repos/talk/threads", **body).gives(201)["number"]
        self.path = f"{HOME}/repos/talk/threads/{number}/replies"
        self.replies: list[str] = []
        self.uploads: dict[str, bytes] = {}

    def reply(self, _: int) -> None:
        content = os.urandom(1000)
        sent = {"filename": "a.bin", "content_base64": base64.b64encode(content).decode()}
        upload = self.api.post(f"{HOME}/repos/talk/uploads", **sent).gives(201)
        body = f"See {upload['url']}"
        self.replies.append(self.api.post(self.path, kind="comment", body=body).gives(201)["uuid"])
        self.uploads[upload["url"]] = content


@pytest.fixture
def server(tmp_path: Path, new_server: Callable[..., Server]) -> Iterator[Server]:
    kind = "gunicorn" if os.environ.get("DATABASE_URL") else "serve"
    with new_server(tmp_path, kind) as server:
        yield server


@pytest.fixture
def elsewhere(tmp_path: Path, server: Server) -> Iterator[Server]:
    """An empty installation, which is not started."""
    other = Server(tmp_path / "elsewhere", server.kind)
    other.fresh = False  # the restored tables need no migration
    yield other
    other.__exit__()


def test_a_backup_under_load_has_everything_acknowledged_before(server, elsewhere, tmp_path):
    state, talk = SharedState(server), Talk(server)
    state.build(tmp_path / "seed")
    data = Path(server.environment["DATA_DIR"])
    people = [Person(state, name, tmp_path / name, SEED) for name in ("alice", "bob", "carol")]
    tidier = Worker(state.done, lambda _: tidy(data))
    workers: list[Person | Worker] = [*people, Worker(state.done, talk.reply), tidier]
    state.up.set()
    for worker in workers:
        worker.start()
    wait_for_work(workers, talk, moves=6)
    server.manage("backup", str(tmp_path / "full"))
    server.run(MANY.format(folder=str(tmp_path / "many")))
    wait_for_work(workers, talk, moves=12)
    before = [SimpleNamespace(name=one.name, reported=[*one.reported]) for one in people]
    replies, uploads = [*talk.replies], dict(talk.uploads)
    moves = moved(people)
    server.manage("backup", str(tmp_path / "next"), "--incremental", str(tmp_path / "full"))
    print(f"{moved(people) - moves} refs moved during the second backup")
    state.done.set()
    for worker in workers:
        worker.join(2 * PATIENCE)
        assert not worker.is_alive()
    assert not has_failed(workers)
    for backup in (tmp_path / "full", tmp_path / "next", *(tmp_path / "many").iterdir()):
        check_stores((backup / "repositories").glob("??/??/*.git"))
    check_shared(tmp_path / "full", tmp_path / "next")
    check_restored(elsewhere, tmp_path / "next", before)
    check_served(elsewhere, server, talk, replies, uploads)


def tidy(data: Path) -> None:
    for store in (data / "repositories").glob("??/??/*.git"):
        with suppress(GitError, OSError):  # as in the worker: a push may get in the way
            GitRepo(store).upkeep()


def moved(people: Iterable[Person]) -> int:
    return sum(person.count["refs moved"] for person in people)


def wait_for_work(workers: Sequence[Person | Worker], talk: Talk, moves: int) -> None:
    """Wait until so many refs have moved, a pull has been merged, and replies written."""
    people = [worker for worker in workers if isinstance(worker, Person)]

    def is_enough() -> bool:
        merges = sum(person.count["merges"] for person in people)
        return moved(people) >= moves and merges > 0 and len(talk.replies) >= moves

    eventually(lambda: is_enough() or has_failed(workers), within=5 * PATIENCE)


def has_failed(workers: Sequence[Person | Worker]) -> bool:
    """Raise the first failure of a worker; False if there is none."""
    for failure in (worker.failure for worker in workers if worker.failure):
        raise failure
    return False


def check_shared(full: Path, later: Path) -> None:
    """Immutable files of both backups are the same files, which no other files are."""
    shared = set()
    for path in (path for path in later.rglob("*") if path.is_file()):
        previous = full / path.relative_to(later)
        if previous.exists() and previous.samefile(path):
            shared.add(path.relative_to(later).parts[0])
            is_object = re.search(r"/objects/(../[0-9a-f]{38}$|pack/pack-)", str(path))
            assert is_object or "uploads" in path.parts, path
    assert shared == {"repositories", "uploads"}


def check_restored(elsewhere: Server, backup: Path, before: list[Any]) -> None:
    print(restored := elsewhere.manage("restore", str(backup)))
    assert "nothing is missing" in restored
    assert ", 0 moves recorded" in elsewhere.manage("reconcile")
    assert " 0 differences" in elsewhere.manage("check_repos")
    assert "none damaged" in elsewhere.manage("check_uploads")
    facts = orjson.loads(elsewhere.run("from tests.scenarios.facts import show; show()"))
    check_chains(facts, has_actors=False)
    check_reported(facts, before)
    check_stores(Path(repo["store"]) for repo in facts["repos"].values())
    for repo in facts["repos"].values():
        commits = {move["after"] for move in repo["moves"] if move["after"]}
        assert not GitRepo(Path(repo["store"])).missing(commits), "rows are ahead of git"


def check_served(
    elsewhere: Server, server: Server, talk: Talk, replies: list[str], uploads: dict[str, bytes]
) -> None:
    """The restored site has the tokens, replies and uploads; its people can go on."""
    elsewhere.tokens.update(server.tokens)
    elsewhere.start()
    talk.api = elsewhere.api("vic")
    pages = (talk.api.get(f"{talk.path}?page={page}").gives() for page in range(1, 1000))
    uuids = set[str]()
    for page in pages:
        uuids |= {reply["uuid"] for reply in page["results"]}
        if not page["results"]:
            break
    assert set(replies) <= uuids
    talk.reply(0)
    assert all(server_has(elsewhere, url, content) for url, content in uploads.items())


def server_has(server: Server, url: str, content: bytes) -> bool:
    """Whether the server answers the path of this URL with these bytes."""
    with closing(server.connect()) as connection:
        headers = {"Authorization": f"Bearer {server.token('vic')}"}
        connection.request("GET", urlsplit(url).path, headers=headers)
        return connection.getresponse().read() == content

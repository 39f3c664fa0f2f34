"""Two nodes that see different states of the disk: an acknowledged commit is never lost."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pytest

from apps.git.protocol import ZERO, Command
from tests.git.scratch import Scratch, push_body
from tests.server import Server
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.once]
REPO, PATH = "teams/acme/api", "/teams/acme/repos/api"
MAIN, TOPIC = "refs/heads/main", "refs/heads/topic"
IN_JOURNAL = "from apps.repos.models import PushJournal; print(PushJournal.objects.count())"


class Push:
    """A push by alice to one node, in two pieces."""

    def __init__(self, node: Server, body: bytes) -> None:
        token = base64.b64encode(f"alice:{node.token('alice')}".encode()).decode()
        self.connection, self.rest = node.connect(), body
        self.connection.putrequest("POST", f"/{REPO}.git/git-receive-pack")
        self.connection.putheader("Authorization", f"Basic {token}")
        self.connection.putheader("Content-Type", "application/x-git-receive-pack-request")
        self.connection.putheader("Content-Length", str(len(body)))
        self.connection.endheaders()

    def send(self, size: int | None = None) -> None:
        """Send the next bytes, or all that are left."""
        piece, self.rest = self.rest[:size], self.rest[size:] if size else b""
        self.connection.send(piece)

    def is_acknowledged(self) -> bool:
        self.send()
        response = self.connection.getresponse()
        report = response.read()
        self.connection.close()
        return response.status == 200 and f"ok {MAIN}".encode() in report


@pytest.fixture
def source(tmp_path):
    source = Scratch(tmp_path / "source.git")
    source.create()
    return source


@pytest.fixture
def nodes(new_server, tmp_path, source):
    """Two, each with a copy of a repository that has one commit, which is returned too."""
    with new_server(tmp_path) as one:
        alice, first = one.api("alice"), source.commit({"a": b"1"})
        alice.post("/teams", name="Acme", slug="acme").gives(201)
        alice.post("/teams/acme/repos", name="Api", slug="api").gives(201)
        moves = [
            Command(ZERO, first, MAIN),
            Command(ZERO, source.commit({"b": b"1"}, first), TOPIC),
        ]
        assert Push(one, push_body(source, moves)).is_acknowledged()
        folder, database = Path(one.environment["DATA_DIR"]), one.environment.get("DATABASE_URL")
        left_out = shutil.ignore_patterns("*.db*", "wake")  # the database, and sockets of a process
        shutil.copytree(folder, tmp_path / "other", ignore=left_out)
        own = {"DATA_DIR": str(tmp_path / "other")}
        shared = database or f"sqlite:///{folder}/guildhall.db"
        with Server(tmp_path, beside=one, DATABASE_URL=shared, **own) as other:
            yield one, other, first


@pytest.fixture
def late(nodes, source):
    """A push to the other node that is in the journal, and whose last bytes have not come."""
    one, other, first = nodes
    body = push_body(source, [Command(first, source.commit({"a": b"3"}, first), MAIN)])
    late = Push(other, body)
    late.send(len(body) - 10)
    eventually(lambda: one.run(IN_JOURNAL).strip() == "1")
    return late


def test_of_two_pushes_from_one_head_on_two_nodes_only_the_recorded_one_is_acknowledged(
    nodes, source, late
):
    """Each node's git moves the ref from the head that it sees."""
    one, _, first = nodes
    commit = source.commit({"a": b"2"}, first)
    assert Push(one, push_body(source, [Command(first, commit, MAIN)])).is_acknowledged()
    assert not late.is_acknowledged()
    assert one.api("alice").get(f"{PATH}/branches/main").gives()["sha"] == commit


def test_a_push_is_not_acknowledged_after_a_merge_on_another_node(nodes, late):
    alice = nodes[0].api("alice")
    branches = {"source_branch": "topic", "target_branch": "main"}
    number = alice.post(f"{PATH}/pulls", title="x", body="", **branches).gives(201)["number"]
    merged = alice.post(f"{PATH}/pulls/{number}/merge", merge_strategy="merge").gives()
    assert not late.is_acknowledged()
    branch = alice.get(f"{PATH}/branches/main").gives()
    assert branch["sha"] == merged["merge_commit_sha"]

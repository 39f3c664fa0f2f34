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
REPO, MAIN = "teams/acme/api", "refs/heads/main"
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
        assert Push(one, push_body(source, [Command(ZERO, first, MAIN)])).is_acknowledged()
        folder, database = Path(one.environment["DATA_DIR"]), one.environment.get("DATABASE_URL")
        shutil.copytree(folder, tmp_path / "other", ignore=shutil.ignore_patterns("*.db*"))
        own = {"DATA_DIR": str(tmp_path / "other")}
        shared = database or f"sqlite:///{folder}/guildhall.db"
        with Server(tmp_path, beside=one, DATABASE_URL=shared, **own) as other:
            yield one, other, first


def test_of_two_pushes_from_one_head_on_two_nodes_only_the_recorded_one_is_acknowledged(
    nodes, source
):
    """Each node's git moves the ref from the head that it sees."""
    one, other, first = nodes
    commits = [source.commit({"a": text}, first) for text in (b"2", b"3")]
    bodies = [push_body(source, [Command(first, commit, MAIN)]) for commit in commits]
    late = Push(other, bodies[1])
    late.send(len(bodies[1]) - 10)
    eventually(lambda: one.run(IN_JOURNAL).strip() == "1")
    assert Push(one, bodies[0]).is_acknowledged()
    assert not late.is_acknowledged()
    branch = one.api("alice").get("/teams/acme/repos/api/branches/main").gives()
    assert branch["sha"] == commits[0]

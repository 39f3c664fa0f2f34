"""The programs of docs/examples, with a real server: a mirror, a chat notifier, and the start of a
CI bot; its work is tried in test_ci_loop.py."""

from __future__ import annotations

import json
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from uuid import uuid4

import pytest

from tests.gitclient import Git
from tests.programs import Program
from tests.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.one_server,
    pytest.mark.parametrize("server", ["serve"], indirect=True),  # gunicorn has no stream
]


@pytest.fixture
def slug(server):
    """A team of alice's with an empty repository `api`."""
    slug, alice = f"x{uuid4().hex[:10]}", server.api("alice")
    alice.post("/teams", name="Acme", slug=slug).gives(201)
    alice.post(f"/teams/{slug}/repos", name="Api", slug="api").gives(201)
    return slug


@pytest.fixture
def work(server, slug, tmp_path):
    """A working tree of alice's with one commit."""
    work = Git(tmp_path / "work", f"{server.url}/teams/{slug}/api.git", server.token("alice"))
    work.commit()
    return work


class Chat(ThreadingHTTPServer):
    """A chat that refuses its first message. `texts` has the others."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ChatHandler)
        self.texts: list[str] = []
        self.is_away = True


class ChatHandler(BaseHTTPRequestHandler):
    server: Chat

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, self.server.is_away = (503 if self.server.is_away else 200), False
        if status == 200:
            self.server.texts.append(json.loads(body)["text"])
        self.send_response(status)
        self.end_headers()


@pytest.fixture
def chat():
    with Chat() as chat:
        Thread(target=chat.serve_forever, daemon=True).start()
        yield chat
        chat.shutdown()


def refs(folder):
    """The refs of a bare repository, by name."""
    done = subprocess.run(
        ["git", "for-each-ref", "--format=%(refname) %(objectname)"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(line.split() for line in done.stdout.splitlines())


def test_a_mirror_has_the_branches_and_tags_also_after_it_was_away(server, slug, work, tmp_path):
    other = tmp_path / "other.git"
    subprocess.run(["git", "init", "--quiet", "--bare", other], check=True)
    mirror = Program(
        tmp_path / "mirror", server, "alice", "mirror.py", f"teams/{slug}/api", str(other)
    )
    with mirror:
        eventually(lambda: mirror.has_written("mirrored everything"))
        assert refs(other) == {}
        work("tag", "v1")
        work("push", "--quiet", work.url, "main", "main:topic", "v1")
        head = work("rev-parse", "HEAD")
        names = ("refs/heads/main", "refs/heads/topic", "refs/tags/v1")
        eventually(lambda: refs(other) == dict.fromkeys(names, head))
    work("commit", "--quiet", "--amend", "--message", "Other words")
    work("push", "--quiet", "--force", work.url, "main", ":topic")
    with mirror:
        amended = work("rev-parse", "HEAD")
        eventually(lambda: refs(other) == {"refs/heads/main": amended, "refs/tags/v1": head})
    assert server.token("alice") not in mirror.log.read_text()


def test_a_chat_gets_each_event_once_it_answers(server, slug, chat, tmp_path):
    alice = server.api("alice")
    repo = f"/teams/{slug}/repos/api"
    alice.post(f"{repo}/threads", title="Before", kind="issue", body="").gives(201)
    address = f"http://127.0.0.1:{chat.server_port}/hooks/secret"
    scope = f"repo:teams/{slug}/api"
    notifier = Program(
        tmp_path / "bot", server, "alice", "chat_notifier.py", scope, "thread-created", CHAT=address
    )
    with notifier:
        eventually(lambda: (notifier.folder / "last-event-id").exists())
        alice.post(f"{repo}/threads", title="A gate", kind="issue", body="").gives(201)
        alice.post(f"{repo}/threads", title="A wall", kind="issue", body="").gives(201)
        eventually(lambda: len(chat.texts) == 2)
        assert notifier.has_written("The chat does not answer")
    first, second = chat.texts
    assert first.startswith(f'alice: thread-created in teams/{slug}/api, "A gate" http')
    assert '"A wall"' in second


def test_the_ci_bot_does_not_start_with_a_wrong_secret(server, tmp_path):
    secret = {"SECRET": "whsec_Hint…\nwhsec_AAAA"}  # two lines of an answer instead of one
    with Program(tmp_path / "bot", server, "alice", "ci_bot.py", "0", "true", **secret) as bot:
        eventually(lambda: not bot.is_alive)
        assert "Listening" not in bot.log.read_text()

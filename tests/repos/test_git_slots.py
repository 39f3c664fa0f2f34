"""Limits of concurrent git requests per person, per address, and of all."""

from __future__ import annotations

import gc
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.http import HttpRequest
from django.test import RequestFactory

from apps.accounts.models import User
from apps.accounts.principal import ANONYMOUS, Principal
from apps.core.errors import TooMany
from apps.git.protocol import FLUSH, pkt
from apps.repos.http import transfer_slots
from apps.repos.http.transfer_slots import TransferSlots, transfer_slot
from tests.gitclient import Git
from tests.processes import STAYS
from tests.server import PATIENCE, Server
from tests.waiting import eventually

REFS = "/teams/acme/api.git/info/refs?service=git-upload-pack"


@pytest.fixture(autouse=True)
def few(settings, monkeypatch):
    """Two slots for each caller and four for all, none of them held."""
    settings.GIT_SLOTS, settings.GIT_SLOTS_PER_PERSON, settings.GIT_SLOTS_PER_ADDRESS = 4, 2, 2
    monkeypatch.setattr(transfer_slots, "process_slots", TransferSlots())


def of(person: int) -> Principal:
    return Principal(User(pk=person))


def at(address: str) -> HttpRequest:
    return RequestFactory(REMOTE_ADDR=address).get("/")


def check_refused(reason: str, address: str, principal: Principal) -> None:
    with pytest.raises(TooMany, match=reason) as refused, transfer_slot(at(address), principal):
        pass
    assert refused.value.headers == {"Retry-After": "10"}


def test_a_person_an_address_and_all_together_have_so_many():
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(transfer_slot(at("192.0.2.1"), of(1)))
        check_refused("of yours", "192.0.2.2", of(1))
        held.enter_context(transfer_slot(at("192.0.2.1"), ANONYMOUS))
        with transfer_slot(at("192.0.2.1"), of(3)):
            check_refused("requests are under way", "::1", of(2))
        with transfer_slot(at("192.0.2.2"), ANONYMOUS):
            pass
    assert not transfer_slots.process_slots.held


def test_an_address_that_has_all_of_its_slots_is_told_so():
    with transfer_slot(at("192.0.2.1"), ANONYMOUS), transfer_slot(at("192.0.2.1"), ANONYMOUS):
        check_refused("of this address", "192.0.2.1", ANONYMOUS)
        with transfer_slot(at("192.0.2.1"), of(1)):
            pass


def test_a_quarter_is_kept_for_people():
    """An attacker with many addresses can block anonymous callers, but not people."""
    with ExitStack() as held:
        for address in "123":
            held.enter_context(transfer_slot(at(f"192.0.2.{address}"), ANONYMOUS))
        check_refused("Sign in", "::1", ANONYMOUS)
        held.enter_context(transfer_slot(at("192.0.2.1"), of(1)))
    assert not transfer_slots.process_slots.held


def test_where_requests_have_threads_git_never_has_all_of_them(settings):
    settings.GIT_SLOTS = settings.GIT_SLOTS_PER_ADDRESS = settings.GIT_SLOTS_PER_PERSON = 100
    transfer_slots.process_slots.leave_threads(16)
    with ExitStack() as held:

        def taken(address: str, principal: Principal = ANONYMOUS) -> int:
            for count in range(16):
                try:
                    held.enter_context(transfer_slot(at(address), principal))
                except TooMany:
                    return count
            return 16

        assert [taken("192.0.2.1"), taken("192.0.2.2"), taken("192.0.2.1", of(1))] == [8, 1, 3]


def test_a_slot_that_is_forgotten_is_released():
    """A server drops the answer if the client disconnects before it exists."""
    held = ExitStack()
    held.enter_context(transfer_slot(at("192.0.2.1"), ANONYMOUS))
    assert transfer_slots.process_slots.held
    del held
    gc.collect()
    assert not transfer_slots.process_slots.held


@pytest.mark.django_db(transaction=True)
def test_refusals_and_failures_hold_no_slot(client, make, team_repo, alice, monkeypatch):
    token = {"Authorization": f"Bearer {make.token(alice)}"}

    def post(body: bytes, kind: str = "application/x-git-upload-pack-request") -> int:
        address = "/teams/acme/api.git/git-upload-pack"
        return int(client.post(address, body, content_type=kind, headers=token).status_code)

    assert post(b"", "text/plain") == 415
    assert post(pkt(b"filter " + b"x" * 300)) == 400
    monkeypatch.setattr(type(team_repo.git), "serve", None)
    client.raise_request_exception = False
    assert post(FLUSH) == 500
    assert not transfer_slots.process_slots.held


def test_a_slot_is_held_until_the_answer_has_been_sent(client, make, team_repo, alice):
    token = {"Authorization": f"Bearer {make.token(alice)}"}
    answers = [client.get(REFS, headers=token) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert (
        answers[2].content == b"Too many git requests of yours are under way. Try again in 10 s.\n"
    )
    assert (answers[2]["Content-Type"], answers[2]["Retry-After"]) == ("text/plain", "10")
    list(answers[0].streaming_content)
    answers.append(client.get(REFS, headers=token))
    assert answers[-1].status_code == 200
    for answer in answers[1:]:
        answer.close()


MIB = 1024 * 1024


@pytest.fixture
def public(server: Server, path: str, git) -> str:
    """A public repository whose clone is larger than the buffers of a connection."""
    return fill(server, path, git())


def fill(server: Server, path: str, ours: Git) -> str:
    """git stores a pack of 100 objects unchanged and reuses it. The large object alone would be
    packed again for each clone.
    """
    (ours.folder / "large").write_bytes(os.urandom(24 * MIB))
    for number in range(100):
        (ours.folder / f"{number}").write_text(f"{number}")
    head = ours.commit()
    ours("push", "--quiet", ours.url, "main")
    owner, name, slug = path.split("/")
    body = {"name": "Open", "slug": slug, "visibility": "public"}
    server.api("alice").put(f"/{owner}/{name}/repos/{slug}", **body).gives()
    return head


def unread_clone(server: Server, path: str, head: str, **headers: str) -> socket.socket:
    """A client that requests a clone and does not read the answer."""
    parts = urlsplit(server.url)
    body = pkt(f"want {head} no-progress\n".encode()) + FLUSH + pkt(b"done\n")
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.settimeout(PATIENCE)
    line.connect((str(parts.hostname), parts.port))
    line.sendall(
        f"POST /{path}.git/git-upload-pack HTTP/1.1\r\nHost: {parts.netloc}\r\n{more}"
        "Content-Type: application/x-git-upload-pack-request\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    return line


def status(line: socket.socket) -> int:
    """The first line of the server's answer; the rest is not read."""
    return int(line.recv(12).split()[1])


@contextmanager
def unread_clones(
    server: Server, path: str, head: str, count: int, **headers: str
) -> Iterator[list[int]]:
    with ExitStack() as lines:
        opened = [
            lines.enter_context(closing(unread_clone(server, path, head, **headers)))
            for _ in range(count)
        ]
        yield [status(line) for line in opened]


def gits(server: Server) -> list[int]:
    """The ids of the git processes of the server's processes, without those that stay."""
    pids: list[int] = []
    for worker in server.children():
        for task in Path(f"/proc/{worker}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
                pids += [int(child) for child in (task / "children").read_text().split()]
    return [pid for pid in pids if not stays(pid)]


def stays(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        return STAYS in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return True


@pytest.mark.slow
@pytest.mark.once
def test_unread_clones_have_so_many_slots_and_give_them_back(server, path, public):
    """16 for an address; with gunicorn 4, two thirds of three quarters of its threads."""
    most = 4 if server.kind == "gunicorn" else 16
    with unread_clones(server, path, public, 40) as answers:
        assert (answers.count(200), answers.count(429)) == (most, 40 - most)
        assert len(gits(server)) <= most
        server.api("alice").get("/users/self").gives()
    eventually(lambda: not gits(server))
    with unread_clones(server, path, public, most) as answers:
        assert answers == [200] * most
        for process in gits(server):
            os.killpg(process, signal.SIGKILL)
        # A thread that is sending notices only after the minute in which a client may read nothing.
        eventually(lambda: not gits(server), within=180)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("strangers", [1, 8])
def test_slow_clones_leave_threads_for_the_api(tmp_path, new_server, strangers):
    """gunicorn as in deploy/systemd: two processes with 16 threads each."""
    server = new_server(tmp_path, "gunicorn-deployed", TRUSTED_PROXIES="1")
    with server, ExitStack() as lines:
        server.api("alice").post("/users/alice/repos", name="Api", slug="api").gives(201)
        token = server.token("alice")
        ours = Git(tmp_path / "ours", f"{server.url}/users/alice/api.git", token)
        head = fill(server, "users/alice/api", ours)
        opened = [
            unread_clone(
                server, "users/alice/api", head, **{"X-Forwarded-For": f"192.0.2.{n % strangers}"}
            )
            for n in range(64)
        ]
        for line in opened:
            lines.enter_context(closing(line))
        for _ in range(20):
            server.api("alice").get("/users/self").gives()
        answers = [status(line) for line in opened]
        assert set(answers) == {200, 429} and answers.count(200) <= (16 if strangers == 1 else 24)

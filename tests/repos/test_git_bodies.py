"""Bodies of git requests that would cost the server far more than their sender."""

from __future__ import annotations

import gzip
import zlib
from contextlib import ExitStack, closing
from typing import Any

import pytest

from apps.core.body_limits import body_memory
from apps.core.errors import Unavailable
from apps.core.slots import ALL
from apps.git import protocol
from apps.git.protocol import DELIMITER, FLUSH, MOST_LINES, Service, pkt
from apps.git.repo import GitRepo
from apps.repos.http import streams
from apps.repos.http.push import receive
from tests.git.scratch import Scratch
from tests.principals import access_of
from tests.repos.test_git_http import post

pytestmark = pytest.mark.once
MIB = 1024 * 1024
DEEP = "combine:" + "+".join(["blob:none"] * 6000)
COSTLY = {
    "combined, of 60 KB": DEEP,
    "of 257 bytes": "sparse:oid=" + "x" * 246,
    "by the paths in a file": "sparse:oid=main:paths",
    "by the paths in a file, encoded": "combine:blob:none+sparse%3Aoid=main:paths",
    "nested": "combine:combine:blob:none+tree:0",
    "nested and encoded": "combine:combine%3Ablob:none+tree:0",
    "nested and encoded twice": "combine:combin%2565%253ablob:none",
}
CHEAP = ["blob:none", "combine:blob:none+tree:1", "blob:limit=10k"]


LINES = {
    "have": b"have " + b"1" * 40,
    "shallow": b"shallow " + b"1" * 40,
    "ref-prefix": b"ref-prefix refs/heads/",
    "deepen-not": b"deepen-not main",
}


def asked_for(wanted: str, more: bytes, version: int) -> bytes:
    """The request of a clone, with additional lines."""
    if version == 2:
        wants = pkt(f"want {wanted}\n".encode()) + pkt(b"done\n")
        return pkt(b"command=fetch\n") + DELIMITER + more + wants + FLUSH
    return pkt(f"want {wanted} filter ofs-delta\n".encode()) + more + FLUSH + pkt(b"done\n")


@pytest.fixture
def fetch(client, make, team_repo, alice, tmp_path, monkeypatch):
    """`fetch(more, version)`: a clone with additional lines; returns status, text and the number of
    git processes.
    """
    serve, started = GitRepo.serve, list[Service]()

    def count(*args: Any, **options: Any) -> Any:
        started.append(args[1])
        return serve(*args, **options)

    store = Scratch(team_repo.git.path)
    tip = store.commit({"a": b"1"})
    assert store.update_ref("refs/heads/main", tip, "0" * 40)
    monkeypatch.setattr(GitRepo, "serve", count)

    def ask(more: bytes, version: int) -> tuple[int, bytes, int]:
        answer = client.post(
            "/teams/acme/api.git/git-upload-pack",
            asked_for(tip, more, version),
            content_type="application/x-git-upload-pack-request",
            headers={
                "Authorization": f"Bearer {make.token(alice)}",
                "Git-Protocol": f"version={version}",
            },
        )
        begun = len(started)
        started.clear()
        return answer.status_code, b"".join(answer), begun

    return ask


def filter_line(spec: str) -> bytes:
    return pkt(f"filter {spec}\n".encode())


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("case", COSTLY)
def test_a_long_or_nested_filter_is_refused_and_git_is_not_asked(fetch, case, version):
    """git would need seconds to parse 60 KB of them."""
    status, text, begun = fetch(filter_line(COSTLY[case]), version)
    assert (status, begun) == (400, 0), text
    assert text.startswith(b"A filter may have at most")


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("spec", CHEAP)
def test_other_filters_are_git_s_business(fetch, spec, version):
    status, text, begun = fetch(filter_line(spec), version)
    assert (status, begun) == (200, 1)
    assert b"PACK" in text


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("word", LINES)
def test_too_many_lines_of_a_kind_are_refused_and_git_is_not_asked(
    fetch, monkeypatch, word, version
):
    """Each takes git time: 600,000 excluded refs, a request of 16 MiB, take half a minute."""
    monkeypatch.setitem(MOST_LINES, word.encode(), 2)
    status, text, begun = fetch(pkt(LINES[word]) * 3, version)
    assert (status, begun) == (400, 0), text
    assert text == f"A fetch may have at most 2 lines with {word}.\n".encode()
    assert fetch(pkt(LINES[word]) * 2, version)[::2] == (200, 1)


OTHERS = [FLUSH, b"0004", pkt(b"x"), pkt(b"want"), pkt(b"filter blob:none")]


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("line", OTHERS)
def test_too_many_lines_that_name_no_object_are_refused_and_git_is_not_asked(
    fetch, monkeypatch, line, version
):
    """Empty lines are the cheapest for their sender: 16 KB of gzip hold 4 million."""
    monkeypatch.setattr(protocol, "MOST_OTHERS", 20)
    status, text, begun = fetch(line * 21, version)
    assert (status, begun) == (400, 0), text
    assert text == b"A fetch may have at most 20 lines that name no object.\n"


def test_a_fetch_may_want_as_many_objects_as_there_is_room_for():
    """A clone names the tip of each ref."""
    protocol.check_fetch(pkt(b"want " + b"1" * 40) * 2000)


def test_real_clients_stay_far_below(fetch):
    """git repeats the common commits in each request, and adds a tenth more haves."""
    assert fetch(pkt(LINES["have"]) * 20_000, 2)[::2] == (200, 1)


SENT_PACKED = {"Content-Encoding": "gzip"}


BROKEN = b"zz\r\n"
"""An invalid chunk size."""


@pytest.mark.parametrize("service", Service)
@pytest.mark.parametrize("body", [BROKEN, b"2\r\n00\r\n" + BROKEN], ids=len)
def test_broken_chunks_are_the_fault_of_their_sender(server, path, service, body):
    with closing(server.connect()) as connection:
        connection.putrequest("POST", f"/{path}.git/git-{service}")
        connection.putheader("Authorization", f"Bearer {server.token('alice')}")
        connection.putheader("Content-Type", f"application/x-git-{service}-request")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders(body)
        assert connection.getresponse().status == 400


def pushed(ref: str, rest: bytes = b"") -> bytes:
    """A push that creates a ref, with additional bytes behind it."""
    line = f"{'0' * 40} {'1' * 40} {ref}\0report-status object-format=sha1".encode()
    return pkt(line) + FLUSH + rest


def test_a_push_that_unpacks_to_much_is_413(server, path):
    """A gzip stream with the commands, followed by 2 GB of zeros."""
    packer = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
    head, zeros = packer.compress(pushed("refs/heads/main", b"PACK")), bytes(4 * MIB)
    body = head + b"".join(packer.compress(zeros) for _ in range(512)) + packer.flush()
    assert len(body) < 12 * MIB
    assert post(server, path, "receive-pack", body, **SENT_PACKED) == 413


class Pieces:
    """A body that never ends, with a count of the bytes read."""

    def __init__(self, beginning: bytes) -> None:
        self.beginning = beginning
        self.read = 0

    def __iter__(self) -> Any:
        yield self.beginning
        for _ in range(200):
            self.read += MIB
            yield bytes(MIB)


@pytest.mark.django_db(transaction=True)
def test_of_a_push_that_is_refused_no_more_than_16_mib_are_read(team_repo, alice):
    body = Pieces(pushed("refs/pull/1/head"))
    report = receive(access=access_of(alice, team_repo), body=iter(body))
    assert b"ng refs/pull/1/head" in report
    assert body.read == 16 * MIB


@pytest.mark.django_db(transaction=True)
def test_of_a_push_that_git_refuses_not_much_more_is_read(team_repo, alice):
    """The rest is not a pack, which git reports at its first bytes."""
    body = Pieces(pushed("refs/heads/main", b"no pack"))
    receive(access=access_of(alice, team_repo), body=iter(body))
    assert body.read <= 20 * MIB


LATER = {
    "to its end": ({}, 200 * MIB),
    "up to a size": ({"DROPPED_LATER": 3 * MIB}, 3 * MIB),
    "up to a time": ({"DROP_LATER_SECONDS": -1}, 0),
}


@pytest.mark.parametrize("case", LATER)
def test_what_is_left_of_a_push_is_read_after_the_answer(monkeypatch, case):
    """git reads the answer only after it has sent everything."""
    bounds, read = LATER[case]
    for name, value in bounds.items():
        monkeypatch.setattr(streams, name, value)
    body, held, given_back = Pieces(b"PACK"), ExitStack(), []
    held.callback(lambda: given_back.append(body.read))
    answer = streams.PushAnswer(b"report", iter(body), held)
    held.close()
    assert (answer.content, body.read, given_back) == (b"report", 0, [])
    answer.close()
    assert (body.read, given_back) == (read, [read])


@pytest.mark.django_db(transaction=True)
def test_command_lists_are_counted_in_memory_while_they_are_kept(team_repo, alice, monkeypatch):
    """Parsing a list of 8 MiB takes 70 MiB, and its sender may never finish it."""
    monkeypatch.setattr(body_memory, "most", 2 * MIB)
    lines = (pkt(f"{'0' * 40} {'1' * 40} refs/x/{n}".encode()) for n in range(3000))
    small = pkt(f"{'0' * 40} {'1' * 40} refs/x\0report-status".encode()) + FLUSH
    large = b"".join(lines)
    seen = []

    def slowly():
        for start in range(0, len(large), 1000):
            seen.append(body_memory.held[ALL])
            yield large[start : start + 1000]

    with pytest.raises(Unavailable):
        receive(access=access_of(alice, team_repo), body=slowly())
    assert len(large) > 1000 * len(seen) > 200_000
    assert seen[0] == 0 and seen[-1] > 2 * MIB - 10_000
    receive(access=access_of(alice, team_repo), body=iter([small]))
    assert not body_memory.held


@pytest.mark.django_db(transaction=True)
def test_the_command_lists_of_one_person_leave_room_for_those_of_others(
    team_repo, alice, bob, monkeypatch
):
    """Four unfinished lists of 8 MiB would block all other bodies."""
    monkeypatch.setattr(body_memory, "per_caller", MIB)
    lines = (pkt(f"{'0' * 40} {'1' * 40} refs/x/{n}".encode()) for n in range(1000))
    first = pkt(f"{'0' * 40} {'1' * 40} refs/x\0report-status".encode())
    push = first + b"".join(lines) + FLUSH
    with body_memory.hold(f"person:{alice.pk}") as waiting:
        waiting.grow_to(MIB)
        with pytest.raises(Unavailable):
            receive(access=access_of(alice, team_repo), body=iter([push]))
        receive(access=access_of(bob, team_repo), body=iter([push]))
    receive(access=access_of(alice, team_repo), body=iter([push]))


def test_the_request_of_a_fetch_is_counted_for_who_sends_it(fetch, alice, monkeypatch):
    monkeypatch.setattr(body_memory, "per_caller", MIB)
    haves = pkt(LINES["have"]) * 20_000
    with body_memory.hold(f"person:{alice.pk}") as waiting:
        waiting.grow_to(MIB)
        assert fetch(haves, 2)[0] == 503
    assert fetch(haves, 2)[0] == 200


def test_what_follows_a_gzip_stream_is_not_collected(server, path):
    body = gzip.compress(pushed("refs/pull/1/head")) + bytes(MIB)
    assert post(server, path, "receive-pack", body, **SENT_PACKED) == 400

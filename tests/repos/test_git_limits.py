"""Rate limits of git over HTTP: what counts, and what git prints."""

import base64
import logging
import os
import time
from dataclasses import dataclass
from uuid import uuid4

import pytest

from apps.git.protocol import FLUSH, ZERO, pkt
from apps.repos.http import transfer_slots
from apps.repos.http.transfer_slots import TransferSlots
from apps.repos.models import Visibility
from apps.site.actions import create_rate_limit
from apps.site.models import DailyCount
from tests.gitclient import Git
from tests.server import Remote, Server

pytestmark = pytest.mark.once

REFS = "info/refs?service=git-upload-pack"
DAY = 86_400
MIB = 1024 * 1024


@pytest.fixture
def limit(db):
    return lambda scope, most: create_rate_limit(
        principal=None, scope=scope, max_requests=most, window_seconds=DAY
    )


@pytest.fixture
def ask(client, make, team_repo):
    """`ask(alice)`: the status that a fetch begins with; of `token` where one is given."""

    def request(person=None, token=None):
        token = token or (make.token(person) if person else None)
        basic = base64.b64encode(f"any:{token}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}"} if token else {}
        answer = client.get(f"/teams/acme/api.git/{REFS}", headers=headers)
        if answer.streaming:
            list(answer.streaming_content)  # until git has ended
        return answer

    return request


def test_each_request_counts_for_its_person_and_a_refusal_is_text(ask, alice, bob, limit):
    limit("git", 2)
    assert [ask(alice).status_code for _ in range(3)] == [200, 200, 429]
    assert ask(bob).status_code == 200
    refused = ask(alice)
    assert refused.content.startswith(b"The limit of 2 requests")
    assert refused["Content-Type"] == "text/plain"
    assert int(refused["Retry-After"]) > 0 and refused["X-RateLimit-Resource"] == "git"


def test_every_answer_says_how_the_tightest_limit_stands(ask, alice, carol, limit):
    assert not [name for name in ask(alice).headers if name.startswith("X-RateLimit")]
    limit("git", 5)
    limit("anonymous", 3)
    answers = [ask(alice), ask(carol), ask(token="ght_wrong"), ask(alice)]
    values = [(answer.status_code, answer["X-RateLimit-Remaining"]) for answer in answers]
    assert values == [(200, "4"), (403, "4"), (401, "2"), (200, "3")]
    expected = ["git", "git", "anonymous", "git"]
    assert [answer["X-RateLimit-Resource"] for answer in answers] == expected
    assert answers[0]["X-RateLimit-Limit"] == "5"
    assert time.time() < int(answers[0]["X-RateLimit-Reset"]) <= time.time() + 2 * DAY


@pytest.mark.parametrize("scope", ["authenticated", "user:alice"])
def test_the_limit_of_a_person_holds_for_git_and_api_together(scope, ask, api, alice, limit):
    limit(scope, 2)
    assert ask(alice).status_code == 200
    assert api(alice).get("/api-tokens/self").status == 200
    assert ask(alice).status_code == 429


def test_the_api_s_own_limits_are_not_git_s(ask, alice, limit):
    for scope in ("api", "write", "repos"):
        limit(scope, 1)
    assert [ask(alice).status_code for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize("scope", ["git", "anonymous"])
def test_wrong_tokens_count_by_address_and_lock_nobody_out(scope, ask, alice, limit):
    limit(scope, 2)
    assert [ask(token="ght_wrong").status_code for _ in range(3)] == [401, 401, 429]
    assert ask(alice).status_code == 200


def test_that_git_asks_without_a_token_first_is_not_counted(ask, team_repo, limit):
    limit("git", 1)
    assert [ask().status_code for _ in range(3)] == [401, 401, 401]
    team_repo.visibility = Visibility.PUBLIC
    team_repo.save()
    assert [ask().status_code for _ in range(2)] == [200, 429]


@pytest.fixture
def dora(server, tmp_path):
    """The work tree of a new person's repository, and that person's API client."""
    name = f"dora{uuid4().hex[:8]}"
    api = server.api(name)
    api.post(f"/users/{name}/repos", name="Api", slug="api").gives(201)
    address = f"{server.url}/users/{name}/api.git"
    return Dora(name, api, Git(tmp_path / "dora", address, server.token(name)))


@dataclass
class Dora:
    name: str
    api: Remote
    git: Git

    def may_ask(self, server: Server, most: int) -> str:
        """Limit this person's requests; returns the beginning of what they are told over that."""
        scope, window = f"user:{self.name}", {"window_seconds": DAY, "is_enabled": True}
        sent = server.api("sam").post("/rate-limits", scope=scope, max_requests=most, **window)
        sent.gives(201)
        return f"The limit of {most} requests in {DAY} s for {scope} is used up. Try again in "


@pytest.mark.slow
def test_git_prints_why_it_has_to_wait(server, dora):
    dora.git("ls-remote", dora.git.url)
    reason = dora.may_ask(server, 1)
    dora.api.get("/api-tokens/self").gives()
    assert f"remote: {reason}" in dora.git.fails("ls-remote", dora.git.url)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 4 * MIB], ids=["small", "in pieces"])
def test_a_push_that_is_cut_by_the_limit_says_why_beside_each_ref(server, dora, size):
    """A limit of one lets the question for the refs through, and not the push that follows."""
    (dora.git.folder / "large").write_bytes(os.urandom(size))
    dora.git.commit()
    dora.git("tag", "v1")
    reason = dora.may_ask(server, 1)
    printed = dora.git.fails("push", dora.git.url, "main", "v1")
    assert f"[remote rejected] main -> main ({reason}" in printed
    assert f"[remote rejected] v1 -> v1 ({reason}" in printed
    assert dora.api.get(f"/users/{dora.name}/repos/api/branches").status == 429


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 2])
def test_a_fetch_that_is_cut_by_the_limit_says_why(server, dora, version):
    dora.git.commit()
    dora.git("push", dora.git.url, "main")
    reason = dora.may_ask(server, 1)
    other = f"protocol.version={version}"
    printed = dora.git.fails("-c", other, "clone", "--bare", dora.git.url, "copy")
    assert f"remote error: {reason}" in printed


def test_a_push_without_a_place_says_why_if_it_is_small(
    client, make, team_repo, alice, settings, monkeypatch, caplog
):
    caplog.set_level(logging.INFO, "apps.repos.http.views")
    settings.GIT_SLOTS_PER_PERSON = 0
    monkeypatch.setattr(transfer_slots, "process_slots", TransferSlots())
    token = {"Authorization": f"Bearer {make.token(alice)}"}
    command = pkt(f"{ZERO} {'1' * 40} refs/heads/main\0report-status".encode()) + FLUSH

    def push(body: bytes):
        kind = "application/x-git-receive-pack-request"
        address = "/teams/acme/api.git/git-receive-pack"
        return client.post(address, body, content_type=kind, headers=token)

    large = push(command + bytes(2 * MIB))
    assert large.status_code == 429 and large.content.startswith(b"Too many git requests of yours")
    small = push(command)
    assert small.status_code == 200
    assert b"ng refs/heads/main Too many git requests of yours are under way." in small.content
    silent = push(command.replace(b"report-status", b"ofs-delta    "))
    assert silent.status_code == 429 and silent.content == large.content
    line = "Refused push to teams/acme/api by alice: 429 rate_limited"
    assert [record.getMessage() for record in caplog.records] == [line] * 3
    assert not DailyCount.objects.exists()


def test_who_is_not_signed_in_gets_the_plain_answer(client, team_repo, limit):
    limit("git", 1)
    basic = base64.b64encode(b"any:ght_wrong").decode()
    for service in ("upload-pack", "receive-pack"):
        answers = [
            client.post(
                f"/teams/acme/api.git/git-{service}",
                FLUSH,
                content_type=f"application/x-git-{service}-request",
                headers={"Authorization": f"Basic {basic}"},
            )
            for _ in range(2)
        ]
        assert answers[-1].status_code == 429
        assert answers[-1].content.startswith(b"The limit of 1 requests")

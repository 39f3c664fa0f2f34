"""Rate limits of git over HTTP: what counts, and what git prints."""

import base64
import time
from uuid import uuid4

import pytest

from apps.repos.models import Visibility
from apps.site.actions import create_rate_limit

pytestmark = pytest.mark.once

REFS = "info/refs?service=git-upload-pack"
DAY = 86_400


@pytest.fixture
def limit(db):
    return lambda scope, most: create_rate_limit(
        by=None, scope=scope, max_requests=most, window_seconds=DAY
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
            list(answer.streaming_content)  # git has then come to its end
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
    told = [(one.status_code, one["X-RateLimit-Remaining"]) for one in answers]
    assert told == [(200, "4"), (403, "4"), (401, "2"), (200, "3")]
    assert [one["X-RateLimit-Resource"] for one in answers] == ["git", "git", "anonymous", "git"]
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


@pytest.mark.slow
def test_git_prints_why_it_has_to_wait(server, path, git):
    name = f"dora{uuid4().hex[:8]}"
    ours = git(name)
    server.api("alice").put(
        f"/{path.rpartition('/')[0]}/repos/{path.rpartition('/')[2]}",
        name="Api",
        slug=path.rpartition("/")[2],
        visibility="internal",
    ).gives()
    ours("ls-remote", ours.url)
    sent = {"max_requests": 1, "window_seconds": DAY, "is_enabled": True}
    server.api("sam").post("/rate-limits", scope=f"user:{name}", **sent).gives(201)
    server.api(name).get("/api-tokens/self").gives()
    printed = ours.fails("ls-remote", ours.url)
    assert f"remote: The limit of 1 requests in {DAY} s for user:{name} is used up." in printed

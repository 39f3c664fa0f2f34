"""GET /tail-events: opening, resuming and selecting, with real servers."""

from __future__ import annotations

from contextlib import closing

import pytest

from apps.core.slugs import PREFIX
from tests.events.conftest import ON_SERVE, make_followed_team
from tests.tail import follow, opened

pytestmark = ON_SERVE


def test_the_stream_begins_at_once_and_must_not_be_buffered(live):
    with follow(live, "alice", "scope=self") as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        assert stream.headers["X-Accel-Buffering"] == "no"
        assert stream.headers["Cache-Control"] == "no-cache"
        assert "Content-Length" not in stream.headers
        stream.opened()


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 422, "validation_failed"),
        ("scope=", 422, "validation_failed"),
        ("scope=elsewhere", 422, "invalid_scope"),
        ("scope=repo:api", 422, "invalid_scope"),
        ("scope=self&kind=Reply", 422, "validation_failed"),
        ("scope=self&html=yes", 422, "validation_failed"),
        ("scope=self&last_event_id=new", 422, "invalid_cursor"),
        ("scope=self&last_event_id=-1", 422, "invalid_cursor"),
        ("scope=site", 403, "staff_required"),
        ("scope=team:nowhere", 404, "not_found"),
        ("scope=user:nobody", 404, "not_found"),
    ],
)
def test_what_is_wrong_is_said_before_the_stream_begins(server, query, status, code):
    with follow(server, "alice", query) as stream:
        assert stream.headers["Content-Type"] == "application/json"
        stream.refusal().fails(status, code)


def test_one_forbidden_scope_refuses_the_whole_request(live, shared):
    followed = shared.on(live)
    for scope in (followed.scope, followed.repo_scope):
        with follow(live, "carol", f"scope=self&{scope}") as stream:
            stream.refusal().fails(403, "forbidden")
    with follow(live, "carol", "scope=self", token="ght_unknown") as stream:
        assert "Bearer" in stream.headers["WWW-Authenticate"]
        stream.refusal().fails(401, "invalid_token")


def test_a_malformed_header_is_refused_and_an_empty_one_says_nothing(server):
    with follow(server, "alice", "scope=self", Last_Event_ID="x") as stream:
        stream.refusal().fails(422, "invalid_cursor")
    with opened(server, "alice", "scope=self", Last_Event_ID=""):
        pass


def test_without_an_id_the_stream_has_only_what_happens_from_now_on(live, shared):
    followed = shared.on(live)
    with opened(live, "alice", followed.scope) as stream:
        followed.rename("One")
        [frame] = stream.take(1)
    assert frame.kind == "team-updated"
    api = live.api("alice")
    assert frame.json == api.get(f"/events/{frame.id}").gives()


def test_a_stream_resumes_after_an_id_with_all_that_was_missed(live, shared):
    followed = shared.on(live)
    with opened(live, "alice", followed.scope) as stream:
        followed.rename("One")
        first = stream.ids(1)[0]
    followed.rename("Two")
    followed.rename("Three")
    events = live.api("alice").get(f"/events?{followed.scope}&after_id={first}").gives()["results"]
    missed = [event["id"] for event in reversed(events)]
    assert len(missed) == 2
    with opened(live, "alice", f"{followed.scope}&last_event_id={first}") as stream:
        assert stream.ids(2) == missed
    with opened(live, "alice", followed.scope, Last_Event_ID=str(first)) as stream:
        assert stream.ids(2) == missed
        followed.rename("Four")
        assert stream.ids(1)[0] > missed[-1]


def test_the_header_wins_over_the_query(shared):
    with opened(
        shared.server, "alice", f"{shared.scope}&last_event_id=0", Last_Event_ID=str(10**30)
    ) as stream:
        shared.rename("Only this")
        assert stream.kinds(1) == ["team-updated"]


def test_zero_is_the_beginning_and_a_future_id_is_now(followed):
    with opened(followed.server, "alice", f"{followed.scope}&last_event_id=0") as stream:
        assert stream.kinds(3) == ["team-created", "member-added", "repo-created"]
    with opened(followed.server, "alice", f"{followed.scope}&last_event_id=999999999999") as stream:
        followed.rename("Now")
        assert stream.kinds(1) == ["team-updated"]


def test_scopes_are_joined_and_kinds_narrow_them(followed):
    other = make_followed_team(followed.server)
    query = f"{followed.scope}&{other.repo_scope}&kind=team-updated&kind=repo-updated"
    with opened(followed.server, "alice", query) as stream:
        other.rename("Not in the scope of its repository")
        followed.server.api("alice").post("/teams", name="x", slug=f"{followed.team}-x").gives(201)
        followed.rename("One")
        other.describe("Two")
        followed.describe("Three")
        frames = stream.take(3)
    assert [frame.kind for frame in frames] == ["team-updated", "repo-updated", "repo-updated"]
    assert [frame.json["team_slug"] for frame in frames] == [
        followed.team,
        other.team,
        followed.team,
    ]


def test_an_event_that_several_scopes_match_comes_once(shared):
    with opened(shared.server, "alice", f"{shared.scope}&{shared.repo_scope}&scope=self") as stream:
        shared.describe("One")
        shared.rename("Two")
        assert stream.kinds(2) == ["repo-updated", "team-updated"]


def test_threads_and_pulls_have_streams_of_their_own(followed):
    alice = followed.server.api("alice")
    for title in ("first", "second"):
        followed.thread(title)
    branches = {"source_branch": "topic", "target_branch": "main"}
    alice.post(f"{followed.repo}/pulls", title="third", body="", **branches).gives(201)
    path = f"teams/{followed.team}/api"
    with (
        opened(followed.server, "bob", f"scope=thread:{path}/2") as thread,
        opened(followed.server, "bob", f"scope=pull:{path}/3") as pull,
    ):
        for number in (1, 2, 3):
            replies = f"{followed.repo}/threads/{number}/replies"
            alice.post(replies, kind="comment", body="b").gives(201)
        assert thread.take(1)[0].json["summary"]["thread_title"] == "second"
        assert pull.take(1)[0].json["summary"]["thread_title"] == "third"


def test_html_is_escaped_and_each_of_its_lines_is_a_data_line(shared):
    alice, title = shared.server.api("alice"), '<script>alert("1")</script>'
    lines = "```\r\nid: 7\n\nevent: forged\n```"
    with opened(shared.server, "alice", f"{shared.scope}&html=true") as stream:
        replies = f"{shared.repo}/threads/{shared.thread(title, lines)['number']}/replies"
        alice.post(replies, kind="comment", body=lines).gives(201)
        shared.rename("Next")
        first, reply, second = stream.take(3)
    assert (first.kind, reply.kind) == ("thread-created", "reply-created")
    assert second.kind == "team-updated"
    assert "\nevent: forged" in reply.data
    assert first.data.startswith("<li ") and first.data.endswith("</li>")
    assert "&lt;script&gt;alert(&quot;1&quot;)" in first.data
    assert "<script" not in first.data
    assert ">alice</a> started <a href=" in first.data


def test_urls_begin_with_the_address_the_server_was_started_on(shared):
    with opened(shared.server, "alice", shared.scope) as stream:
        shared.rename("One")
        summary = stream.take(1)[0].json["summary"]
    assert summary["web_url"] == f"{shared.server.url}/teams/{shared.team}"
    assert summary["api_url"] == f"{shared.server.url}/api/v1/teams/{shared.team}"


def test_head_answers_as_a_get_would_begin(server):
    answer = server.api("alice").send("HEAD", "/tail-events?scope=self")
    assert (answer.status, answer.header("Content-Type")) == (200, "text/event-stream")
    assert server.api("alice").send("HEAD", "/tail-events").status == 422
    server.api("alice").post("/tail-events?scope=self").fails(405, "method_not_allowed")


WEBSOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def test_a_websocket_is_refused(live):
    begin = len(live.log)
    with closing(live.connect()) as connection:
        connection.request("GET", f"{PREFIX}/tail-events?scope=self", headers=WEBSOCKET)
        assert connection.getresponse().status in {401, 403}
    assert "Traceback" not in live.log[begin:]

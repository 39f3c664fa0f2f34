"""Other programs follow the live stream: curl, httpx-sse, a browser."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from threading import Timer
from urllib.parse import urlsplit

import httpx
import pytest
from httpx_sse import EventSource, ServerSentEvent, connect_sse

from tests.server import PATIENCE, Server
from tests.waiting import eventually
from tests.web.chromium import chromium, new_page

SCOPE = "/api/v1/tail-events?scope=team:streamed&last_event_id=0"
BEGINNING = ["team-created", "repo-created"]
EVENT_SOURCE = """scope => {
    window.seen = [];
    const stream = new EventSource(scope);
    for (const kind of ["team-created", "repo-created"])
        stream.addEventListener(kind, event => {
            const {id, kind} = JSON.parse(event.data);
            window.seen.push([event.lastEventId, String(id), kind]);
        });
}"""


@pytest.fixture
def server(tmp_path: Path, new_server: Callable[..., Server]) -> Iterator[Server]:
    """A server with two events that can be restarted at the same address."""
    with new_server(tmp_path) as running:
        running.environment["PORT"] = str(urlsplit(running.url).port)
        alice = running.api("alice")
        alice.post("/teams", name="Streamed", slug="streamed").gives(201)
        add_repo(running, "one")
        yield running


def add_repo(server: Server, slug: str) -> None:
    path = "/teams/streamed/repos"
    server.api("alice").post(path, name=slug, slug=slug).gives(201)


def with_data(source: EventSource) -> Iterator[ServerSentEvent]:
    """The frames of the stream, without `retry: 0`, which this reader also returns as a frame."""
    return (frame for frame in source.iter_sse() if frame.data)


def bearer(server: Server) -> dict[str, str]:
    return {"Authorization": f"Bearer {server.token('alice')}"}


@pytest.mark.slow
@pytest.mark.once
def test_curl_follows_the_stream(server):
    [header] = bearer(server).items()
    command = ["curl", "-sSN", "-H", ": ".join(header), f"{server.url}{SCOPE}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as curl:
        late = Timer(PATIENCE, curl.kill)
        late.start()
        assert curl.stdout is not None
        kinds = (line.split()[1] for line in curl.stdout if line.startswith("event: "))
        assert list(islice(kinds, 2)) == BEGINNING
        add_repo(server, "two")
        assert next(kinds) == "repo-created"
        late.cancel()
        curl.kill()


@pytest.mark.slow
@pytest.mark.once
def test_httpx_sse_follows_the_stream_and_comes_back_with_its_last_id(server):
    with httpx.Client(base_url=server.url, headers=bearer(server), timeout=PATIENCE) as client:
        with connect_sse(client, "GET", SCOPE) as source:
            frames = with_data(source)
            received = list(islice(frames, 2))
            assert [frame.event for frame in received] == BEGINNING
            assert [int(frame.id) for frame in received] == [
                frame.json()["id"] for frame in received
            ]
            add_repo(server, "two")
            last = next(frames)
        add_repo(server, "three")
        headers = {"Last-Event-ID": last.id}
        with connect_sse(client, "GET", SCOPE, headers=headers) as source:
            frame = next(with_data(source))
            assert (frame.event, frame.json()["summary"]["api_url"].rpartition("/")[2]) == (
                "repo-created",
                "three",
            )


@pytest.mark.browser
@pytest.mark.once
def test_the_eventsource_of_a_browser_follows_the_stream_and_comes_back_by_itself(server, tmp_path):
    with (
        chromium(tmp_path) as browser,
        new_page(browser, server.url, extra_http_headers=bearer(server)) as page,
    ):
        page.goto("/")
        page.evaluate(EVENT_SOURCE, SCOPE)
        eventually(lambda: len(page.evaluate("window.seen")) == 2)
        server.kill()
        server.start()
        add_repo(server, "two")
        seen = eventually(lambda: (found := page.evaluate("window.seen"))[2:] and found)
    assert [kind for _, _, kind in seen] == [*BEGINNING, "repo-created"]
    assert all(said == event_id for said, event_id, _ in seen)

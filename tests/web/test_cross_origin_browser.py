"""CORS in a real Chromium: a page of another origin calls the API with a token, never a cookie."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Page

from apps.core.slugs import PREFIX
from tests.server import Server
from tests.waiting import eventually
from tests.web.chromium import chromium, new_page
from tests.web.live_site import make_site

pytestmark = [pytest.mark.browser, pytest.mark.once]
CALL = """async ([url, options]) => {
    try {
        const answer = await fetch(url, options);
        const names = ['etag', 'x-request-id', 'access-control-allow-origin'];
        const headers = Object.fromEntries(names.map(name => [name, answer.headers.get(name)]));
        return {status: answer.status, json: await answer.json(), headers};
    } catch (error) {
        return {blocked: error.name};
    }
}"""
"""Returns what a script can read of an answer."""
FIRST_EVENT = """async ([url, options]) => {
    const answer = await fetch(url, options);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!text.includes('event: ')) text += (await reader.read()).value;
    await reader.cancel();
    return text;
}"""


class EmptyPage(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def origin() -> Iterator[str]:
    """A site on this machine at another port, with an empty page."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{site.server_port}"
        finally:
            site.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def sites(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[tuple[Server, Page, Page]]:
    """A server that names one of two origins, and a window of each. In the first, ada is signed in
    to the server: cookies of a host are for all of its ports.
    """
    folder = tmp_path_factory.mktemp("origins")
    with (
        origin() as app,
        origin() as other,
        new_server(folder, CORS_ORIGINS=app, ACCESS_LOG="true") as server,
        chromium(folder) as browser,
        new_page(browser, app, storage_state=make_site(server, browser).signed_in) as ours,
        new_page(browser, other) as theirs,
    ):
        ours.goto("/")
        theirs.goto("/")
        yield server, ours, theirs


def call(server: Server, page: Page, method: str, path: str, **more: Any) -> Any:
    """A request by a script of the page with alice's token."""
    headers = {"Authorization": f"Bearer {server.token('alice')}"}
    headers |= {"Content-Type": "application/json"} if "body" in more else {}
    options = {"method": method, "headers": headers, **more}
    return page.evaluate(CALL, [f"{server.url}{PREFIX}{path}", options])


def test_a_page_of_the_origin_reads_and_writes_with_a_token(sites):
    server, ours, _ = sites
    made = call(server, ours, "POST", "/teams", body='{"name": "Acme", "slug": "acme"}')
    assert made["status"] == 201
    changed = call(server, ours, "PATCH", "/teams/acme", body='{"name": "Umbrella"}')
    assert (changed["status"], changed["json"]["name"]) == (200, "Umbrella")
    read = call(server, ours, "GET", "/teams/acme")
    assert read["headers"]["etag"] and read["headers"]["x-request-id"]
    refused = call(server, ours, "GET", "/teams/nobody")
    assert (refused["status"], refused["json"]["error"]) == (404, "not_found")


def test_a_page_of_the_origin_follows_the_stream(sites):
    server, ours, _ = sites
    server.api("alice").post("/teams", name="Events", slug="events").gives(201)
    url = f"{server.url}{PREFIX}/tail-events?scope=team:events&last_event_id=0"
    headers = {"Authorization": f"Bearer {server.token('alice')}"}
    assert "event: team-created" in ours.evaluate(FIRST_EVENT, [url, {"headers": headers}])


def test_a_page_of_another_origin_is_blocked(sites):
    server, _, theirs = sites
    for method, more in (("GET", {}), ("POST", {"body": '{"name": "No", "slug": "blocked"}'})):
        assert call(server, theirs, method, "/teams", **more) == {"blocked": "TypeError"}
    server.api("alice").get("/teams/blocked").fails(404, "not_found")


@pytest.mark.parametrize("path", ["/users/self", "/tail-events"])
def test_the_cookie_of_a_visitor_is_of_no_use_to_a_page_of_the_origin(sites, path):
    server, ours, _ = sites
    url = f"{server.url}{PREFIX}{path}?scope=self"
    assert "sessionid" in {cookie.get("name") for cookie in ours.context.cookies(url)}
    begin = len(server.log)
    assert ours.evaluate(CALL, [url, {"credentials": "include"}]) == {"blocked": "TypeError"}
    answered = re.compile(rf'- 127.0.0.1 "GET {PREFIX}{path}" \S+ 401 ')
    assert eventually(lambda: answered.search(server.log[begin:]))

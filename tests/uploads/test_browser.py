"""Uploads opened by their address in a real Chromium: pictures are displayed, and nothing is
executed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Error, Page, expect

from tests.server import Server
from tests.uploads.conftest import PNG
from tests.web.chromium import chromium, new_page
from tests.web.page_client import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.once]
SCRIPT = b"<script>document.title = 'ran'; fetch('/ran')</script>"
DOWNLOADED = {
    "a.svg": b'<svg xmlns="http://www.w3.org/2000/svg" onload="fetch(\'/ran\')">'
    + SCRIPT
    + b"</svg>",
    "a.html": b"<!DOCTYPE html><html><body>" + SCRIPT + b"</body></html>",
    "a.xml": b'<x xmlns:h="http://www.w3.org/1999/xhtml"><h:script>fetch("/ran")</h:script></x>',
    "a.pdf": b"%PDF-1.7\n<html>" + SCRIPT,
    "a.js": b"fetch('/ran')",
}
SHOWN = {"a.png": PNG + SCRIPT, "a.gif": b"GIF89a" + b"\x01\0\x01\0\0\0\0;" + SCRIPT}


@pytest.fixture(scope="module")
def shown(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[tuple[Server, Page]]:
    """A server, and a window that sends alice's token with each request."""
    folder = tmp_path_factory.mktemp("uploads")
    with new_server(folder) as server, chromium(folder) as browser:
        headers = {"Authorization": f"Bearer {server.token('alice')}"}
        server.api("alice").post("/users/alice/repos", name="Api", slug="api").gives(201)
        with new_page(browser, server.url, extra_http_headers=headers) as page:
            yield server, page


def url_of(server: Server, name: str, content: bytes) -> str:
    text = base64.b64encode(content).decode()
    path = "/users/alice/repos/api/uploads"
    made = server.api("alice").post(path, filename=name, content_base64=text).gives(201)
    url: str = made["url"]
    return url


def watched(shown: tuple[Server, Page], name: str, content: bytes) -> tuple[Page, str, list[str]]:
    """The window, the address of a new upload, and the requests of the window from now on."""
    server, page = shown
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    return page, url_of(server, name, content), asked


@pytest.mark.parametrize("name", DOWNLOADED)
def test_what_could_run_is_downloaded(shown, name):
    page, url, asked = watched(shown, name, DOWNLOADED[name])
    with page.expect_download() as download, pytest.raises(Error, match="Download is starting"):
        page.goto(url)
    assert download.value.suggested_filename == name
    assert asked == [url]
    assert page.title() != "ran"


@pytest.mark.parametrize("name", SHOWN)
def test_a_picture_is_shown_and_what_is_hidden_in_it_does_not_run(shown, name):
    page, url, asked = watched(shown, name, SHOWN[name])
    page.goto(url)
    assert page.evaluate("document.contentType").startswith("image/")
    assert page.locator("img").count() == 1
    assert page.title() != "ran"
    assert [url for url in asked if "/ran" in url] == []


SHOW = """async address => {
    const picture = new Image();
    picture.src = address;
    await picture.decode().catch(() => {});
    return picture.naturalWidth;
}"""
"""The width of the picture at this address when a page embeds it; 0 if it cannot be loaded."""


def test_a_page_shows_pictures_to_who_is_signed_in_and_to_nobody_else(shown):
    server, page = shown
    url = url_of(server, "own.png", PNG)
    server.run(
        "from apps.accounts.models import User\n"
        "alice = User.objects.get(username='alice')\n"
        f"alice.set_password({PASSWORD!r}); alice.save()"
    )
    with new_page(page.context.browser, server.url) as page:
        page.goto("/signin")
        assert page.evaluate(SHOW, url) == 0
        page.fill("[name=username]", "alice")
        page.fill("[name=password]", PASSWORD)
        page.click("main button")
        expect(page).to_have_url("/")
        assert page.evaluate(SHOW, url) == 1

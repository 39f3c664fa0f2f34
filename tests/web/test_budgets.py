"""What a visit costs: bytes, requests, and nothing that moves while a page loads."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Response

from tests.server import ROOT, Server
from tests.waiting import eventually
from tests.web.chromium import SHIFTS, chromium, new_page
from tests.web.live_site import REPO, Site, make_site

KB = 1024
STATIC = ROOT / "apps/web/static"
PAGES = {"/": 15, f"/{REPO}": 15, f"/{REPO}/pulls/2": 25, f"/{REPO}/threads/1": 25}
"""The KB that the HTML of each family may have, compressed."""
REQUESTS = {"/": 4, f"/{REPO}": 4, f"/{REPO}/pulls/2": 7, f"/{REPO}/threads/1": 7}
"""On a first visit, until it is there: the page, the style, the icon and one script, and three more
where there is a conversation.
"""
LOADED = "performance.getEntriesByType('resource')"
READY = """document.querySelector("[data-keys].ready")
    && (!document.querySelector("[data-live]") || document.querySelector(".live"))"""
"""That all scripts of a page have begun."""


def compressed(*names: str) -> int:
    """The bytes of these files, each compressed by itself, as the server does it."""
    return sum(len(gzip.compress((STATIC / name).read_bytes())) for name in names)


@pytest.mark.once
def test_styles_and_scripts_are_small():
    scripts = [f"js/{path.name}" for path in (STATIC / "js").iterdir()]
    assert compressed("guildhall.css") <= 9 * KB
    assert len(scripts) == 5 and compressed(*scripts) <= 8 * KB


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("budgets")
    with new_server(folder) as server, chromium(folder) as browser:
        made = make_site(server, browser)
        made.thread(50)
        fields = {"title": "P", "body": "", "source_branch": "topic", "target_branch": "main"}
        made.api("ada").post("/users/ada/repos/api/pulls", **fields).gives(201)
        yield made


NOTHING = 0.005
"""A layout shift of less is 0.00: a time of the page that becomes longer may move a line."""


@pytest.mark.browser
@pytest.mark.once
@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390, 320])
@pytest.mark.parametrize("path", PAGES)
def test_a_first_visit_costs_little_and_nothing_moves(site, path, width):
    look: dict[str, Any] = {"viewport": {"width": width, "height": 800}}
    answers: list[Response] = []
    with new_page(site.browser, site.server.url, storage_state=site.signed_in, **look) as page:
        page.add_init_script(SHIFTS)
        page.on("response", lambda one: answers.append(one))
        page.goto(path)
        own = [one for one in answers if "/api/v1/" not in one.url]
        assert len(own) <= REQUESTS[path], [one.url for one in own]
        assert own[0].request.sizes()["responseBodySize"] <= PAGES[path] * KB
        eventually(lambda: page.evaluate(READY))
        shifts = page.evaluate("window.shifts")
        assert sum(value for value, _ in shifts) < NOTHING, shifts


@pytest.mark.browser
@pytest.mark.once
@pytest.mark.slow
def test_files_are_compressed_kept_for_good_and_asked_for_once(site):
    with site.open("/threads/1") as page:
        eventually(lambda: page.evaluate(READY))
        files = [
            name for name in page.evaluate(f"{LOADED}.map(one => one.name)") if "/static/" in name
        ]
        assert len(files) >= 5
        for name in files:
            answer = page.request.get(name)
            assert "immutable" in answer.headers["cache-control"], name
            assert answer.headers["content-encoding"] == "gzip", name
        plain = page.request.get("/static/guildhall.css")
        assert plain.ok and "immutable" not in plain.headers["cache-control"]
        page.goto(f"/{REPO}/threads")
        eventually(lambda: page.evaluate(READY))
        assert page.evaluate(f"{LOADED}.filter(one => one.transferSize).map(one => one.name)") == []

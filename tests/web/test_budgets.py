"""The costs of a page load: bytes, requests, and no layout shift."""

import gzip
import re
from typing import Any

import pytest
from playwright.sync_api import Response

from config.static import SCRIPT, joined
from tests.server import ROOT
from tests.waiting import eventually
from tests.web.chromium import BROWSERS, SHIFTS, new_page
from tests.web.live_site import OF_REPO, REPO, Site, site

__all__ = ["site"]
BROWSER = {"names": BROWSERS}
KB = 1024
STATIC = ROOT / "apps/web/static"
PAGES = {"/": 15, f"/{REPO}": 15, f"/{REPO}/pulls/2": 25, f"/{REPO}/threads/1": 25}
"""KB of compressed HTML allowed for each family of pages."""
TALL = 4000
"""Height in CSS pixels: shifts below the window would not be recorded."""
REQUESTS = 4
"""Requests of a first visit: the page, the style, the script and the icon."""
WHOLE = 50
"""KB allowed for all of them, with headers."""
LOADED = "performance.getEntriesByType('resource')"
READY = """document.querySelector("[data-keys].ready")
    && (!document.querySelector("[data-live]") || document.querySelector(".live"))"""
"""Whether all scripts of a page have started."""


def read(name: str) -> str:
    return (STATIC / name).read_text()


def compressed(text: str) -> int:
    """The size of a file in bytes, as the server compresses it."""
    return len(gzip.compress(text.encode()))


@pytest.mark.once
def test_styles_and_scripts_are_small():
    assert compressed(read("guildhall.css")) <= 9 * KB
    assert compressed(joined(SCRIPT, read, set())) <= 8.25 * KB
    assert compressed(read("review.js")) <= 4 * KB


@pytest.mark.once
def test_the_script_is_all_scripts_in_one_that_share_no_name():
    whole = joined(SCRIPT, read, set())
    declared = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", whole, re.MULTILINE)
    assert len(declared) > 50 and len(declared) == len(set(declared))
    assert not re.search(r"^(import|export)|\bimport\(", whole, re.MULTILINE)
    for path in (STATIC / "js").iterdir():
        lines = [one for one in path.read_text().splitlines() if not one.startswith("import ")]
        assert "\n".join(lines).replace("\nexport ", "\n") in whole, path.name


@pytest.fixture(scope="module")
def filled(site: Site) -> Site:
    """The site with a thread and a pull."""
    site.thread(50)
    fields = {"title": "P", "body": "", "source_branch": "topic", "target_branch": "main"}
    site.api("ada").post(f"{OF_REPO}/pulls", **fields).gives(201)
    return site


@pytest.mark.browser
@pytest.mark.once
@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390, 320])
@pytest.mark.parametrize("path", PAGES)
def test_a_first_visit_costs_little_and_nothing_moves(filled, path, width):
    options: dict[str, Any] = {"storage_state": filled.signed_in}
    options["viewport"] = {"width": width, "height": TALL}
    answers: list[Response] = []
    with new_page(filled.browser, filled.server.url, **options) as page:
        page.add_init_script(SHIFTS)
        page.on("response", lambda one: answers.append(one))
        page.goto(path)
        eventually(lambda: page.evaluate(READY))
        assert page.evaluate("window.shifts") == []
        assert all(one.url.startswith(f"{filled.server.url}/") for one in answers)
        own = [one for one in answers if "/api/v1/" not in one.url]
        assert len(own) <= REQUESTS, [one.url for one in own]
        sizes = [one.request.sizes() for one in own]
        assert sizes[0]["responseBodySize"] <= PAGES[path] * KB
        whole = sum(one["responseBodySize"] + one["responseHeadersSize"] for one in sizes)
        assert whole < WHOLE * KB


@pytest.mark.browser
@pytest.mark.once
@pytest.mark.slow
def test_files_are_compressed_kept_for_good_and_asked_for_once(filled):
    with filled.open("/threads/1") as page:
        eventually(lambda: page.evaluate(READY))
        loaded = page.evaluate(f"{LOADED}.map(one => one.name)")
        files = [name for name in loaded if "/static/" in name]
        assert len(files) == REQUESTS - 1
        for name in files:
            answer = page.request.get(name)
            assert "immutable" in answer.headers["cache-control"], name
            assert answer.headers["content-encoding"] == "gzip", name
        plain = page.request.get("/static/guildhall.css")
        assert plain.ok and "immutable" not in plain.headers["cache-control"]
        page.goto(f"/{REPO}/threads")
        eventually(lambda: page.evaluate(READY))
        assert page.evaluate(f"{LOADED}.filter(one => one.transferSize).map(one => one.name)") == []

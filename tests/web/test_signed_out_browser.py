"""After signing out, in a real Chromium: Back shows nothing private."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.server import Server
from tests.web.chromium import BROWSERS, chromium, new_page
from tests.web.live_site import Site, make_site, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.once]

KEEPS_NO_PAGES = ["--disable-back-forward-cache"]
"""Playwright's browsers load a page again on Back; the browsers of people have stored it."""


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("signed-out")
    with (
        new_server(folder) as server,
        chromium(folder, BROWSERS, without=KEEPS_NO_PAGES) as browser,
    ):
        yield make_site(server, browser)


def test_going_back_after_signing_out_shows_no_private_page(site):
    api, thread = site.api("ada"), {"title": "Hidden plan", "body": "text", "kind": "issue"}
    fields = {"name": "Plans", "slug": "plans", "visibility": "private"}
    api.post("/users/ada/repos", **fields).gives(201)
    api.post("/users/ada/repos/plans/threads", **thread).gives(201)
    with new_page(site.browser, site.server.url) as page:
        sign_in(page)
        page.goto("/users/ada/plans/threads")
        expect(page.locator("body")).to_contain_text("Hidden plan")
        page.goto("/")
        page.evaluate("document.querySelector('form[action=\"/signout\"]').submit()")
        expect(page.get_by_role("link", name="Sign in").first).to_be_visible()
        page.evaluate("history.go(-2)")
        expect(page).to_have_url("/signin?next=/users/ada/plans/threads")
        expect(page.locator("body")).not_to_contain_text("Hidden plan")

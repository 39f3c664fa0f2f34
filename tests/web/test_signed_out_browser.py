"""Signed out, in a real Chromium: the link in mail about pings, and Back after signing out."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.server import PATIENCE
from tests.web.chromium import BROWSERS, complaints, new_page, violations
from tests.web.live_site import Site, sign_in, site

pytestmark = [pytest.mark.browser, pytest.mark.once]
__all__ = ["site"]
BROWSER = {"names": BROWSERS, "without": ["--disable-back-forward-cache"]}
"""Playwright's browsers load a page again on Back; the browsers of people have stored it."""


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


PROOF = """
from apps.accounts.models import User
from apps.accounts.proofs import unsubscribe_proof

User.objects.filter(username="ada").update(wants_mail=True)
print(unsubscribe_proof(User.objects.get(username="ada")))
"""
WANTS = "SELECT wants_mail FROM accounts_user WHERE username = 'ada'"


@pytest.fixture
def link(site: Site) -> str:
    """The link in ada's mails about pings, which are turned on."""
    return f"/unsubscribe?{urlencode({'token': site.server.run(PROOF).strip()})}"


@pytest.fixture
def wants(site: Site) -> Callable[[], bool]:
    def read() -> Any:
        with closing(sqlite3.connect(site.server.file, timeout=PATIENCE)) as database:
            return database.execute(WANTS).fetchone() == (1,)

    return read


@pytest.mark.parametrize("script", [True, False])
def test_opening_the_link_changes_nothing_and_its_button_ends_the_mail(site, link, wants, script):
    """Virus scanners open the links in mail, and run the scripts of their pages."""
    with new_page(site.browser, site.server.url, java_script_enabled=script) as page:
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.method))
        for _ in range(2):
            page.goto(link)
            page.wait_for_load_state("networkidle")
        assert set(sent) == {"GET"} and wants()
        assert page.locator("h1").inner_text() == "E-mail about pings"
        if script:
            assert not violations(page, ["wcag2a", "wcag2aa"])
        page.get_by_role("button", name="Unsubscribe").click()
        expect(page.locator("h1")).to_have_text("You will get no more e-mail about pings")
        assert not wants()
        assert complaints(page) == []
        assert page.context.cookies() == []


def test_a_provider_ends_it_with_the_one_request_of_rfc_8058(site, link, wants):
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": "https://mail.example.org",
        "Sec-Fetch-Site": "cross-site",
    }
    with closing(site.server.connect()) as connection:
        connection.request("GET", link)
        assert connection.getresponse().read() and wants()
    with closing(site.server.connect()) as connection:
        connection.request("POST", link, "List-Unsubscribe=One-Click", headers)
        assert connection.getresponse().status == 200
    assert not wants()

"""The link in each mail about pings, in a real Chromium that is not signed in."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, expect

from tests.server import PATIENCE, Server
from tests.web.chromium import chromium, complaints, new_page, violations

pytestmark = [pytest.mark.browser, pytest.mark.once]
PROOF = """
from apps.accounts.models import User
from apps.accounts.proofs import unsubscribe_proof

print(unsubscribe_proof(User.objects.get(username="alice")))
"""
WANTING = "UPDATE accounts_user SET wants_mail = 1 WHERE username = 'alice'"
WANTS = "SELECT wants_mail FROM accounts_user WHERE username = 'alice'"


@dataclass(frozen=True)
class Site:
    server: Server
    browser: Browser
    link: str
    """The link in alice's mails."""

    def sql(self, query: str) -> Any:
        """The single value of a query on SQLite."""
        with closing(sqlite3.connect(self.server.file, timeout=PATIENCE)) as database, database:
            return database.execute(query).fetchone()


@pytest.fixture(scope="module")
def of_module(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("unsubscribe")
    with new_server(folder) as server, chromium(folder) as browser:
        link = f"/unsubscribe?{urlencode({'token': server.run(PROOF).strip()})}"
        yield Site(server, browser, link)


@pytest.fixture
def site(of_module: Site) -> Site:
    """The site, with alice's mail about pings turned on again."""
    of_module.sql(WANTING)
    return of_module


@pytest.fixture
def link(site: Site) -> str:
    return site.link


@pytest.fixture
def wants(site: Site) -> Callable[[], bool]:
    return lambda: site.sql(WANTS) == (1,)


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

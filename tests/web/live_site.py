"""A server with a repository and a browser, for tests of scripts in open pages."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.server import Remote, Server
from tests.web.chromium import chromium, new_page
from tests.web.page_client import PASSWORD

DATA = f"""
import json
from apps.accounts.access import access_to_user
from apps.accounts.actions import create_token, create_user
from apps.accounts.principal import Principal
from apps.repos.actions import create_repo
from apps.site.models import SiteSettings

SiteSettings.load()
SiteSettings.objects.update(rate_limits_enabled=False)
people = {{
    name: create_user(principal=None, username=name, password={PASSWORD!r})
    for name in ("ada", "ben")
}}
space = access_to_user(Principal(people["ada"]), people["ada"])
create_repo(access=space, name="Api", slug="api", visibility="public")
print(json.dumps({{
    name: create_token(principal=None, owner=person, name="t")[1] for name, person in people.items()
}}))
"""
REPO = "users/ada/api"
OF_REPO = "/users/ada/repos/api"


@dataclass
class Site:
    server: Server
    browser: Browser
    signed_in: StorageState
    """The cookies of ada, who is signed in."""

    def api(self, name: str) -> Remote:
        return self.server.api(name)

    def thread(self, replies: int = 0) -> int:
        """The number of a new thread by ada with this many replies by ben."""
        fields = {"title": "Live", "body": "text", "kind": "issue"}
        made = self.api("ada").post(f"{OF_REPO}/threads", **fields).gives(201)
        for _ in range(replies):
            self.reply(made["number"])
        return int(made["number"])

    def reply(self, thread: int, body: str = "Something.", **fields: Any) -> int:
        """The number of a new reply by ben."""
        path = f"{OF_REPO}/threads/{thread}/replies"
        made = self.api("ben").post(path, kind="comment", body=body, **fields).gives(201)
        return int(made["number"])

    @contextmanager
    def away(self) -> Iterator[None]:
        """Stop the server for the block; afterwards it runs again at the same address."""
        self.server.kill()
        self.server.environment["PORT"] = self.server.url.rpartition(":")[2]
        try:
            yield
        finally:
            self.server.start()

    @contextmanager
    def open(self, path: str, **options: Any) -> Iterator[Page]:
        """A window of ada's with a page of the repository."""
        options = {"storage_state": self.signed_in, **options}
        with new_page(self.browser, self.server.url, **options) as page:
            page.goto(f"/{REPO}{path}")
            yield page

    @contextmanager
    def live(self, replies: int = 1) -> Iterator[tuple[Page, int]]:
        """A window of ada's with a new thread, whose page is live, and the number of the thread."""
        number = self.thread(replies)
        with self.open(f"/threads/{number}") as page:
            expect_live(page)
            yield page, number


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    new_server: Callable[..., Server],
) -> Iterator[Site]:
    """A site for all tests of a module; its `BROWSER` has keywords for `chromium`."""
    folder = tmp_path_factory.mktemp("site")
    options: dict[str, Any] = getattr(request.module, "BROWSER", {})
    with new_server(folder) as server, chromium(folder, **options) as browser:
        yield make_site(server, browser)


def make_site(server: Server, browser: Browser) -> Site:
    """People, a repository, and a browser in which ada is signed in."""
    server.tokens.update(json.loads(server.run(DATA)))
    with new_page(browser, server.url) as page:
        sign_in(page)
        return Site(server, browser, page.context.storage_state())


def sign_in(page: Page, username: str = "ada") -> None:
    page.goto("/signin")
    page.fill("[name=username]", username)
    page.fill("[name=password]", PASSWORD)
    page.click("main button")
    expect(page).to_have_url("/")


def expect_live(page: Page) -> None:
    expect(page.locator(".live")).to_have_text("Live")

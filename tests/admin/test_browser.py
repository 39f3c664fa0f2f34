"""The admin in a real Chromium: accessibility by axe, and the Content-Security-Policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.server import Server
from tests.web.chromium import BROWSERS, chromium, complaints, new_page, resize, violations
from tests.web.page_client import PASSWORD
from tests.web.test_browser import TAGS

pytestmark = [pytest.mark.browser, pytest.mark.once]
SAM = f"""
from apps.accounts.models import User
sam = User.objects.get(username="sam")
sam.set_password({PASSWORD!r})
sam.save()
"""
PATHS = ["/admin/", "/admin/site/ratelimit/", "/admin/site/sitesettings/1/change/"]
PATHS += ["/admin/accounts/user/", "/admin/accounts/apitoken/add/", "/admin/events/event/"]
PATHS += [
    "/admin/overview/",
    "/admin/accounts/user/1/change/",
    "/admin/accounts/user/1/deactivate/",
    "/admin/offboard/1/",
]
WCAG = [tag for tag in TAGS if tag.startswith("wcag")]


@pytest.fixture(scope="module")
def page(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[Page]:
    """A browser window in which sam has signed in, with a server of its own."""
    folder = tmp_path_factory.mktemp("admin")
    with new_server(folder) as server, chromium(folder, BROWSERS) as browser:
        server.run(SAM)
        with new_page(browser, server.url) as page:
            page.goto("/signin?next=/admin/")
            page.fill("[name=username]", "sam")
            page.fill("[name=password]", PASSWORD)
            page.click("main button.primary")
            expect(page.locator("h1")).to_have_text("Administration")
            yield page


@pytest.mark.parametrize("look", [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_nothing_and_nothing_is_blocked(page, path, look):
    resize(page, look)
    page.goto(path)
    expect(page.locator("h1").first).to_be_attached()
    assert not violations(page, WCAG)
    assert not complaints(page)


LINES = """[...document.querySelectorAll("td.field-joined")].map(cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getClientRects().length;
})"""


@pytest.mark.parametrize("width", [1280, 390])
def test_the_time_when_somebody_joined_is_one_line(page, width):
    resize(page, (width, "light"))
    page.goto("/admin/accounts/user/")
    page.evaluate("document.querySelector('td.field-display_name').textContent = 'W'.repeat(100)")
    lines = page.evaluate(LINES)
    assert lines and {*lines} == {1}


def test_a_wide_window_shows_all_columns_of_the_users(page):
    resize(page, (1280, "light"))
    page.goto("/admin/accounts/user/")
    for column, text in (("username", "a" * 39), ("email", f"{'a' * 60}@example.org")):
        page.locator(f".field-{column}").first.evaluate(f"cell => cell.textContent = '{text}'")
    overflow = "list => list.scrollWidth - list.clientWidth"
    assert page.locator(".results").evaluate(overflow) == 0


def test_a_token_is_copied_by_a_button(page):
    page.goto("/admin/accounts/apitoken/add/?username=sam")
    page.fill("[name=name]", "laptop")
    page.click("[name=_save]")
    button = page.locator("input.secret + button")
    button.click()
    expect(button).to_have_text("Copied")

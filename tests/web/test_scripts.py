"""The scripts of pages in a real Chromium: drafts that survive failures, shortcuts that can be
switched off, and times that stay current.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Error, Page, expect

from apps.web.templatetags.guildhall import words
from tests.server import Server
from tests.waiting import eventually
from tests.web.chromium import chromium, complaints
from tests.web.live_site import Site, make_site, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.once, pytest.mark.slow]
TEXT = "A long thought, which nobody wants to write twice."
KEPT = "Object.keys(localStorage).filter(key => key.startsWith('draft')).length"
OTHERS = """() => {
    for (const key of Object.keys(localStorage)) {
        localStorage.setItem(key.replace(/^draft \\S+/, "draft another"), "Not yours.");
        localStorage.removeItem(key);
    }
}"""
REFUSES = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('refused'); }})"
WORDS = """async ([now, ...moments]) => {
    const { words } = await import("/static/js/times.js");
    return [now, ...moments].map(one => words(new Date(one), new Date(now)));
}"""


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("scripts")
    with new_server(folder) as server, chromium(folder) as browser:
        yield make_site(server, browser)


def write(page: Page) -> None:
    """Write a reply, and wait until the browser has stored it."""
    page.fill("[name=body]", TEXT)
    eventually(lambda: page.evaluate(KEPT) == 1)


def send(page: Page) -> None:
    page.locator("form[aria-labelledby=say] button.primary").click()


def expect_text(page: Page, text: str = TEXT) -> None:
    expect(page.locator("form[aria-labelledby=say] textarea")).to_have_value(text)


def test_a_text_outlives_an_old_page_a_lost_session_and_a_server_that_is_away(site):
    path = f"/threads/{site.thread()}"
    with site.open(path) as page:
        address = page.url
        write(page)
        page.context.clear_cookies(name="csrftoken")
        send(page)
        expect(page.get_by_role("alert")).to_contain_text("Your page was out of date")
        expect_text(page)
        page.goto(address)
        expect_text(page)
        page.context.clear_cookies(name="sessionid")
        send(page)
        expect(page.locator("h1")).to_have_text("You are signed out")
        expect(page.locator("main")).to_contain_text(TEXT)
        sign_in(page)
        page.goto(address)
        expect_text(page)
        with site.away(), suppress(Error):
            send(page)
            page.wait_for_url("chrome-error://**")
        page.goto(address)
        expect_text(page)
        assert page.evaluate(KEPT) == 1
        send(page)
        expect(page.locator("#reply-1 .prose")).to_have_text(TEXT)
        expect_text(page, "")
        eventually(lambda: page.evaluate(KEPT) == 0)
        page.goto(address)
        expect_text(page, "")


def test_a_draft_is_for_who_wrote_it(site):
    path = f"/threads/{site.thread()}"
    with site.open(path) as page:
        write(page)
        page.reload()
        expect_text(page)
        page.evaluate(OTHERS)
        page.reload()
        ready(page)
        expect_text(page, "")


def ready(page: Page) -> None:
    """Wait until the script handles keys."""
    expect(page.get_by_role("button", name="Keyboard")).to_have_class("plain ready")


def test_where_the_browser_keeps_nothing_keys_and_new_replies_work_all_the_same(site):
    number = site.thread()
    with site.open("/threads") as page:
        page.add_init_script(REFUSES)
        page.goto(page.url + f"/{number}")
        ready(page)
        site.reply(number)
        expect(page.locator("#reply-1 .prose")).to_have_text("Something.")
        dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
        page.get_by_role("button", name="Keyboard").click()
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        expect(dialog).to_be_visible()
        expect(dialog.get_by_role("button")).to_have_text(["Close"])


def test_single_keys_lead_through_pages_but_not_from_fields(site):
    with site.open(f"/threads/{site.thread(3)}") as page:
        ready(page)
        for key, row in (("j", "reply-1"), ("j", "reply-2"), ("k", "reply-1")):
            page.keyboard.press(key)
            expect(page.locator(f"#{row}")).to_be_focused()
        page.keyboard.press("r")
        expect(page.locator("#say")).to_have_text("Reply to reply 1")
        field = page.locator("form[aria-labelledby=say] textarea")
        expect(field).to_be_focused()
        page.keyboard.type("gh?jr")
        expect(field).to_have_value("gh?jr")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#reply-4 .prose")).to_have_text("gh?jr")
        ready(page)
        page.keyboard.press("Control+g")
        page.keyboard.press("Alt+h")
        page.keyboard.press("g")
        page.keyboard.press("h")
        expect(page).to_have_url("/")
        assert complaints(page) == []


def test_keys_are_switched_off_in_their_list_and_by_the_account(site):
    with site.open("/threads") as page:
        ready(page)
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
        expect(dialog).to_be_visible()
        page.set_viewport_size({"width": 320, "height": 800})
        assert dialog.evaluate("one => one.scrollWidth - one.clientWidth") == 0
        dialog.get_by_role("button", name="Switch single keys off").click()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        page.reload()
        ready(page)
        page.keyboard.press("?")
        page.get_by_role("button", name="Keyboard").click()
        dialog.get_by_role("button", name="Switch single keys on").click()
        dialog.get_by_role("button", name="Close").click()
        page.keyboard.press("?")
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        page.evaluate("document.documentElement.dataset.shortcuts = 'off'")
        page.keyboard.press("?")
        page.keyboard.press("g")
        page.keyboard.press("h")
        expect(dialog).to_be_hidden()
        assert page.url.endswith("/threads")


def test_times_are_said_in_the_words_of_the_server(site):
    now = dt.datetime(2026, 3, 1, 12, 30, 15, tzinfo=dt.UTC)
    away = [1, 29, 59, 60, 61, 3599, 3600, 7300, 86399, 86400, 6 * 86400, 7 * 86400 - 1]
    away += [7 * 86400, 40 * 86400, 80 * 86400, 400 * 86400]
    moments = [now + sign * dt.timedelta(seconds=one) for one in away for sign in (-1, 1)]
    stamps = [int(one.timestamp() * 1000) for one in [now, *moments]]
    with site.open("/threads", timezone_id="Pacific/Auckland", locale="de-DE") as page:
        ready(page)
        said = page.evaluate(WORDS, stamps)
    assert said == [words(one, now) for one in [now, *moments]]

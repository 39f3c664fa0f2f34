"""Live updates in a real Chromium: each row once, in its place, without moving others; few streams;
and recovery after every kind of failure.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Page, expect

from apps.events.hub import STREAMS_PER_USER
from tests.server import Server
from tests.tail import follow
from tests.waiting import eventually
from tests.web.chromium import chromium, complaints, new_page
from tests.web.live_site import OF_REPO, REPO, Site, expect_live, make_site, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.once, pytest.mark.slow]
HIDE = """state => {
    Object.defineProperty(document, "visibilityState", {get: () => state, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
"""A browser without windows never hides a page by itself."""
ROWS = "[...document.querySelectorAll('.replies > li')].map(row => row.id)"
SEEN = "[scrollY, document.activeElement.tagName, document.activeElement.id]"


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("live")
    with new_server(folder) as server, chromium(folder) as browser:
        yield make_site(server, browser)


def rows(page: Page) -> list[str]:
    found: list[str] = page.evaluate(ROWS)
    return found


def expect_rows(page: Page, *numbers: int) -> None:
    expect(page.locator(".replies > li")).to_have_count(len(numbers))
    assert rows(page) == [f"reply-{number}" for number in numbers]


def has_seen_all(page: Page) -> bool:
    """Follow the pill as long as there is one; returns whether it is gone."""
    if not page.locator(".pill").count():
        return True
    page.click(".pill")
    return False


def test_a_reply_arrives_once_at_its_place_and_moves_nothing(site):
    number = site.thread(12)
    with site.open(f"/threads/{number}") as page:
        expect_live(page)
        page.evaluate("scrollTo(0, 200)")
        page.locator("#reply-3 .acts a").first.focus(timeout=1000)
        before = page.evaluate(SEEN)
        site.reply(number, "Under the third.", parent_reply_number=3)
        expect(page.locator("#reply-13 .prose")).to_have_text("Under the third.")
        site.reply(number, "Below it.", parent_reply_number=13)
        site.reply(number, "Under the third again.", parent_reply_number=3)
        site.reply(number, "At the end.")
        expect_rows(page, 1, 2, 3, 13, 14, 15, *range(4, 13), 16)
        assert page.locator("#reply-14").get_attribute("class").split()[0] == "d2"
        assert page.evaluate(SEEN) == before
        expect(page.locator(".pill")).to_have_text(re.compile("1 new reply|new replies"))
        expect(page.get_by_role("status")).to_have_text(re.compile("new replies|New reply by ben"))
        eventually(lambda: has_seen_all(page))
        for new in (13, 14, 15, 16):
            row = page.locator(f"#reply-{new}")
            row.scroll_into_view_if_needed()
            expect(row).not_to_contain_class("fresh")
        assert complaints(page) == []


def test_the_first_reply_an_edit_and_a_deletion_arrive(site):
    number = site.thread()
    path = f"{OF_REPO}/threads/{number}/replies"
    with site.open(f"/threads/{number}") as page:
        expect_live(page)
        site.reply(number, "First.")
        expect_rows(page, 1)
        expect(page.locator(".empty")).to_have_count(0)
        site.api("ben").patch(f"{path}/1", body="Edited.").gives()
        expect(page.locator("#reply-1 .prose")).to_have_text("Edited.")
        own = site.api("ada").post(path, kind="comment", body="Own.", parent_reply_number=1)
        own.gives(201)
        expect_rows(page, 1, 2)
        site.api("ben").delete(f"{path}/1").gives(204)
        expect(page.locator("#reply-1")).to_contain_text("Reply 1 was deleted")
        site.api("ada").delete(f"{path}/2").gives(204)
        expect_rows(page)


def test_what_came_while_a_page_was_hidden_comes_when_it_is_seen_and_none_twice(site):
    number = site.thread(2)
    with site.open(f"/threads/{number}") as page:
        expect_live(page)
        page.evaluate(HIDE, "hidden")
        for _ in range(20):
            site.reply(number)
        expect_rows(page, 1, 2)
        page.evaluate(HIDE, "visible")
        expect_rows(page, *range(1, 23))
        page.evaluate(HIDE, "hidden")
        page.evaluate(HIDE, "visible")
        site.reply(number)
        expect_rows(page, *range(1, 24))


def test_a_paused_page_gets_nothing_until_it_goes_on(site):
    number = site.thread(1)
    with site.open(f"/threads/{number}") as page, site.open(f"/threads/{number}") as other:
        for one in (page, other):
            expect_live(one)
        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".live")).to_have_text("Paused")
        site.reply(number)
        expect_rows(other, 1, 2)
        assert rows(page) == ["reply-1"]
        page.get_by_role("button", name="Resume").click()
        expect_rows(page, 1, 2)


def open_streams(server: Server) -> int:
    """The number of open streams of ada: the limit less those that she can still open."""
    with ExitStack() as more:
        for number in range(STREAMS_PER_USER + 1):
            if more.enter_context(follow(server, "ada", "scope=self")).status == 429:
                return STREAMS_PER_USER - number
    raise AssertionError("there is no limit")


def test_many_tabs_have_four_streams(site):
    number = site.thread(1)
    with ExitStack() as open_now:
        first = open_now.enter_context(site.open(f"/threads/{number}"))
        tabs = [first, *(first.context.new_page() for _ in range(8))]
        for tab in tabs[1:]:
            tab.goto(f"/{REPO}/threads/{number}")
            expect(tab.locator(".live")).to_be_visible()
        live = eventually(lambda: live_ones(tabs) if len(live_ones(tabs)) == 4 else None)
        assert live and open_streams(site.server) == 4
        site.reply(number)
        for tab in live:
            expect_rows(tab, 1, 2)
        for tab in live[:2]:
            tabs.remove(tab)
            tab.close()
        eventually(lambda: len(live_ones(tabs)) == 4)
        waiting = next(tab for tab in tabs if tab not in live and tab in live_ones(tabs))
        expect_rows(waiting, 1, 2)


def live_ones(tabs: list[Page]) -> list[Page]:
    return [tab for tab in tabs if tab.locator(".live").inner_text() == "Live"]


def test_a_pull_says_anew_whether_it_can_be_merged(site):
    fields = {"title": "P", "body": "", "source_branch": "topic", "target_branch": "main"}
    number = site.api("ada").post(f"{OF_REPO}/pulls", **fields).gives(201)["number"]
    thread = site.thread()
    with site.open(f"/pulls/{number}") as page:
        expect_live(page)
        page.locator("#verdict").evaluate("heading => heading.dataset.old = 'yes'")
        site.reply(thread)
        changed = {"title": "P", "body": ""}
        site.api("ada").put(f"{OF_REPO}/pulls/{number}", status="draft", **changed).gives()
        expect(page.locator(".verdict")).to_contain_text(f"Not met: Pull {number} is a draft")
        expect(page.locator("#verdict[data-old]")).to_have_count(0)
        expect(page.locator(".byline .state").first).to_have_text("Draft")
        expect(page.locator(".replies > li")).to_have_count(1)
        expect(page.locator(".replies")).to_contain_text("ada made a draft of")
        expect(page.locator(".replies p p")).to_have_count(0)
        site.reply(number, "In the conversation.")
        expect(page.locator("#reply-1")).to_be_visible()
        assert complaints(page) == []


def test_a_page_asks_rarely_for_a_server_that_is_away_and_goes_on(site):
    number = site.thread(1)
    with site.open(f"/threads/{number}") as page:
        expect_live(page)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        with site.away():
            expect(page.locator(".live")).to_have_text("Reconnecting")
            assert 2 <= len(asked) <= 5
        expect_live(page)
        site.reply(number)
        expect_rows(page, 1, 2)


def test_a_page_that_may_read_no_more_says_so_and_asks_no_more(site):
    number = site.thread(1)
    with site.open(f"/threads/{number}") as page:
        expect_live(page)
        page.context.clear_cookies(name="sessionid")
        page.evaluate(HIDE, "hidden")
        page.evaluate(HIDE, "visible")
        expect(page.get_by_role("link", name="Reload to go on")).to_be_visible()
        expect(page.get_by_role("button", name="Pause")).to_have_count(0)


def test_signing_out_ends_the_streams_of_other_tabs_at_once(site):
    number = site.thread(1)
    with new_page(site.browser, site.server.url) as page:  # a session of its own
        sign_in(page)
        page.clock.install()
        page.goto(f"/{REPO}/threads/{number}")
        expect_live(page)
        soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=10)
        page.clock.pause_at(soon)  # the server ends it, and the page must not ask by itself
        other = page.context.new_page()
        other.goto("/")
        other.locator(".menu summary").click()
        other.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("link", name="Reload to go on")).to_be_visible()


@pytest.mark.parametrize("path", ["/", "/activity", f"/{REPO}/activity"])
def test_what_happens_arrives_once_in_each_list_of_activity(site, path):
    number = site.thread(1)
    with site.open("") as page:
        page.goto(path)
        expect_live(page)
        list_of = page.locator("[data-live] > li")
        before = list_of.first.get_attribute("id")
        reply = site.reply(number)
        expect(list_of.first).not_to_have_attribute("id", before or "")
        expect(list_of.first).to_contain_text("ben")
        assert list_of.nth(1).get_attribute("id") == before and reply == 2
        assert complaints(page) == []


def test_reply_moves_the_form_below_what_is_answered(site):
    number = site.thread(3)
    with site.open(f"/threads/{number}") as page:
        page.fill("textarea[name=body]", "Said before.")
        page.locator("#reply-2 .acts a").first.click()
        expect(page.locator("#reply-2 + li textarea")).to_be_focused()
        expect(page.locator("#say")).to_have_text("Reply to reply 2")
        page.locator("#reply-1 .acts a").first.click()
        expect(page.locator("#reply-1 + li textarea")).to_have_value("Said before.")
        expect(page.locator("#reply-2 + #reply-3")).to_have_count(1)
        page.get_by_role("button", name="Reply", exact=True).click()
        expect(page.locator("#reply-1 + #reply-4 .prose")).to_have_text("Said before.")
        expect(page.locator("textarea[name=body]")).to_have_value("")
        assert complaints(page) == []


def test_a_tab_without_a_stream_looks_at_its_page(site):
    number = site.thread(1)
    with site.open(f"/threads/{number}") as page:
        others = [page.context.new_page() for _ in range(3)]
        for other in others:
            other.goto(page.url)
        for tab in (page, *others):
            expect_live(tab)
        waiting = page.context.new_page()
        waiting.clock.install()
        waiting.goto(page.url)
        expect(waiting.locator(".live")).to_have_text("Every 30 seconds")
        site.reply(number)
        expect_rows(page, 1, 2)
        assert rows(waiting) == ["reply-1"]
        waiting.clock.fast_forward(30_000)
        expect_rows(waiting, 1, 2)

"""Scripts in a real Chromium: live updates, drafts that survive failures, shortcuts, and times."""

import datetime as dt
import re
from contextlib import ExitStack, suppress

import pytest
from playwright.sync_api import Error, Page, expect

from apps.events.hub import STREAMS_PER_USER
from apps.web.templatetags.guildhall import words
from tests.server import Server
from tests.tail import follow
from tests.waiting import eventually
from tests.web.chromium import complaints, new_page
from tests.web.live_site import OF_REPO, REPO, expect_live, sign_in, site

pytestmark = [pytest.mark.browser, pytest.mark.once, pytest.mark.slow]
__all__ = ["site"]
HIDE = """state => {
    Object.defineProperty(document, "visibilityState", {get: () => state, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
"""A browser without windows never hides a page by itself."""
ROWS = "[...document.querySelectorAll('.replies > li')].map(row => row.id)"
SEEN = "[scrollY, document.activeElement.tagName, document.activeElement.id]"


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
    with site.live(12) as (page, number):
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
    with site.live(0) as (page, number):
        path = f"{OF_REPO}/threads/{number}/replies"
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
    with site.live(2) as (page, number):
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
    with site.live() as (page, number), site.open(f"/threads/{number}") as other:
        expect_live(other)
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
        page.get_by_text("Message of the commit").click()
        page.get_by_label("Message (optional)").fill("Mine")
        page.get_by_label("Delete the branch afterwards").check()
        page.locator("h1").click()  # the part is replaced once the focus has left it
        site.reply(thread)
        changed = {"title": "P", "body": ""}
        site.api("ada").put(f"{OF_REPO}/pulls/{number}", status="draft", **changed).gives()
        expect(page.locator(".verdict")).to_contain_text(f"Not met: Pull {number} is a draft")
        expect(page.locator("#verdict[data-old]")).to_have_count(0)
        expect(page.locator(".byline .state").first).to_have_text("Draft")
        expect(page.get_by_label("Message (optional)")).to_have_value("Mine")
        expect(page.get_by_label("Delete the branch afterwards")).to_be_checked()
        expect(page.locator(".replies > li")).to_have_count(1)
        expect(page.locator(".replies")).to_contain_text("ada made a draft of")
        expect(page.locator(".replies p p")).to_have_count(0)
        site.reply(number, "In the conversation.")
        expect(page.locator("#reply-1")).to_be_visible()
        assert complaints(page) == []


def test_a_page_asks_rarely_for_a_server_that_is_away_and_goes_on(site):
    with site.live() as (page, number):
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        with site.away():
            expect(page.locator(".live")).to_have_text("Reconnecting")
            assert 2 <= len(asked) <= 5
        expect_live(page)
        site.reply(number)
        expect_rows(page, 1, 2)


def test_a_page_that_may_read_no_more_says_so_and_asks_no_more(site):
    with site.live() as (page, _):
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


def test_a_text_of_a_review_is_kept_until_the_review_is_accepted(site):
    fields = {"title": "P", "body": "", "source_branch": "topic", "target_branch": "main"}
    number = site.api("ada").post(f"{OF_REPO}/pulls", **fields).gives(201)["number"]
    with site.open(f"/pulls/{number}") as page:
        address = page.url
        write(page)
        page.context.clear_cookies(name="csrftoken")
        page.get_by_role("button", name="Request changes").click()
        expect(page.locator("h1")).to_have_text("Please send it again")
        page.goto(address)
        expect_text(page)
        assert page.evaluate(KEPT) == 1
        page.get_by_role("button", name="Request changes").click()
        expect(page.get_by_role("article").filter(has_text=TEXT)).to_contain_text("requested")
        expect_text(page, "")
        eventually(lambda: page.evaluate(KEPT) == 0)


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

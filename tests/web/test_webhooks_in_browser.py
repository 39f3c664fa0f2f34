"""Webhooks and auto-merges in Chromium: by keyboard alone, and without JavaScript."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.web.chromium import new_page
from tests.web.live_site import sign_in
from tests.web.test_browser import (
    EXCESS_WIDTH,
    NARROW,
    REPO,
    check,
    expect_heading,
    site,
    tab_to,
)

pytestmark = [pytest.mark.browser, pytest.mark.once]
WEBHOOKS = f"{REPO}/settings/webhooks"
PULL = f"{REPO}/pulls/3"
__all__ = ["site"]


def press_first_state(page, button):
    expect(page.get_by_role("button", name=button)).to_be_visible()
    tab_to(page, "state")
    page.keyboard.press("Enter")


def test_a_webhook_is_made_and_ended_by_keyboard_alone(site):
    with site.watched("Ada0") as page:
        page.goto(WEBHOOKS)
        tab_to(page, "url")
        page.keyboard.type("http://ci.example.org/")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("https")
        check(page, "a refused address")
        tab_to(page, "url")
        page.keyboard.press("Control+a")
        page.keyboard.type("https://ci.example.org/typed")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Webhook added.")).to_be_visible()
        check(page, "the new secret")
        page.set_viewport_size({"width": NARROW, "height": 800})
        assert page.evaluate(EXCESS_WIDTH) == 0
        tab_to(page, "Open https://ci.example.org/typed")
        page.keyboard.press("Enter")
        press_first_state(page, "Switch off")
        press_first_state(page, "Resume where it stopped")
        expect(page.get_by_role("button", name="Switch off")).to_be_visible()
        tab_to(page, "Delete")
        page.keyboard.press("Enter")
        expect_heading(page, "Delete the webhook?")
        check(page, "the question")
        tab_to(page, "Delete webhook")
        page.keyboard.press("Enter")
        expect(page).to_have_url(WEBHOOKS)
        expect(page.get_by_text("https://ci.example.org/typed", exact=True)).to_have_count(0)


def test_a_webhook_works_without_javascript(site):
    with new_page(site.browser, site.url, java_script_enabled=False) as page:
        sign_in(page, "Ada0")
        page.goto(WEBHOOKS)
        page.get_by_label("Address").fill("https://ci.example.org/plain")
        page.get_by_role("button", name="Add webhook").click()
        expect(page.locator("input.secret")).to_be_visible()
        page.get_by_role("link", name="Open https://ci.example.org/plain").click()
        page.get_by_role("button", name="Send a ping").click()
        expect_heading(page, "Delivery of ping")
        page.get_by_role("link", name="The webhook").click()
        page.get_by_role("link", name="New secret").click()
        page.get_by_role("button", name="New secret").click()
        expect(page.locator("input.secret")).to_be_visible()


def test_an_auto_merge_is_set_and_cancelled_by_keyboard_alone(site):
    with site.watched("Ada0") as page:
        page.goto(PULL)
        tab_to(page, "Merge when ready")
        page.keyboard.press("Enter")
        expect(page.get_by_text("has set this to merge when it is ready")).to_be_visible()
        check(page, "an auto-merge")
        page.set_viewport_size({"width": NARROW, "height": 800})
        assert page.evaluate(EXCESS_WIDTH) == 0
        tab_to(page, "Do not merge when ready")
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Merge when ready")).to_be_visible()


def test_an_auto_merge_works_without_javascript(site):
    with new_page(site.browser, site.url, java_script_enabled=False) as page:
        sign_in(page, "Ada0")
        page.goto(PULL)
        page.get_by_role("button", name="Merge when ready").click()
        page.get_by_role("button", name="Do not merge when ready").click()
        expect(page.get_by_role("button", name="Merge when ready")).to_be_visible()

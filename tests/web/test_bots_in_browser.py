"""Bots of a team in Chromium: by keyboard alone, and without JavaScript."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.web.chromium import new_page
from tests.web.live_site import sign_in
from tests.web.test_browser import (
    BOTS,
    EXCESS_WIDTH,
    NARROW,
    check,
    expect_heading,
    site,
    tab_to,
)

pytestmark = [pytest.mark.browser, pytest.mark.once]
__all__ = ["site"]


def test_a_bot_and_its_token_are_made_by_keyboard_alone(site):
    with site.watched("Ada0") as page:
        page.goto(BOTS)
        tab_to(page, "username")
        page.keyboard.type("typed")
        page.keyboard.press("Enter")
        expect_heading(page, "typed")
        check(page, "the new bot")
        tab_to(page, "name")
        page.keyboard.type("ci")
        page.keyboard.press("Enter")
        expect(page.locator("#id_repo_paths_error")).to_contain_text("Name at least one")
        check(page, "no repository")
        tab_to(page, "reach")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Copy it now")).to_be_visible()
        check(page, "the new token")
        page.set_viewport_size({"width": NARROW, "height": 800})
        assert page.evaluate(EXCESS_WIDTH) == 0
        tab_to(page, "Rotate ci")
        page.keyboard.press("Enter")
        expect_heading(page, "Rotate ci?")
        tab_to(page, "Rotate token")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Token ci rotated.")).to_be_visible()
        tab_to(page, "Delete the bot")
        page.keyboard.press("Enter")
        expect_heading(page, "Delete typed?")
        tab_to(page, "Delete the bot")
        page.keyboard.press("Enter")
        expect(page.get_by_text("typed deleted.")).to_be_visible()


def test_a_bot_works_without_javascript(site):
    with new_page(site.browser, site.url, java_script_enabled=False) as page:
        sign_in(page, "Ada0")
        page.goto(BOTS)
        page.fill("[name=username]", "plain")
        page.get_by_role("button", name="Create bot").click()
        page.fill("[name=name]", "ci")
        page.get_by_label("All that the bot has access to").check()
        page.get_by_role("button", name="Create token").click()
        expect(page.locator("input.secret")).to_be_visible()
        page.get_by_role("link", name="Revoke ci").click()
        page.get_by_role("button", name="Revoke token").click()
        expect(page.get_by_text("Token ci revoked.")).to_be_visible()
        page.get_by_role("link", name="Delete the bot").click()
        page.get_by_role("button", name="Delete the bot").click()
        expect(page.get_by_text("plain deleted.")).to_be_visible()
        expect(page).to_have_url(BOTS)

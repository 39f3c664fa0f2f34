"""With Tab alone one comes to each control of a page, in its order, and sees where one is."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.web.chromium import new_page
from tests.web.test_browser import BRANCH, REPO, site

pytestmark = [pytest.mark.browser, pytest.mark.once, pytest.mark.slow]
__all__ = ["site"]
PATHS = {
    "pull": f"{REPO}/pulls/3",
    "thread": f"{REPO}/threads/1",
    "file": f"{REPO}/files/app.py?ref={quote(BRANCH)}",
    "settings of a repository": f"{REPO}/settings",
    "own settings": "/settings",
    "search": "/search?type=threads",
}
CONTROLS = """() => {
    const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary")];
    const radios = new Map();
    window.controls = all.filter(one => {
        if (one.disabled || one.tabIndex < 0 || one.type === "hidden") return false;
        if (!one.checkVisibility({visibilityProperty: true})) return false;
        if (one.type !== "radio") return true;
        const checked = document.querySelector(`[type=radio][name="${one.name}"]:checked`);
        return one === (checked || document.querySelector(`[type=radio][name="${one.name}"]`));
    });
    return window.controls.length;
}"""
"""Keep what Tab has to reach, in the order of the page; how many there are. Of radio buttons with
one name it reaches one.
"""
FOCUSED = """() => {
    const one = document.activeElement, style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    return [
        window.controls.indexOf(one),
        style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
        box.bottom > 0 && box.top < innerHeight && box.width > 0,
        one.outerHTML.slice(0, 120),
    ];
}"""


@pytest.mark.parametrize("name", PATHS)
def test_tab_reaches_every_control_in_order_and_shows_it(site, name):
    signed_in = site.signed_in["Ada0"]
    with new_page(site.browser, site.url, storage_state=signed_in) as page:
        page.goto(PATHS[name])
        page.wait_for_selector("[data-keys].ready")
        count = page.evaluate(CONTROLS)
        reached: list[int] = []
        for _ in range(2 * count):
            page.keyboard.press("Tab")
            place, outlined, seen, html = page.evaluate(FOCUSED)
            if place < 0:  # a box that scrolls, or behind the end of the page
                continue
            if place in reached:
                break
            assert outlined and seen, html
            reached.append(place)
        assert reached == list(range(count))


def test_the_first_tab_leads_past_the_bar_and_escape_closes_what_is_open(site):
    with new_page(site.browser, site.url, storage_state=site.signed_in["Ada0"]) as page:
        page.goto(PATHS["pull"])
        page.wait_for_selector("[data-keys].ready")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id || location.hash.slice(1)") == "main"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('main') !== null")
        menu = page.locator("header details").first
        menu.locator("summary").focus()
        page.keyboard.press("Enter")
        assert menu.get_attribute("open") is not None
        page.keyboard.press("Escape")
        assert menu.get_attribute("open") is None
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"

"""Tab reaches each control of a page in order, with a visible focus; and everything is recognizable
without colours.
"""

import base64
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page

from tests.web.chromium import new_page
from tests.web.test_browser import FOR_ADA, FOR_ALL, PUBLIC, REPO, SIGNED_IN, site

pytestmark = [pytest.mark.browser, pytest.mark.once, pytest.mark.slow]
__all__ = ["site"]
PULL = f"{REPO}/pulls/3"


def of_each_family(paths: list[str]) -> list[str]:
    """These paths with one query each: other queries show other rows but the same controls."""
    return [*{urlsplit(path).path: path for path in reversed(paths)}.values()]


PAGES = {None: of_each_family(PUBLIC), "Ada0": of_each_family(SIGNED_IN + FOR_ALL + FOR_ADA)}
CONTROLS = """() => {
    const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary")];
    const known = all.filter(one => {
        if (one.disabled || one.tabIndex < 0 || one.type === "hidden") return false;
        if (!one.checkVisibility({visibilityProperty: true})) return false;
        if (one.type !== "radio") return true;
        const checked = document.querySelector(`[type=radio][name="${one.name}"]:checked`);
        return one === (checked || document.querySelector(`[type=radio][name="${one.name}"]`));
    });
    window.reached = [];
    document.addEventListener("focusin", ({target}) => {
        const style = getComputedStyle(target), box = target.getBoundingClientRect();
        window.reached.push([
            known.indexOf(target),
            style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
            box.bottom > 0 && box.top < innerHeight && box.width > 0,
            target.outerHTML.slice(0, 120),
        ]);
    });
    const hidden = all.filter(one => one.tabIndex < 0 && !one.closest("[aria-hidden=true], .n"));
    return [known.length, hidden.map(one => one.outerHTML.slice(0, 120))];
}"""
"""Record the controls that Tab reaches from now on, by their index in the order of the page; also
count the controls, and list those that Tab cannot reach. Of radio buttons with one name it reaches
one; "Go to line" replaces links to lines.
"""
INK = """async ([picture, darkest]) => {
    const bytes = Uint8Array.from(atob(picture), one => one.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes]));
    const {width, height} = image;
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.drawImage(image, 0, 0);
    const {data} = context.getImageData(0, 0, width, height);
    const light = Array.from({length: width * height}, (_, n) => data[4 * n + 1]);
    const inked = light.flatMap((one, n) => Math.abs(one - light[0]) > darkest ? [n] : []);
    return inked.map(n => [n % width, Math.floor(n / width)]);
}"""
"""The places of a greyscale picture that differ clearly in brightness from its corner."""


def walk(page: Page) -> tuple[int, list[Any]]:
    """Press Tab through the page; returns the number of controls, and those that got the focus."""
    count, hidden = page.evaluate(CONTROLS)
    assert hidden == []
    reached: list[Any] = []
    for _ in range(4):
        for _ in range(count // 3 + 1):
            page.keyboard.down("Tab")
        page.keyboard.up("Tab")
        reached = page.evaluate("window.reached")
        if len({place for place, *_ in reached} - {-1}) == count:
            break
    return count, reached


@pytest.mark.parametrize("who", PAGES, ids=str)
def test_tab_reaches_every_control_of_every_page_in_order_and_shows_it(site, case, who):
    signed_in = {"storage_state": site.signed_in[who]} if who else {}
    with new_page(site.browser, site.url, **signed_in) as page:
        for path in PAGES[who]:
            with case(path):
                page.goto(path.format(**site.values))
                page.wait_for_selector("[data-keys].ready")
                count, reached = walk(page)
                places = [place for place, *_ in reached if place >= 0]
                assert [*dict.fromkeys(places)] == list(range(count))
                known = [(shown, html) for place, *shown, html in reached if place >= 0]
                assert [html for shown, html in known if not all(shown)] == []


def test_the_first_tab_leads_past_the_bar_and_escape_closes_what_is_open(site):
    with new_page(site.browser, site.url, storage_state=site.signed_in["Ada0"]) as page:
        page.goto(PULL)
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


Places = set[tuple[int, int]]


def ink(page: Page, picture: bytes, darkest: int = 40) -> Places:
    """The columns and rows of the picture where something is drawn."""
    found = page.evaluate(INK, [base64.b64encode(picture).decode(), darkest])
    return {(column, row) for column, row in found}


def sign(page: Page, cell: Locator) -> Places:
    """The places of the sign before a line of code, right of the bar at its edge."""
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    width = cell.evaluate("cell => parseFloat(getComputedStyle(cell).paddingLeft)")
    assert box
    clip: Any = {"x": box["x"] + 4, "y": box["y"], "width": width - 4, "height": 18}
    return ink(page, page.screenshot(clip=clip))


def height(places: Places) -> int:
    return len({row for _, row in places})


def test_changes_and_conditions_differ_by_their_signs_where_no_colour_is_seen(site):
    with new_page(site.browser, site.url, storage_state=site.signed_in["Ada0"]) as page:
        session = page.context.new_cdp_session(page)
        session.send("Emulation.setEmulatedVisionDeficiency", {"type": "achromatopsia"})
        for view in ("unified", "split"):
            page.goto(f"{PULL}/files?file=app.py&view={view}")
            added, removed = (
                sign(page, page.locator(f".lines .{kind}.c").first) for kind in ("add", "del")
            )
            assert height(added) > 2 * height(removed) > 0
        page.goto(f"{REPO}/pulls/2")
        met, still_open = (
            ink(page, page.locator(f".checks > li{rest} > svg").first.screenshot())
            for rest in (".met", ":not(.met)")
        )
        assert len(met ^ still_open) > len(met & still_open)

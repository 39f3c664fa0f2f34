"""Rendered Markdown in a real Chromium, without a Content-Security-Policy: the HTML itself runs no
scripts and loads nothing from other hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from apps.core.markdown import render, with_links
from tests.core.evasions import EVASIONS
from tests.web.chromium import chromium, new_page

pytestmark = [pytest.mark.browser, pytest.mark.once]
HOME = "http://localhost/"
TAGS = "a b br code del details div em h1 hr input li p pre s span strong summary table tbody td th"
LOOK = """
const tags = 'TAGS thead tr ul'.split(' ');
[...document.querySelectorAll('#texts *')].flatMap(element => [
    ...(tags.includes(element.localName) ? [] : [element.localName]),
    ...[...element.attributes].map(one => one.name).filter(name => /^on|^style$|^id$/.test(name)),
    ...(element.localName == 'a' && !/^(https?|mailto):$|^:?$/.test(element.protocol)
        ? [element.href] : []),
])
""".replace("TAGS", TAGS)
"""Elements, attributes and addresses that are not allowed in the HTML."""
TOUCH = """
() => new Promise(done => {
    for (const element of document.querySelectorAll('#texts *')) {
        element.focus();
        for (const kind of ['mouseover', 'focus', 'toggle', 'load', 'error'])
            element.dispatchEvent(new Event(kind));
    }
    requestAnimationFrame(() => requestAnimationFrame(done));
})
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("home")) as started:
        yield started


class Watched:
    """A page, and its dialogs, requests and errors of scripts."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.seen: list[str] = []
        page.on("dialog", self.close)
        page.on("request", lambda request: self.seen.append(f"asks {request.url}"))
        page.on("framenavigated", lambda frame: self.seen.append(f"goes to {frame.url}"))
        page.on("pageerror", lambda error: self.seen.append(f"fails with {error}"))

    def close(self, dialog: Any) -> None:
        self.seen.append(f"says {dialog.message}")
        dialog.dismiss()

    def open(self, html: str) -> list[str]:
        """The events when this is part of a page and its elements are clicked."""
        body = f'<!doctype html><title>x</title><div id="texts">{html}</div>'
        self.page.route(
            HOME, lambda route: route.fulfill(body=body, content_type="text/html; charset=utf-8")
        )
        self.page.goto(HOME, wait_until="networkidle")
        self.page.evaluate(TOUCH)
        return [one for one in self.seen if one not in {f"asks {HOME}", f"goes to {HOME}"}]


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    with new_page(browser, HOME) as page:
        yield Watched(page)


def shown(text: str) -> str:
    kept = render(text)
    return with_links(kept, {"#1": f"{HOME}\"'><script>alert(1)</script>"})


def test_the_page_sees_what_would_run_or_ask(watched):
    seen = watched.open("<img src=https://e.example/x.png><b onfocus=alert(1) tabindex=1>x</b>")
    assert {"says 1", "asks https://e.example/x.png"} <= set(seen)
    seen = watched.open("<a href='javascript:alert(1)' style=color:red>x</a><svg></svg>")
    assert watched.page.evaluate(LOOK) == ["style", "javascript:alert(1)", "svg"]


def test_nothing_of_the_list_runs_or_asks_for_anything(watched):
    html = "".join(f"<div>{shown(text)}</div>" for text in EVASIONS)
    assert watched.open(html) == []
    assert watched.page.evaluate(LOOK) == []

"""A real Chromium for tests, the one that the system has installed, driven by Playwright.

A page keeps an event loop running in its thread, where Django then refuses its ORM: a test with a
page asks a server in another process, and `chromium` belongs to a module, not to the whole run.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

SHELL = ("chromium-headless-shell",)
"""The same engine without a browser around it, which takes a quarter less of a processor's time. It
asks for no icon and has no clipboard.
"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--disable-gpu", "--disable-quic", "--disable-sync"]
"""Added to Playwright's own arguments, which keep the browser from network requests by itself."""
STARTER = """#!/bin/sh
for argument; do
    shift
    case $argument in --disable-features=*)
        argument=$argument,WebUIOmniboxPopup,WebUIOmniboxAimPopup ;;
    esac
    set -- "$@" "$argument"
done
exec {program} "$@"
"""
"""Without the pages that make suggestions below the address, which nobody sees: in each new window
they take as long as one of ours. It adds to Playwright's list: of two the browser takes the last.
"""
TIMEOUT = 60_000.0
"""Milliseconds that Playwright waits for what should happen: many, the machine may be busy."""

SHIFTS = """
if (!window.shifts) {
    const box = one => [one.x, one.y, one.width, one.height];
    const about = one => one.sources.map(source =>
        [source.node?.outerHTML?.slice(0, 80), box(source.previousRect), box(source.currentRect)]);
    window.shifts = [];
    new PerformanceObserver(list => {
        window.shifts.push(...list.getEntries().map(one => [one.value, ...about(one)]));
    }).observe({type: "layout-shift", buffered: true});
}
"""
"""Before a page is loaded: `window.shifts` has what moves from then on, and to change the size of
the window moves things too.
"""

Look = tuple[int, Literal["light", "dark"]]
"""The width of a window, in CSS pixels, and a theme."""


def program(names: tuple[str, ...]) -> str:
    """The path of the browser. Without one the test is skipped, and in CI it fails."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        reason = "Chromium is not installed (Debian: apt install chromium)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@contextmanager
def chromium(
    home: Path, names: tuple[str, ...] = SHELL + BROWSERS, *, without: Sequence[str] = ()
) -> Iterator[Browser]:
    """The first of these browsers that is installed, whose home is this folder. As root it runs
    without its sandbox, or not at all. `without`: those of Playwright's own arguments to leave out.
    """
    starter = home / "chromium"
    starter.write_text(STARTER.format(program=shlex.quote(program(names))))
    starter.chmod(0o700)
    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=starter,
            chromium_sandbox=os.geteuid() != 0,
            args=ARGUMENTS,
            ignore_default_args=without,
            env={**os.environ, "HOME": str(home)},
            timeout=TIMEOUT,
        )
        with browser:
            yield browser


@contextmanager
def new_page(browser: Browser, url: str, **options: Any) -> Iterator[Page]:
    """A window with cookies of its own, at the server with this URL.

    The options are those of Playwright's `Browser.new_context`.
    """
    with browser.new_context(base_url=url, **options) as context:
        context.set_default_timeout(TIMEOUT)
        yield context.new_page()


def resize(page: Page, look: Look) -> None:
    """Show the page to somebody with a window of this width who prefers this theme."""
    width, theme = look
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=theme)


VIOLATIONS = """options => axe.run(options).then(found =>
    found.violations.flatMap(rule => rule.nodes.map(node => [rule.id, node.html])))"""


def violations(page: Page, only: list[str]) -> list[tuple[str, str]]:
    """What axe finds on the page by these rules, or those with these tags: each and the HTML.

    It loads no style sheets of its own, which no rule with these tags needs: it looks for those
    that others import in the wrong folder, and what it does not find the browser complains about.
    All else that it says of a page would take longer to bring here than to find.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    options = {"runOnly": only, "resultTypes": ["violations"], "preload": {"assets": ["media"]}}
    return [(rule, html) for rule, html in page.evaluate(VIOLATIONS, options)]


def complaints(page: Page) -> list[str]:
    """Warnings and errors that the browser has for the page, each with what it is about.

    Among them are what the Content-Security-Policy blocks and what its scripts raise.
    """
    found = [
        f"{message.text} {message.location['url']}"
        for message in page.console_messages(filter="all")
        if message.type in {"warning", "error"}
    ]
    return found + [str(error) for error in page.page_errors(filter="all")]

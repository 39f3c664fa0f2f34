"""A real Chromium for tests, the installed one, driven by Playwright.

A page keeps an event loop running in its thread, and Django refuses its ORM there. A test with a
page therefore uses a server in another process, and `chromium` is a fixture of the module, not of
the whole run.
"""

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
"""The same engine without a user interface, which takes a quarter less processor time. It loads no
icon and has no clipboard.
"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--disable-gpu", "--disable-quic", "--disable-sync"]
"""Added to Playwright's own arguments: they stop network requests by the browser itself."""
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
"""Without the pages behind the suggestions of the address bar: in each new window they take as long
as a page of ours. It extends Playwright's list, because the browser takes only the last list.
"""
TIMEOUT = 60_000.0
"""Milliseconds that Playwright waits for a condition: many, because the machine may be busy."""

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
"""Runs before a page is loaded: `window.shifts` collects the layout shifts from then on. Resizing
the window shifts elements too.
"""

Look = tuple[int, Literal["light", "dark"]]
"""The width of a window, in CSS pixels, and a theme."""


def program(names: tuple[str, ...]) -> str:
    """The path of the browser. Without a browser the test is skipped; in CI it fails."""
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
    """Start the first of these browsers that is installed, with this home folder. Root has to run
    it without its sandbox. `without`: arguments of Playwright's to leave out.
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
    """A window with its own cookies, at the server with this URL. The options are those of
    Playwright's `Browser.new_context`.
    """
    with browser.new_context(base_url=url, **options) as context:
        context.set_default_timeout(TIMEOUT)
        yield context.new_page()


def resize(page: Page, look: Look) -> None:
    """Show the page in a window of this width, with this preferred theme."""
    width, theme = look
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=theme)


VIOLATIONS = """options => axe.run(options).then(found =>
    found.violations.flatMap(rule => rule.nodes.map(node => [rule.id, node.html])))"""


def violations(page: Page, only: list[str]) -> list[tuple[str, str]]:
    """The violations of these rules, or of the rules with these tags, that axe finds on the page:
    each with its HTML.

    axe must not load style sheets itself: no rule with these tags needs them, it looks for imported
    ones in the wrong folder, and the browser logs an error for each. The other results of axe are
    left out, because they take longer to transfer than to find.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    options = {"runOnly": only, "resultTypes": ["violations"], "preload": {"assets": ["media"]}}
    return [(rule, html) for rule, html in page.evaluate(VIOLATIONS, options)]


def complaints(page: Page) -> list[str]:
    """The browser's warnings and errors about the page, each with its location: among them, blocks
    by the Content-Security-Policy and exceptions in scripts.
    """
    found = [
        f"{message.text} {message.location['url']}"
        for message in page.console_messages(filter="all")
        if message.type in {"warning", "error"}
    ]
    return found + [str(error) for error in page.page_errors(filter="all")]

"""The admin in a real Chromium: what axe finds, which is nothing, and what its policy stops."""

import pytest

from tests.server import Server
from tests.web.browser import Browser, need_browser
from tests.web.test_browser import AXE, TAGS
from tests.web.visitor import PASSWORD

pytestmark = pytest.mark.browser
SAM = f"""
from apps.accounts.actions import create_user
from apps.accounts.models import User
create_user(actor=None, username="sam", is_staff=True, password={PASSWORD!r})
"""
PAGES = ["/admin/", "/admin/site/ratelimit/", "/admin/site/sitesettings/1/change/"]
PAGES += ["/admin/accounts/user/", "/admin/accounts/apitoken/add/", "/admin/events/event/"]
PAGES += ["/admin/accounts/user/1/change/", "/admin/accounts/user/1/deactivate/"]
FINDS = "return axe.run(document, {runOnly: arguments[0]}).then(r => r.violations.map(v => v.id))"


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    """Sam, signed in at a server of their own."""
    need_browser()
    folder = tmp_path_factory.mktemp("admin")
    with Server(folder) as server, Browser(folder) as browser:
        server.run(SAM)
        browser.open(f"{server.url}/signin?next=/admin/")
        browser.fill("[name=username]", "sam")
        browser.fill("[name=password]", PASSWORD)
        browser.click("main button.primary")
        browser.arrive("Administration")
        yield server, browser


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_and_nothing_is_blocked(window, width, theme):
    server, browser = window
    wcag = [tag for tag in TAGS if tag.startswith("wcag")]
    for path in PAGES:
        with browser.looking(width=width, theme=theme):
            browser.open(server.url + path)
            browser.until("document.querySelector('h1')")
            browser.run(AXE.read_text() + ";0")
            assert (path, browser.run(FINDS, wcag)) == (path, [])
            assert not browser.console(), path


def test_a_token_is_copied_by_a_button(window):
    server, browser = window
    browser.open(f"{server.url}/admin/accounts/apitoken/add/?username=sam")
    browser.fill("[name=name]", "laptop")
    browser.click("[name=_save]")
    browser.until("document.querySelector('input.secret + button')")
    browser.click("input.secret + button")
    browser.until("document.querySelector('input.secret + button').textContent === 'Copied'")

"""The pages in a real Chromium, from a real server: by keyboard alone, without JavaScript, at 320
pixels, in light and dark; and what axe finds, which is nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.server import ROOT, Server
from tests.web.browser import Browser, need_browser
from tests.web.visitor import PASSWORD

pytestmark = pytest.mark.browser
AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
WIDE = [(1280, "light"), (1280, "dark"), (320, "light")]
LOOKS: list[Any] = [[(320, "dark")], pytest.param(WIDE, marks=pytest.mark.slow)]
"""Narrow and dark every time; the other three are slow."""
PEOPLE = f"""
import json
from datetime import timedelta
from django.contrib.auth.tokens import default_token_generator
from django.utils import timezone
from apps.accounts.actions import create_invite, create_token, create_user
from apps.repos.actions import create_repo
from apps.site.models import SiteSettings

SiteSettings.load()
SiteSettings.objects.update(
    signup_invite_creators="users", signups_require_invite=False, rate_limits_enabled=False
)
people = [create_user(actor=None, username=f"Ada{{n}}", password={PASSWORD!r}) for n in range(3)]
tokens = [create_token(actor=ada, owner=ada, name="W" * 255)[0] for ada in people]
ada, later = people[0], timezone.now() + timedelta(days=1)
create_repo(actor=ada, owner=ada, name="Api", slug="a" * 100, visibility="public")
invite = create_invite(actor=ada, expires_at=later, email="a" * 60 + "@example.org")
reset = default_token_generator.make_token(people[2])
print(json.dumps({{
    "token": str(tokens[0].uuid), "invite": str(invite.uuid),
    "reset": f"user={{people[2].uuid}}&token={{reset}}",
}}))
"""
ANYBODY = ["/", "/signin", "/signup", "/signup?invite={invite}", "/reset", "/reset/sent"]
ANYBODY += ["/reset/new?{reset}", "/nowhere"]
SIGNED_IN = ["/", "/signin", "/signup", "/settings", "/settings/password", "/settings/tokens"]
SIGNED_IN += ["/settings/tokens/{token}/revoke", "/settings/invites"]
SIGNED_IN += ["/settings/invites/{invite}/delete"]
OUTLINE = (
    "const s = getComputedStyle(document.activeElement); return [s.outlineStyle, s.outlineWidth]"
)
FOCUSED = "const e = document.activeElement; return e.name || e.innerText"


class Site:
    """A server and a browser; `made` are a token and an invite of Ada0's, and a reset of Ada2's."""

    def __init__(self, server: Server, browser: Browser) -> None:
        self.server, self.browser = server, browser
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", source=AXE.read_text())
        self.made = json.loads(server.run(PEOPLE))

    def open(self, path: str) -> None:
        self.browser.open(self.server.url + path)

    def sign_in(self, name: str) -> None:
        self.browser.forget()
        self.open("/signin")
        self.browser.fill("[name=username]", name)
        self.browser.fill("[name=password]", PASSWORD)
        self.browser.follow("main button")

    def tab_to(self, name: str) -> None:
        """Press Tab until this has the focus, which is to be seen at every stop."""
        for _ in range(30):
            self.browser.press("Tab")
            style, width = self.browser.run(OUTLINE)
            assert style == "solid" and width == "2px", f"Tab does not reach {name}"
            if self.focused() == name:
                return
        raise AssertionError(f"Tab does not reach {name}")

    def go(self, name: str, *keys: str, to: str) -> None:
        """Tab to this, press these keys there, and come to the page with that heading."""
        self.tab_to(name)
        self.browser.run("document.querySelector('h1').remove()")
        self.browser.press(*keys)
        self.browser.arrive(to)

    def focused(self) -> str:
        """The name or the words of what has the focus."""
        return " ".join(self.browser.run(FOCUSED).split())

    def check(self, path: str, looks: list[tuple[int, str]]) -> None:
        """What holds for every page, in each of these looks."""
        self.browser.console()
        for width, theme in looks:
            with self.browser.looking(width=width, theme=theme):
                self.open(path)
                self.check_shown(f"{path} at {width}, {theme}")
        assert all(" 404 " in line for line in self.browser.console() if path == "/nowhere")

    def check_shown(self, where: str) -> None:
        """axe finds nothing, nothing sticks out, and there is one heading."""
        options = {"runOnly": TAGS, "resultTypes": ["violations", "incomplete"]}
        found = self.browser.run("return axe.run(document, arguments[0])", options)
        wrong = [(one["id"], node["html"]) for one in found["violations"] for node in one["nodes"]]
        assert not wrong, (where, wrong)
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert self.browser.run(wide) == 0, where
        assert self.browser.run("return document.querySelectorAll('h1').length") == 1, where


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    need_browser()
    folder = tmp_path_factory.mktemp("browser")
    with Server(folder) as server, Browser(folder) as browser:
        yield Site(server, browser)


@pytest.mark.parametrize("looks", LOOKS, ids=str)
@pytest.mark.parametrize("path", ANYBODY)
def test_axe_finds_nothing_for_anybody(site, path, looks):
    site.browser.forget()
    site.check(path.format(**site.made), looks)


@pytest.mark.parametrize("looks", LOOKS, ids=str)
@pytest.mark.parametrize("path", SIGNED_IN)
def test_axe_finds_nothing_for_who_is_signed_in(site, path, looks):
    site.sign_in("Ada0")
    site.check(path.format(**site.made), looks)


@pytest.mark.parametrize("status", [500, 503])
def test_axe_finds_nothing_on_what_is_shown_without_a_database(site, status):
    html = (ROOT / f"templates/web/{status}.html").read_text()
    site.open("/")
    for width, theme in ((1280, "light"), (320, "dark")):
        with site.browser.looking(width=width, theme=theme):
            site.browser.run("document.write(arguments[0]); document.close()", html)
            site.browser.until("document.styleSheets.length")
            site.check_shown(f"{status} at {width}, {theme}")


def test_a_token_is_made_and_revoked_by_keyboard_alone(site):
    browser = site.browser
    browser.forget()
    site.open("/")
    browser.press("Tab")
    assert site.focused() == "Skip to content"
    site.go("Sign in", "Enter", to="Sign in")
    site.tab_to("username")
    browser.press("Ada1")
    site.tab_to("password")
    browser.press(PASSWORD, "Enter")
    browser.arrive("Hello, Ada1")
    site.go("Tokens", "Enter", to="Tokens")
    site.go("name", "laptop", "Enter", to="Tokens")
    assert "Copy it now" in browser.text()
    site.check_shown("the new token")
    site.go("Revoke laptop", "Enter", to="Revoke laptop?")
    site.go("Revoke token", "Space", to="Tokens")
    assert "The token laptop is revoked." in browser.text()


def test_an_error_is_said_and_its_link_leads_to_the_field(site):
    browser = site.browser
    browser.forget()
    site.open("/signin")
    browser.fill("[name=username]", "Ada1")
    browser.click("main button")
    browser.until("document.activeElement.role === 'alert'")
    site.check_shown("a refused sign-in")
    browser.press("Tab", "Enter")
    browser.until("document.activeElement.name === 'password'")
    browser.press("x")
    assert browser.run("return document.querySelector('[name=password]').value") == "x"
    assert browser.run("return document.title").startswith("Error: Sign in")


def test_everything_works_without_javascript(site):
    browser = site.browser
    with browser.without_javascript():
        site.sign_in("Ada2")
        assert browser.path == "/"
        browser.follow("a[href='/settings/tokens']")
        browser.fill("[name=name]", "phone")
        browser.follow("main button")
        browser.find("input.secret")
        browser.follow("a[href$='/revoke']")
        browser.follow("main button")
        assert browser.path == "/settings/tokens"
        assert "is revoked" in browser.text()
        browser.follow("header button")
        assert browser.path == "/" and "Sign in" in browser.text("header")

"""The pages in a real Chromium, from a real server: by keyboard alone, without JavaScript, at 320
pixels, in light and dark; and what axe finds, which is nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID

import pytest
from django.urls import resolve
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.server import ROOT, Server
from tests.web.chromium import (
    SHIFTS,
    Look,
    chromium,
    complaints,
    new_page,
    resize,
    violations,
)
from tests.web.markup import flaws
from tests.web.page_client import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.once]
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
WIDTHS = (1280, 390, 320)
SHIFT = 0.005
"""What rounds to a layout shift of 0.00. That usual pages have none at all is test_budgets.py's."""
WIDE: list[Look] = [(1280, "light"), (1280, "dark"), (320, "light")]
PHONE: list[Look] = [(390, "light"), (390, "dark")]
LOOKS: list[Any] = [
    [(320, "dark")],
    pytest.param(WIDE, marks=pytest.mark.slow),
    pytest.param(PHONE, marks=pytest.mark.long),
]
"""Narrow and dark every time, three as slow tests; a phone looks like what is still narrower."""
HOSTILE = '<script>raise()</script>"><img src=x onerror=raise()>\u202e' + "W" * 200
BRANCH = 'refs/heads/<script>raise()</script>"><img/src=x/onerror=raise()>' + "W" * 180
DATA = f"""
import json
from datetime import timedelta
from django.utils import timezone
from apps.accounts.access import access_to_user
from apps.accounts.actions import create_invite, create_token, create_user
from apps.accounts.principal import Principal
from apps.accounts.proofs import address_proof, reset_proof
from apps.pulls.actions import create_pull
from apps.repos.access import access_to
from apps.repos.actions import add_approver, create_fork, create_protection, create_repo
from apps.site.models import SiteSettings
from apps.teams.actions import create_team
from apps.threads.actions import create_reply, create_thread
from tests.browse.code import code_of, push

SiteSettings.load()
SiteSettings.objects.update(
    signup_invite_creators="users", signups_require_invite=False, rate_limits_enabled=False
)
people = [create_user(by=None, username=f"Ada{{n}}", password={PASSWORD!r}) for n in range(4)]
create_user(by=None, username="Sam1", password={PASSWORD!r}, is_staff=True)
tokens = [create_token(by=None, owner=ada, name="W" * 255)[0] for ada in people]
ada, later = people[0], timezone.now() + timedelta(days=1)
space = access_to_user(Principal(ada), ada)
repo = create_repo(by=space, name="Api", slug="a" * 100, visibility="public")
access = access_to(Principal(ada), repo)
hostile = {{"title": {HOSTILE!r}, "body": {HOSTILE!r}}}
thread = create_thread(by=access, kind="issue", priority="urgent", **hostile)
number = None
for level in range(9):
    number = create_reply(
        by=access, thread=thread, kind="w" * 30, body={HOSTILE!r}, parent_reply_number=number
    ).number
protection = create_protection(by=access, branch="p" * 200 + "/*")
add_approver(by=access, protection=protection, user=people[1])
reader = Principal(people[1])
create_fork(by=access_to(reader, repo), into=access_to_user(reader, people[1]))
create_pull(by=access, source_branch="b" * 255, target_branch="main", **hostile)
code, name = code_of(repo), {HOSTILE.replace("/", "|")!r}.encode()
files = {{
    name: b"W" * 300 + b"\\n<script>raise()</script>\\n",
    b"W" * 200 + b"/" + name: b"1\\n",
    b"x": b"\\x89PNG\\r\\n\\x1a\\n",
    b"README.md": {HOSTILE!r}.encode() + b"\\n# Read me\\n\\n| a |\\n|---|\\n| b |\\n",
    b"app.py": b"def run():\\n    return 1  # " + b"W" * 300 + b"\\n",
}}
first = code.commit_with(files, message={HOSTILE!r})
files[b"app.py"] = b"def run(number):\\n    return number\\n"
files[b"other.bin"] = b"\\0"
last = code.commit_with(files, first, message={HOSTILE!r} + "\\n\\nText.")
push(repo, "refs/heads/main", first, by=ada)
push(repo, {BRANCH!r}, last, by=ada)
create_pull(by=access, source_branch={BRANCH!r}[11:], target_branch="main", **hostile)
other = access_to(Principal(people[1]), repo)
create_reply(by=other, thread=thread, kind="comment", body="@Ada0")
create_pull(by=other, source_branch="c" * 255, target_branch="main", **hostile)
create_protection(by=access, branch="main")
team = create_team(by=Principal(ada), name={HOSTILE!r}, slug="t" * 64)
invite = create_invite(by=Principal(ada), expires_at=later, email="a" * 60 + "@example.org")
print(json.dumps({{
    "token": str(tokens[0].uuid), "invite": str(invite.uuid),
    "protection": str(protection.uuid), "approver": str(people[1].uuid),
    "reset": f"token={{reset_proof(people[2])}}",
    "proof": address_proof(ada, "a" * 60 + "@example.org"),
    "commit": last,
}}))
"""
PUBLIC = ["/", "/api/", "/signin", "/signup", "/signup?invite={invite}", "/reset", "/reset/sent"]
PUBLIC += ["/reset/new?{reset}", "/nowhere", "/settings/appearance"]
SIGNED_IN = ["/", "/signin", "/signup", "/settings", "/settings/password", "/settings/tokens"]
SIGNED_IN += ["/settings/tokens/{token}/revoke", "/settings/invites"]
SIGNED_IN += ["/settings/invites/{invite}/delete", "/settings/email?token={proof}"]
SIGNED_IN += ["/settings/appearance", "/new/team", "/new/repo"]
REPO = f"/users/Ada0/{'a' * 100}"
FOR_ALL = [
    "/users/Ada0",
    REPO,
    f"{REPO}/activity",
    f"{REPO}/threads",
    f"{REPO}/threads/1",
    f"{REPO}/pulls",
    f"{REPO}/pulls/2",
    f"{REPO}/forks",
]
FOR_ALL += [f"{REPO}/threads/1/versions", f"{REPO}/threads/1/replies/2/versions"]
FILE = quote(HOSTILE.replace("/", "|"))
FOR_ALL += [f"{REPO}/files", f"{REPO}/files/{FILE}", f"{REPO}/files/{'W' * 200}/{FILE}"]
FOR_ALL += [f"{REPO}/files/app.py?ref={quote(BRANCH)}", f"{REPO}/commits", f"{REPO}/branches"]
FOR_ALL += [f"{REPO}/commits/{{commit}}", f"{REPO}/commits/{{commit}}?view=split"]
FOR_ALL += [f"{REPO}/compare", f"{REPO}/compare?head={quote(BRANCH)}", f"{REPO}/pulls/3"]
FOR_ALL += [f"{REPO}/pulls/3/commits", f"{REPO}/pulls/3/files"]
FOR_ADA = [f"{REPO}/threads/new", f"{REPO}/threads/1/edit", f"{REPO}/threads/1/delete", "/teams"]
FOR_ADA += [f"{REPO}/threads/1/replies/9/{act}" for act in ("reply", "edit", "delete")]
FOR_ADA += [f"{REPO}/pulls/new", f"{REPO}/pulls/2/edit", f"/teams/{'t' * 64}"]
FOR_ADA += [f"/teams/{'t' * 64}/~members", f"/teams/{'t' * 64}/~members/Ada0/remove"]
FOR_ADA += [f"/teams/{'t' * 64}/~settings", f"/teams/{'t' * 64}/~settings/active"]
FOR_ADA += [f"{REPO}/settings", f"{REPO}/settings/protections"]
FOR_ADA += [
    f"{REPO}/settings/protections/{{protection}}{below}"
    for below in ("", "/delete", "/approvers/{approver}/remove")
]
FOR_ADA += ["/", "/inbox", "/inbox?unread=false", "/activity", "/activity?scope=user:Ada1"]
FOR_ADA += [f"/pulls?show={show}" for show in ("you", "others", "done")]
FOR_ADA += [f"/search?type={sort}" for sort in ("repos", "pulls", "threads", "users")]
FOR_ADA += [f"/search?q={'W' * 200}", f"/teams/{'t' * 64}/~activity"]
"""Pages of what people make, with hostile names and texts."""
NOT_FOUND = "Failed to load resource: the server responded with a status of 404 (Not Found)"
EXCESS_WIDTH = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
REPEATED_IDS = """[...document.querySelectorAll('[id]')].map(one => one.id)
    .filter((id, place, all) => all.indexOf(id) < place)"""
FOCUSED = """() => {
    const focused = document.activeElement;
    const style = getComputedStyle(focused);
    return [focused.name || focused.innerText, style.outlineStyle, style.outlineWidth];
}"""
"""What has the focus, by its name or its text, and how it is outlined."""


@dataclass(frozen=True)
class Site:
    """A server and a browser."""

    url: str
    browser: Browser
    values: dict[str, str]
    """A token, an invite, a protection with its approver, and an unconfirmed address of Ada0's, and
    a link by which Ada2 may reset her password.
    """
    signed_in: dict[str, StorageState]
    """The cookies of people who have signed in: Ada0, whose all is, Ada3, who is a stranger, and
    Sam, who is staff.
    """


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("browser")
    with new_server(folder) as server, chromium(folder) as browser:
        values = json.loads(server.run(DATA))
        yield Site(
            server.url,
            browser,
            values,
            {name: cookies_of(browser, server.url, name) for name in ("Ada0", "Ada3", "Sam1")},
        )


def cookies_of(browser: Browser, url: str, name: str) -> StorageState:
    with new_page(browser, url) as page:
        sign_in(page, name)
        return page.context.storage_state()


@pytest.fixture
def page(site: Site) -> Iterator[Page]:
    """The window of somebody who is not signed in."""
    with new_page(site.browser, site.url) as page:
        yield page


def sign_in(page: Page, username: str) -> None:
    page.goto("/signin")
    page.fill("[name=username]", username)
    page.fill("[name=password]", PASSWORD)
    page.click("main button")
    expect(page).to_have_url("/")


def check(page: Page, where: str) -> None:
    """axe finds nothing, nothing is wider than the window, there is one main heading, and no id
    stands twice.
    """
    assert not violations(page, TAGS), where
    assert page.evaluate(EXCESS_WIDTH) == 0, where
    assert page.locator("h1").count() == 1, where
    assert page.evaluate(REPEATED_IDS) == [], where


def check_path(page: Page, path: str, looks: list[Look]) -> None:
    """Open this path once, as wide as the first look: nothing moves while it loads, its HTML is
    valid, and at no width is it wider than the window. In each look what `check` says holds, and
    the browser complains of nothing but the status of a page that is not there.
    """
    resize(page, looks[0])
    page.add_init_script(SHIFTS)
    answer = page.goto(path)
    assert answer
    assert flaws(answer.text()) == [], path
    shifts = page.evaluate("window.shifts")
    assert sum(one[0] for one in shifts) < SHIFT, f"{path}: {shifts}"
    for look in looks:
        resize(page, look)
        check(page, f"{path} at {look}")
    for width in WIDTHS:
        resize(page, (width, "light"))
        assert page.evaluate(EXCESS_WIDTH) == 0, f"{path} at {width}"
    expected = [f"{NOT_FOUND} {page.url}"] if path == "/nowhere" else []
    assert complaints(page) == expected


def expect_heading(page: Page, text: str) -> None:
    """Wait until a page with this main heading is there as a whole."""
    expect(page.locator("h1")).to_have_text(text)
    page.wait_for_load_state()


def focused(page: Page) -> str:
    """The name or the text of what has the focus."""
    return " ".join(page.evaluate(FOCUSED)[0].split())


def tab_to(page: Page, name: str) -> None:
    """Press Tab until this has the focus, which is to be seen wherever it goes."""
    for _ in range(30):
        page.keyboard.press("Tab")
        _, style, width = page.evaluate(FOCUSED)
        assert (style, width) == ("solid", "2px"), f"{focused(page)} has no outline"
        if focused(page) == name:
            return
    raise AssertionError(f"Tab does not reach {name}")


@pytest.mark.parametrize("looks", LOOKS, ids=str)
@pytest.mark.parametrize("path", PUBLIC)
def test_axe_finds_nothing_for_anybody(site, page, path, looks):
    check_path(page, path.format(**site.values), looks)


@pytest.mark.parametrize("looks", LOOKS, ids=str)
@pytest.mark.parametrize("path", SIGNED_IN)
def test_axe_finds_nothing_for_who_is_signed_in(site, path, looks):
    with new_page(site.browser, site.url, storage_state=site.signed_in["Ada0"]) as page:
        check_path(page, path.format(**site.values), looks)


@pytest.mark.parametrize("looks", LOOKS, ids=str)
@pytest.mark.parametrize("who", [None, "Ada0"])
def test_hostile_names_and_texts_do_nothing_on_any_page(site, who, looks):
    visit_all(site, who, FOR_ALL + FOR_ADA if who else FOR_ALL, looks)


@pytest.mark.slow
@pytest.mark.parametrize(("who", "paths"), [("Ada3", FOR_ALL), ("Sam1", FOR_ALL)])
def test_strangers_and_staff_find_the_same_pages_in_order(site, who, paths):
    """They are offered other things than people of the repository and than who is signed out."""
    visit_all(site, who, paths, [(320, "dark")])


def visit_all(site: Site, who: str | None, paths: list[str], looks: list[Look]) -> None:
    signed_in = {"storage_state": site.signed_in[who]} if who else {}
    with new_page(site.browser, site.url, **signed_in) as page:
        titles: dict[str, str] = {}
        for path in paths:
            check_path(page, path.format(**site.values), looks)
            if path.endswith("/reply"):  # the thread once more, with the form for this reply
                continue
            first = titles.setdefault(page.title(), path)
            assert urlsplit(first).path == urlsplit(path).path, f"{first} and {path}: one title"


def shape(pattern: str) -> str:
    """A pattern of the page table, for any owner of repositories."""
    owner = "teams/<team_slug:team_slug>/<repo|users/<username:username>/<repo"
    return re.sub(owner, "<repo", pattern).removeprefix("<repo_slug:repo_slug>")


UNSEEN = {
    "admin/login/": "leads to the sign-in",
    "avatars/users/<uid:uid>.svg": "a picture",
    "avatars/teams/<uid:uid>.svg": "a picture",
    "unsubscribe": "has tests of its own, in a browser too",
    ".git": "leads to the repository",
    "/raw/<tree_path:path>": "a file as it is",
    "/pulls/<number:number>/verdict": "a part of the page of the pull",
    "/threads/<number:number>/replies": "the form that stands below a thread",
    "/threads/<number:number>/replies/<number:to>": "leads to the thread",
}
"""What GET gives elsewhere than on a page that is looked at above, and why."""


def test_no_page_is_forgotten():
    uuids = dict.fromkeys(("token", "invite", "protection", "approver"), str(UUID(int=0)))
    values = {**uuids, "reset": "", "proof": "", "commit": "1" * 40}
    paths = {path.format(**values) for path in PUBLIC + SIGNED_IN + FOR_ALL + FOR_ADA}
    found = {resolve(unquote(urlsplit(path).path)).route for path in paths - {"/nowhere"}}
    routes = import_module("apps.web.routes").urlpatterns
    pages = {shape(str(one.pattern)) for one in routes if "GET" in one.callback.methods}
    assert pages - {shape(one) for one in found} == set(UNSEEN)


def test_what_is_copied_of_code_has_no_numbers_and_no_signs(site, page):
    copied = (
        "getSelection().selectAllChildren(document.querySelector('{}')), String(getSelection())"
    )
    page.goto(f"{REPO}/commits/{site.values['commit']}?file=app.py")
    assert page.locator(".lines .add").count() and page.locator(".lines a[data-n]").count()
    lines = ["def run():", "    return 1  # " + "W" * 300, "def run(number):", "    return number"]
    assert lines_in(page.evaluate(copied.format(".lines"))) == lines
    page.goto(f"{REPO}/files/app.py?ref={quote(BRANCH)}")
    assert lines_in(page.evaluate(copied.format(".lines"))) == lines[2:]


def lines_in(text: str) -> list[str]:
    """The lines of a copied text, without those tabs that part the cells of a table."""
    return [line.strip("\t") for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize("status", [500, 503])
def test_axe_finds_nothing_on_what_is_shown_without_a_database(page, status):
    html = (ROOT / f"templates/web/{status}.html").read_text()
    page.goto("/")
    for look in WIDE[:1] + LOOKS[0]:
        resize(page, look)
        page.set_content(html)
        assert page.evaluate("document.styleSheets.length")
        check(page, f"{status} at {look}")


def test_a_token_is_made_and_revoked_by_keyboard_alone(page):
    keyboard = page.keyboard
    page.goto("/")
    keyboard.press("Tab")
    assert focused(page) == "Skip to content"
    tab_to(page, "Sign in")
    keyboard.press("Enter")
    expect_heading(page, "Sign in")
    tab_to(page, "username")
    keyboard.type("Ada1")
    tab_to(page, "password")
    keyboard.type(PASSWORD)
    keyboard.press("Enter")
    expect_heading(page, "Home")
    tab_to(page, "Ada1")
    keyboard.press("Enter")
    tab_to(page, "Tokens")
    check(page, "the menu")
    keyboard.press("Enter")
    expect_heading(page, "Tokens")
    tab_to(page, "name")
    keyboard.type("laptop")
    keyboard.press("Enter")
    expect(page.get_by_text("Copy it now")).to_be_visible()
    expect_heading(page, "Tokens")
    check(page, "the new token")
    tab_to(page, "Revoke laptop")
    keyboard.press("Enter")
    expect_heading(page, "Revoke laptop?")
    tab_to(page, "Revoke token")
    keyboard.press("Space")
    expect(page.get_by_text("The token laptop is revoked.")).to_be_visible()
    expect_heading(page, "Tokens")


def test_an_error_gets_the_focus_and_its_link_leads_to_the_field(page):
    password = page.locator("[name=password]")
    page.goto("/signin")
    page.fill("[name=username]", "Ada1")
    page.click("main button")
    expect(page.get_by_role("alert")).to_be_focused()
    page.wait_for_load_state()
    check(page, "a refused sign-in")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(password).to_be_focused()
    page.keyboard.type("x")
    expect(password).to_have_value("x")
    expect(page).to_have_title(re.compile("^Error: Sign in"))


def test_everything_works_without_javascript(site):
    with new_page(site.browser, site.url, java_script_enabled=False) as page:
        sign_in(page, "Ada2")
        page.click("summary")
        page.click("a[href='/settings/tokens']")
        page.fill("[name=name]", "phone")
        page.get_by_role("button", name="Make token").click()
        expect(page.locator("input.secret")).to_be_visible()
        page.get_by_role("link", name="Revoke phone").click()
        page.get_by_role("button", name="Revoke token").click()
        expect(page.get_by_text("The token phone is revoked.")).to_be_visible()
        expect(page).to_have_url("/settings/tokens")
        page.click("summary")
        page.click("header button")
        expect(page).to_have_url("/")
        expect(page.locator("header").get_by_text("Sign in")).to_be_visible()


def test_a_chosen_theme_wins_over_that_of_the_system(page):
    paper = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    page.goto("/settings/appearance")
    light = page.evaluate(paper)
    page.check("[name=theme][value=dark]")
    page.get_by_role("main").get_by_role("button").click()
    expect(page.get_by_text("It is saved.")).to_be_visible()
    assert page.evaluate(paper) != light
    page.goto("/signin")
    assert page.evaluate(paper) != light
    assert complaints(page) == []

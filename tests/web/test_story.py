"""The work of two people on one repository, in a browser without JavaScript and with real git: from
a new team to a merged pull, and out again.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.gitclient import Git
from tests.server import Server
from tests.web.chromium import complaints, new_page
from tests.web.live_site import Site, site
from tests.web.page_client import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.once]
REPO = "/teams/masons/arch"
__all__ = ["site"]


@contextmanager
def signed_in(site: Site, username: str) -> Iterator[Page]:
    with new_page(site.browser, site.server.url, java_script_enabled=False) as page:
        page.goto("/signin")
        page.get_by_label("Username").fill(username)
        page.get_by_label("Password").fill(PASSWORD)
        press(page, "Sign in")
        expect(page.get_by_role("heading", name="Home")).to_be_visible()
        yield page
        assert complaints(page) == []


def press(page: Page, name: str) -> None:
    page.get_by_role("main").get_by_role("button", name=name, exact=True).click()


def follow(page: Page, name: str) -> None:
    page.get_by_role("main").get_by_role("link", name=name, exact=True).first.click()


def expect_heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_contain_text(text)


def make_team_and_repository(ada: Page) -> None:
    ada.get_by_role("link", name="New", exact=True).click()
    ada.get_by_role("link", name="Team", exact=True).click()
    ada.get_by_label("Name", exact=True).fill("The masons")
    ada.get_by_label("Address").fill("masons")
    press(ada, "Create team")
    expect_heading(ada, "The masons")
    ada.get_by_role("link", name="Members", exact=True).click()
    ada.get_by_label("Username").fill("ben")
    press(ada, "Add")
    expect(ada.get_by_text("ben added to the team.")).to_be_visible()
    ada.get_by_role("link", name="Repositories", exact=True).click()
    follow(ada, "New repository")
    expect(ada.get_by_label("Owner", exact=True)).to_have_value("teams/masons")
    ada.get_by_label("Name", exact=True).fill("The arch")
    ada.get_by_label("Address").fill("arch")
    ada.get_by_role("radio", name="Public").check()
    press(ada, "Create repository")
    expect(ada).to_have_url(REPO)
    expect(ada.get_by_role("main")).to_contain_text("git remote add origin")


def make_token(ada: Page) -> str:
    ada.goto("/settings/tokens")
    ada.get_by_label("Name", exact=True).fill("laptop")
    ada.locator("[name=permission][value=write]").check()
    ada.locator("[name=reach][value=all]").check()
    press(ada, "Create token")
    return ada.get_by_label("The new token").input_value()


def push(folder: Path, server: Server, token: str) -> Git:
    git = Git(folder, f"{server.url}{REPO}.git", token)
    git("remote", "add", "origin", git.url)
    git.commit("README.md", "A place to meet.\n")
    git("push", "--quiet", "origin", "HEAD:main")
    git("switch", "--quiet", "--create", "span")
    git.commit("span.txt", "Ten metres.\n")
    git("push", "--quiet", "origin", "HEAD:span")
    return git


def protect_main(ada: Page) -> None:
    ada.goto(REPO)
    ada.get_by_role("link", name="Settings", exact=True).click()
    ada.get_by_role("link", name="Protections", exact=True).click()
    ada.get_by_label("Branch", exact=True).fill("main")
    press(ada, "Protect")
    expect(ada.get_by_text("Matches now: main")).to_be_visible()


def open_pull(ada: Page) -> None:
    ada.goto(f"{REPO}/pulls")
    follow(ada, "New pull")
    ada.get_by_label("From branch").fill("span")
    ada.get_by_label("Title").fill("Span the river")
    ada.get_by_label("Text").fill("It is *wide*.")
    press(ada, "Preview")
    expect(ada.get_by_role("region", name="Preview").locator("em")).to_have_text("wide")
    press(ada, "Open pull")
    expect_heading(ada, "Span the river #1")


def review(ben: Page) -> None:
    ben.goto(f"{REPO}/pulls")
    follow(ben, "Span the river")
    decision = ben.get_by_role("form", name="Reply or review")
    decision.get_by_label("Text").fill("It holds.")
    decision.get_by_role("button", name="Approve").click()
    expect(ben.get_by_role("article").filter(has_text="It holds.")).to_contain_text("approved")


def merge(ada: Page) -> None:
    ada.goto(f"{REPO}/pulls/1")
    verdict = ada.get_by_role("region", name=re.compile("Can be merged"))
    verdict.get_by_label("How to merge").select_option("squash")
    verdict.get_by_role("button", name="Merge").click()
    expect(ada.get_by_role("heading", name="Merged by ada")).to_be_visible()


def reply(page: Page, text: str, *, to: int = 0) -> None:
    page.goto(f"{REPO}/pulls/1")
    if to:
        follow(page, f"Reply to reply {to}")
    form = page.get_by_role("form", name="Reply")
    form.get_by_label("Text").fill(text)
    form.get_by_role("button", name="Reply", exact=True).click()
    expect(page.get_by_role("article").filter(has_text=text)).to_be_visible()


@pytest.fixture
def people(site: Site) -> Iterator[tuple[Page, Page]]:
    with signed_in(site, "ada") as ada, signed_in(site, "ben") as ben:
        yield ada, ben


def test_two_people_work_together_without_javascript(site, people, tmp_path):
    ada, ben = people
    make_team_and_repository(ada)
    token = make_token(ada)
    git = push(tmp_path / "work", site.server, token)
    protect_main(ada)
    assert "protected branch" in git.fails("push", "origin", "HEAD:main")
    open_pull(ada)
    expect(ada.get_by_role("main")).to_contain_text("Cannot be merged yet: 1 condition not met")
    review(ben)
    merge(ada)
    git("fetch", "--quiet", "origin", "main")
    assert "Ten metres." in git("show", "FETCH_HEAD:span.txt")
    reply(ben, "How wide?")
    reply(ada, "Ten metres.", to=1)
    ben.goto(f"{REPO}/pulls/1")
    follow(ben, "Delete reply 1")
    press(ben, "Delete reply")
    expect(ben.get_by_text("Reply 1 was deleted")).to_be_visible()
    expect(ben.get_by_role("article").filter(has_text="Ten metres.")).to_be_visible()
    expect(ben.get_by_text("How wide?")).to_have_count(0)
    ada.goto("/settings/tokens")
    follow(ada, "Revoke laptop")
    press(ada, "Revoke token")
    expect(ada.get_by_text("Token laptop revoked.")).to_be_visible()
    assert "Authentication failed" in git.fails("push", "origin", "HEAD:other")
    ada.locator(".menu > summary").click()
    ada.get_by_role("button", name="Sign out").click()
    expect(ada.get_by_role("banner").get_by_role("link", name="Sign in")).to_be_visible()

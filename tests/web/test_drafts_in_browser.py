"""Draft reviews, suggestions and comments of others on the tab Files in Chromium."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.web.chromium import Look, complaints, resize, violations
from tests.web.live_site import OF_REPO, REPO, Site, expect_live, sign_in, site
from tests.web.test_files_in_browser import TAGS, file, files

__all__ = ["files", "site"]
pytestmark = pytest.mark.browser
LOOKS: list[Look] = [(1280, "light"), (1280, "dark"), (390, "light"), (320, "dark")]


def comment_by_ben(site: Site, files: str, **fields: object) -> None:
    pull = site.api("ben").get(f"{OF_REPO}{files.removesuffix('/files')}").gives()
    place = {"commit_sha": pull["head_sha"], "path": "src/app/main.py", "body": "Why?", **fields}
    site.api("ben").post(f"{OF_REPO}/pulls/{pull['number']}/comments", **place).gives(201)


def press_on(page: Page, name: str) -> None:
    page.locator("main").get_by_role("button", name=name, exact=True).press("Enter")


def test_on_a_phone_the_conversation_follows_the_verdict(site: Site, files: str) -> None:
    """The reviewers are below it; a wide window has them beside it."""
    with site.open(files.removesuffix("/files")) as page:

        def place(selector: str) -> tuple[float, float]:
            box = page.locator(selector).bounding_box()
            assert box
            return box["x"], box["y"]

        parts = ["#verdict", "#talk", "aside >> text=Reviewers >> nth=0"]
        resize(page, (390, "light"))
        heights = [place(part)[1] for part in parts]
        assert heights == sorted(heights)
        resize(page, (1280, "light"))
        _, (conversation, _), (reviewers, _) = map(place, parts)
        assert conversation < reviewers


def test_a_review_with_a_suggestion_is_written_and_sent_by_keyboard(site: Site, files: str) -> None:
    comment_by_ben(site, files, line=100)
    comment_by_ben(site, files, line=180, body="```suggestion\nbetter\n```", kind="suggestion")
    with site.open(files) as page:
        page.locator("main").focus()
        for key, words in (("c", "Why?"), ("c", "better"), ("C", "Why?")):
            page.keyboard.press(key)
            expect(page.locator(".line-comment:focus")).to_contain_text(words)
        for key in ("n", "ArrowDown", "Enter"):
            page.keyboard.press(key)
        main = file(page, "main.py")
        text = main.get_by_label("Text")
        text.fill("Perhaps:")
        main.get_by_role("link", name="Suggest a change").press("Enter")
        expect(text).to_have_value("Perhaps:\n```suggestion\nother\n```\n")
        expect(text).to_be_focused()
        page.keyboard.type("another")
        press_on(page, "Start a review")
        draft = page.locator(".line-comment", has_text="Draft, only you see it")
        expect(draft.locator(".add")).to_have_text("another")
        for look in LOOKS:
            resize(page, look)
            page.evaluate("scrollTo(0, 0)")  # the sticky head of a file covers nothing there
            assert violations(page, TAGS) == [], look
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        draft.get_by_role("link", name="Edit").press("Enter")
        page.get_by_label("Text").fill("```suggestion\nyet another\n```")
        press_on(page, "Save")
        expect(draft.locator(".add")).to_have_text("yet another")
        page.get_by_text("Your review: 1 draft comment").press("Enter")
        press_on(page, "Request changes")
        expect(page).to_have_url(re.compile("#review-"))
        page.get_by_role("link", name=re.compile("^Apply the suggestion")).last.press("Enter")
        press_on(page, "Apply to topic")
        expect(file(page, "main.py")).to_contain_text("yet another")
        assert complaints(page) == []


def test_open_pages_say_what_others_have_sent(site: Site, files: str) -> None:
    address = files.removesuffix("/files")
    with site.open(files) as page, site.open(address) as talk:
        expect_live(talk)
        draft = f"{OF_REPO}{address}/reviews/draft"
        pull = site.api("ben").get(f"{OF_REPO}{address}").gives()
        place = {"commit_sha": pull["head_sha"], "path": "docs/read me.md", "line": 3}
        site.api("ben").post(f"{draft}/comments", **place, body="Drafted.").gives(201)
        site.api("ben").post(f"{draft}/submit", status="commented").gives(201)
        expect(talk.get_by_role("link", name="Reload to show it")).to_be_visible()
        page.get_by_role("link", name="New review: reload").press("Enter")
        expect(page.locator(".line-comment", has_text="Drafted.")).to_have_count(1)
        talk.reload()
        expect_live(talk)
        site.api("ada").put(f"{OF_REPO}{address}/status", status="closed").gives()
        expect(talk.locator(".verdict")).to_contain_text("Closed without a merge")
        site.api("ada").delete(f"{OF_REPO}{address}/source-branch").gives(204)
        expect(talk.locator(".verdict")).to_contain_text("topic has been deleted")
        site.api("ada").put(f"{OF_REPO}{address}/source-branch").gives()
        expect(talk.locator(".verdict")).not_to_contain_text("has been deleted")


ADD_BRANCH = """
from apps.accounts.models import User
from apps.repos.models import Repo
from tests.browse.code import code_of, push

repo, ada = Repo.objects.get(slug="api"), User.objects.get(username="ada")
lines = b"".join(b"line %d\\n" % n for n in range(1, 20))
main = repo.branch_sha("main")
first = code_of(repo).commit_with({b"kept.py": lines, b"gone.py": lines}, main)
push(repo, "refs/heads/later", first, by=ada)
"""
REMOVE_FILE = """
from apps.accounts.models import User
from apps.repos.models import Repo
from tests.browse.code import code_of, push

repo, ada = Repo.objects.get(slug="api"), User.objects.get(username="ada")
old = repo.branch_sha("later")
last = code_of(repo).commit_with({b"kept.py": b"another\\n"}, old)
push(repo, "refs/heads/later", last, by=ada)
"""


def test_texts_outlive_a_push_that_removes_their_lines_and_a_lost_session(
    site: Site, files: str
) -> None:
    site.server.run(ADD_BRANCH)
    fields = {"title": "Later", "body": "", "source_branch": "later", "target_branch": "main"}
    made = site.api("ada").post(f"{OF_REPO}/pulls", **fields).gives(201)
    with site.open(f"/pulls/{made['number']}/files") as page:
        for name, words in (("kept.py", "About a line."), ("gone.py", "About a file.")):
            page.goto(page.url.partition("?")[0])
            row = file(page, name).locator("tr", has_text="line 17").first
            row.hover()
            row.locator(".say").click()
            file(page, name).get_by_label("Text").fill(words)
        site.server.run(REMOVE_FILE)
        page.context.clear_cookies(name="sessionid")
        page.keyboard.press("Control+Enter")
        expect(page.locator("h1")).to_have_text("You are signed out")
        expect(page.locator("main")).to_contain_text("About a file.")
        sign_in(page)
        page.goto(f"/{REPO}/pulls/{made['number']}/files")
        unsent = page.locator("[data-unsent]")
        expect(unsent).to_contain_text("About a file.")
        unsent.get_by_role("link", name="kept.py, line 17").click()
        text = page.get_by_role("form", name="Comment on line 17").get_by_label("Text")
        expect(text).to_have_value("About a line.")
        text.press("Control+Enter")
        expect(page.get_by_role("alert")).to_contain_text("The file has no line 17: it has 1 line.")
        expect(text).to_have_value("About a line.")
        expect(unsent).to_have_text("Not sent yet: About a file.")

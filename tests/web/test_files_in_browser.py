"""The tab Files of a pull in Chromium: what its script adds, and that nothing needs it."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.web.chromium import complaints, new_page, resize, violations
from tests.web.live_site import OF_REPO, REPO, Site, site

__all__ = ["site"]
PUSH = """
from apps.accounts.models import User
from apps.repos.models import Repo
from tests.browse.code import code_of, push

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
)
repo, ada = Repo.objects.get(slug="api"), User.objects.get(username="ada")
code, lines = code_of(repo), [b"line %d" % n for n in range(1, 201)]

def text(*changed):
    new = [b"other" if n in changed else line for n, line in enumerate(lines, 1)]
    return b"\\n".join(new) + b"\\n"

same = {b"docs/read me.md": text(), b"src/app/main.py": text(), b"logo.png": PNG}
first = code.commit_with(same | {b"src/app/old.py": b"1\\n"})
push(repo, "refs/heads/main", first, by=ada)
changed = {b"docs/read me.md": text(3), b"src/app/main.py": text(100, 103, 180)}
changed |= {b"src/app/new.py": b"def f():\\n    return 1\\n", b"logo.png": PNG + b"\\0"}
push(repo, "refs/heads/topic", code.commit_with(changed, first), by=ada)
"""
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def files(site: Site) -> str:
    """The path of the tab in the repository, of a pull that changes five files."""
    site.server.run(PUSH)
    fields = {"title": "Other lines", "body": "", "source_branch": "topic", "target_branch": "main"}
    made = site.api("ada").post(f"{OF_REPO}/pulls", **fields).gives(201)
    return f"/pulls/{made['number']}/files"


def file(page: Page, name: str) -> Any:
    return page.locator(f'.diff[data-file$="{name}"]')


def test_files_are_marked_in_place_and_counted(site: Site, files: str) -> None:
    with site.open(files) as page:
        main = file(page, "main.py")
        expect(main.locator("table")).to_have_count(1)
        button = main.get_by_role("button", name="Viewed")
        button.click()
        expect(main).to_have_attribute("data-viewed", "yes")
        expect(page.locator("#viewed")).to_contain_text("1 of 5 viewed")
        expect(main.locator("table")).to_have_count(0)
        expect(main.get_by_role("button", name="Viewed")).to_be_focused()
        main.locator("summary").click()
        expect(main.locator("table")).to_have_count(1)
        page.reload()
        expect(page.locator("#viewed")).to_contain_text("1 of 5 viewed")
        expect(file(page, "main.py").locator("table")).to_have_count(0)
        file(page, "main.py").get_by_role("button", name="Viewed").click()
        expect(page.locator("#viewed")).to_contain_text("0 of 5 viewed")


def test_hidden_lines_are_opened_in_place(site: Site, files: str) -> None:
    with site.open(files) as page:
        main = file(page, "main.py")
        above = main.get_by_role("link", name="↑ 20 lines").first
        above.click()
        expect(main).to_contain_text("line 80")
        assert "expand" not in page.url
        expect(main.locator("tr:focus")).to_contain_text("line 97")


def test_everything_works_without_scripts(site: Site, files: str) -> None:
    with site.open(files, java_script_enabled=False) as page:
        main = file(page, "main.py")
        main.get_by_role("button", name="Viewed").click()
        expect(page.locator("#viewed")).to_contain_text("1 of 5 viewed")
        main.locator("summary").click()
        main.get_by_role("link", name="Show the changes").click()
        expect(main.locator("table")).to_have_count(1)
        main.get_by_role("link", name="↑ 20 lines").first.click()
        expect(main).to_contain_text("line 80")
        main.get_by_role("button", name="Viewed").click()
        expect(page.locator("#viewed")).to_contain_text("0 of 5 viewed")
        page.fill("[data-filter] [name=name]", "NEW")
        page.click("[data-filter] button")
        expect(page.locator(".diff")).to_have_count(1)


def test_the_list_of_files_filters_while_typing(site: Site, files: str) -> None:
    with site.open(files) as page:
        page.fill("[data-filter] [name=name]", "docs")
        expect(page.locator(".diff:visible")).to_have_count(1)
        expect(page.locator(".tree summary:visible")).to_have_count(1)
        page.fill("[data-filter] [name=name]", "")
        expect(page.locator(".diff:visible")).to_have_count(5)


def test_lines_are_selected_by_shift_and_changes_reached_by_keys(site: Site, files: str) -> None:
    with site.open(files) as page:
        main = file(page, "main.py")
        main.locator('a[data-n="98"]').first.click()
        main.locator('a[data-n="101"]').last.click(modifiers=["Shift"])
        expect(main.locator("tr.marked")).to_have_count(4)
        assert "lines=f" in page.url and "-n98-101" in page.url
        page.reload()
        expect(file(page, "main.py").locator("tr.marked")).to_have_count(4)
        page.locator("main").focus()
        page.keyboard.press("n")
        first = page.locator("tr:focus")
        expect(first).to_contain_text("line 3")
        page.keyboard.press("n")
        expect(page.locator("tr:focus")).not_to_contain_text("line 3")
        page.keyboard.press("p")
        expect(page.locator("tr:focus")).to_contain_text("line 3")


def test_a_comment_is_written_in_place_and_a_draft_survives(site: Site, files: str) -> None:
    with site.open(files) as page:
        main = file(page, "main.py")
        row = main.locator("tr", has_text="line 181").first
        row.hover()
        row.locator(".say").click()
        text = main.get_by_label("Text")
        expect(text).to_be_focused()
        assert "comment=" not in page.url
        text.fill("Half a thou")
        page.reload()
        main.locator("tr", has_text="line 182").first.locator(".say").focus()
        page.keyboard.press("Enter")
        expect(main.get_by_label("Text")).to_have_value("")
        main.get_by_role("link", name="Cancel").click()
        expect(main.get_by_label("Text")).to_have_count(0)
        row = main.locator("tr", has_text="line 181").first
        row.evaluate("row => { row.tabIndex = -1; row.focus(); }")
        page.keyboard.press("Enter")
        expect(main.get_by_label("Text")).to_have_value("Half a thou")
        main.get_by_label("Text").fill("A whole thought.")
        page.keyboard.press("Control+Enter")
        comment = page.locator(".line-comment")
        expect(comment).to_contain_text("A whole thought.")
        comment.get_by_role("link", name="Reply to reply").click()
        comment.get_by_label("Text").fill("Yes.")
        page.get_by_role("button", name="Reply", exact=True).click()
        expect(comment).to_contain_text("Yes.")
        comment.get_by_role("button", name="Resolve").click()
        expect(comment.locator("summary")).to_be_focused()
        expect(comment).to_contain_text("Resolved: ada on line 181")
        main.locator("tr", has_text="line 181").first.locator(".say").click()
        expect(main.get_by_label("Text")).to_have_value("")


def test_a_comment_is_written_without_scripts_and_without_a_mouse(site: Site, files: str) -> None:
    with site.open(files, java_script_enabled=False) as page:
        new = file(page, "new.py")
        new.get_by_role("link", name="Lines").press("Enter")
        new.get_by_label("from").fill("2")
        new.get_by_label("to", exact=True).fill("2")
        new.get_by_role("button", name="Select").press("Enter")
        new.get_by_role("link", name="Comment").last.press("Enter")
        new.get_by_label("Text").fill("No script.")
        new.get_by_role("button", name="Comment").press("Enter")
        expect(new.locator("tr.below")).to_contain_text("No script.")


TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def test_axe_finds_nothing_and_nothing_overflows(site: Site, files: str) -> None:
    path = f"/{REPO}{files}"
    with new_page(site.browser, site.server.url, storage_state=site.signed_in) as page:
        page.goto(path)
        anchor = file(page, "main.py").get_attribute("id")
        for query in ("", "?view=split", f"?lines={anchor}-n98-101", f"?comment={anchor}-n98"):
            page.goto(path + query)
            for look in ((1280, "light"), (1280, "dark"), (390, "light"), (320, "dark")):
                resize(page, look)
                assert violations(page, TAGS) == [], (query, look)
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert complaints(page) == []

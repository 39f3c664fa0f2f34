"""The pages in a real Chromium, from a real server: by keyboard alone, without JavaScript, at 320
pixels, in light and dark; and what axe finds, which is nothing.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from django.template.loader import render_to_string
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.server import Server
from tests.web.chromium import SHIFTS, chromium, complaints, new_page, resize, violations
from tests.web.live_site import sign_in
from tests.web.markup import flaws
from tests.web.page_client import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.once]
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
from apps.pulls.actions import add_draft_comment, comment_on_line, create_pull, set_reviewers
from apps.pulls.places import LinePlace
from apps.repos.access import access_to
from apps.repos.actions import add_approver, create_fork, create_protection, create_repo
from apps.site.models import SiteSettings
from apps.teams.access import access_to_team
from apps.teams.actions import create_bot, create_bot_token, create_team
from apps.threads.actions import create_reply, create_thread
from tests.browse.code import code_of, push
from tests.ssh_keys import ssh_key_of
from tests.web.hostile_webhooks import add_webhooks

SiteSettings.load()
SiteSettings.objects.update(
    signup_invite_creators="users", signups_require_invite=False, rate_limits_enabled=False
)
people = [
    create_user(principal=None, username=f"Ada{{n}}", password={PASSWORD!r}) for n in range(4)
]
create_user(principal=None, username="Sam1", password={PASSWORD!r}, is_staff=True)
tokens = [create_token(principal=None, owner=ada, name="W" * 255)[0] for ada in people]
ada, later = people[0], timezone.now() + timedelta(days=1)
space = access_to_user(Principal(ada), ada)
repo = create_repo(access=space, name="Api", slug="a" * 100, visibility="public")
access = access_to(Principal(ada), repo)
hostile = {{"title": {HOSTILE!r}, "body": {HOSTILE!r}}}
thread = create_thread(access=access, kind="issue", priority="urgent", **hostile)
number = None
for level in range(9):
    number = create_reply(
        access=access, thread=thread, kind="w" * 30, body={HOSTILE!r}, parent_reply_number=number
    ).number
protection = create_protection(access=access, branch="p" * 200 + "/*")
add_approver(access=access, protection=protection, user=people[1])
reader = Principal(people[1])
create_fork(access=access_to(reader, repo), into=access_to_user(reader, people[1]))
pull = create_pull(access=access, source_branch="b" * 255, target_branch="main", **hostile)
set_reviewers(access=access, pull=pull, reviewers=["Ada1", "Ada2"])
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
files[b"hidden.txt"] = "a = '\u202eabc\u2069' # \u2069def\\n".encode()
last = code.commit_with(files, first, message={HOSTILE!r} + "\\n\\nText.")
push(repo, "refs/heads/main", first, by=ada)
push(repo, {BRANCH!r}, last, by=ada)
push(repo, {BRANCH!r}.replace("heads", "tags"), last, by=ada)
changed = create_pull(
    access=access, source_branch={BRANCH!r}[11:], target_branch="main", **hostile
)
suggestion = "```suggestion\\n" + {HOSTILE!r} + "W" * 300 + "\\n```"
comment_on_line(
    access=access, pull=changed, place=LinePlace(last, b"app.py", 1), body=suggestion
)
draft = add_draft_comment(
    access=access, pull=changed, commit_sha=last, path="app.py", line=2, body={HOSTILE!r}
)
files[b"hidden.txt"] += b"# " + b"W" * 300 + "\u202e\\n".encode()
amended = code.commit_with(files, first, message={HOSTILE!r} + "\\n\\nAnother text.")
push(repo, {BRANCH!r}, amended, by=ada)
other = access_to(Principal(people[1]), repo)
create_reply(access=other, thread=thread, kind="comment", body="@Ada0")
create_pull(access=other, source_branch="c" * 255, target_branch="main", **hostile)
create_protection(access=access, branch="main")
team = create_team(principal=Principal(ada), name={HOSTILE!r}, slug="t" * 64)
of_team = access_to_team(Principal(ada), team)
bot = create_bot(access=of_team, username="b" * 39, display_name={HOSTILE[:50]!r})
bot_token, _ = create_bot_token(access=of_team, bot=bot, name="W" * 255, permission="read")
invite = create_invite(principal=Principal(ada), expires_at=later, email="a" * 60 + "@example.org")
webhooks = add_webhooks({{"": access, "team_": of_team}}, later, {HOSTILE!r})
print(json.dumps({{
    **webhooks,
    "ssh_key": str(ssh_key_of(ada, user=ada, title={HOSTILE!r}).uuid),
    "deploy_key": str(ssh_key_of(ada, repo=access.repo, title="W" * 255, can_write=True).uuid),
    "token": str(tokens[0].uuid), "bot_token": str(bot_token.uuid), "invite": str(invite.uuid),
    "protection": str(protection.uuid), "approver": str(people[1].uuid),
    "reset": f"token={{reset_proof(people[2])}}",
    "proof": address_proof(ada, "a" * 60 + "@example.org"),
    "commit": last, "draft": str(draft.uuid),
}}))
"""
"""Print, as JSON, the values for addresses of pages; runs on the server."""
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OF_A_THEME = ["color-contrast", "link-in-text-block"]
"""The axe rules whose result may depend on the theme."""
NARROW, PHONE, WIDE = 320, 390, 1280
WINDOWS = [(NARROW, WIDE), pytest.param((PHONE,), marks=pytest.mark.long)]
"""Widths of windows in CSS pixels. A phone gets the layout of the narrowest."""
PUBLIC = ["/", "/api/", "/signin", "/signup", "/signup?invite={invite}", "/reset", "/reset/sent"]
PUBLIC += ["/reset/new?{reset}", "/nowhere", "/settings/appearance"]
SIGNED_IN = ["/", "/signin", "/signup", "/settings", "/settings/password", "/settings/tokens"]
SIGNED_IN += ["/settings/sessions", "/settings/keys", "/settings/keys/{ssh_key}/delete"]
SIGNED_IN += [f"/settings/second-factor{below}" for below in ("", "/app", "/codes", "/remove")]
SIGNED_IN += ["/settings/tokens/{token}/revoke", "/settings/tokens/{token}/rotate"]
SIGNED_IN += ["/settings/invites"]
SIGNED_IN += ["/settings/invites/{invite}/delete", "/settings/email?token={proof}"]
SIGNED_IN += ["/settings/appearance", "/new/team", "/new/repo"]
REPO = f"/users/Ada0/{'a' * 100}"
FOR_ALL = ["/users/Ada0", REPO, f"{REPO}/activity", f"{REPO}/threads", f"{REPO}/threads/1"]
FOR_ALL += [f"{REPO}/pulls", f"{REPO}/pulls/2", f"{REPO}/forks"]
FOR_ALL += [f"{REPO}/threads/1/versions", f"{REPO}/threads/1/replies/2/versions"]
FILE = quote(HOSTILE.replace("/", "|"))
FOR_ALL += [f"{REPO}/files", f"{REPO}/files/{FILE}", f"{REPO}/files/{'W' * 200}/{FILE}"]
FOR_ALL += [f"{REPO}/files/app.py?ref={quote(BRANCH)}", f"{REPO}/commits", f"{REPO}/branches"]
FOR_ALL += [f"{REPO}/commits/{{commit}}", f"{REPO}/commits/{{commit}}?view=split"]
FOR_ALL += [f"{REPO}/compare", f"{REPO}/compare?head={quote(BRANCH)}", f"{REPO}/pulls/3"]
FOR_ALL += [f"{REPO}/pulls/3/commits", f"{REPO}/pulls/3/files", f"{REPO}/tags"]
FOR_ALL += [f"{REPO}/pulls/2/compare", f"{REPO}/pulls/3/compare/1...2"]
FOR_ADA = [f"{REPO}/threads/new", f"{REPO}/threads/1/edit", f"{REPO}/threads/1/delete", "/teams"]
FOR_ADA += [f"{REPO}/threads/1/replies/9/{act}" for act in ("reply", "edit", "delete")]
FOR_ADA += [
    f"{REPO}/pulls/3/{below}"
    for below in ("draft/discard", "draft/{draft}/edit", "draft/{draft}/delete")
]
FOR_ADA += [f"{REPO}/pulls/3/apply-suggestions"]
FOR_ADA += [f"{REPO}/pulls/new", f"{REPO}/pulls/2/edit", f"/teams/{'t' * 64}"]
FOR_ADA += [f"/teams/{'t' * 64}/~members", f"/teams/{'t' * 64}/~members/Ada0/remove"]
FOR_ADA += [f"/teams/{'t' * 64}/~settings", f"/teams/{'t' * 64}/~settings/active"]
BOTS = f"/teams/{'t' * 64}/~settings/bots"
FOR_ADA += [BOTS, f"/users/{'b' * 39}"]
FOR_ADA += [
    f"{BOTS}/{'b' * 39}{below}"
    for below in (
        "",
        "/name",
        "/delete",
        "/tokens/{bot_token}/rotate",
        "/tokens/{bot_token}/revoke",
    )
]
FOR_ADA += ["/settings/export", "/settings/delete"]
FOR_ADA += [f"/teams/{'t' * 64}/~settings/delete", f"{REPO}/settings/delete"]
FOR_ADA += [f"{REPO}/settings", f"{REPO}/settings/protections", f"{REPO}/settings/keys"]
FOR_ADA += [f"{REPO}/settings/keys/{{deploy_key}}/delete"]
FOR_ADA += [
    f"{REPO}/settings/protections/{{protection}}{below}"
    for below in ("", "/delete", "/approvers/{approver}/remove")
]
FOR_ADA += [f"/teams/{'t' * 64}/~settings/audit"]
WEBHOOKS = f"{REPO}/settings/webhooks", f"/teams/{'t' * 64}/~settings/webhooks"
FOR_ADA += WEBHOOKS
for path, hook, delivery in zip(
    WEBHOOKS, ("hook", "team_hook"), ("delivery", "team_delivery"), strict=True
):
    one = f"{path}/{{{hook}}}"
    FOR_ADA += [one, f"{one}/rotate", f"{one}/delete", f"{one}/deliveries/{{{delivery}}}"]
FOR_ADA += ["/", "/inbox", "/inbox?unread=false", "/activity", "/activity?scope=user:Ada1"]
FOR_ADA += [f"/pulls?show={show}" for show in ("you", "others", "done")]
FOR_ADA += [f"/search?type={sort}" for sort in ("repos", "pulls", "threads", "users")]
FOR_ADA += [f"/search?q={'W' * 200}", f"/teams/{'t' * 64}/~activity"]
"""Pages with content by people, with hostile names and texts."""
NOT_FOUND = "Failed to load resource: the server responded with a status of 404 (Not Found)"
LOADED = "performance.getEntriesByType('resource').map(one => one.name)"
EXCESS_WIDTH = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
HEADINGS = "document.querySelectorAll('h1').length"
REPEATED_IDS = """[...document.querySelectorAll('[id]')].map(one => one.id)
    .filter((id, place, all) => all.indexOf(id) < place)"""
FOCUSED = """() => {
    const focused = document.activeElement;
    const style = getComputedStyle(focused);
    return [focused.name || focused.innerText, style.outlineStyle, style.outlineWidth];
}"""
"""The focused element, by its name or text, and its outline."""


@dataclass(frozen=True)
class Site:
    url: str
    browser: Browser
    values: dict[str, str]
    """Parts of addresses, as `DATA` prints them."""
    signed_in: dict[str, StorageState]
    """The cookies of Ada0, the owner, Ada3, a stranger, and Sam1, who is staff."""

    @contextmanager
    def watched(self, who: str | None) -> Iterator[Page]:
        """A new window, signed in or not, that records layout shifts."""
        signed_in = {"storage_state": self.signed_in[who]} if who else {}
        with new_page(self.browser, self.url, **signed_in) as page:
            page.add_init_script(SHIFTS)
            yield page


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("browser")
    with new_server(folder) as server, chromium(folder) as browser:
        values, names = json.loads(server.run(DATA)), ("Ada0", "Ada3", "Sam1")
        cookies = {name: cookies_of(browser, server.url, name) for name in names}
        yield Site(server.url, browser, values, cookies)


def cookies_of(browser: Browser, url: str, name: str) -> StorageState:
    with new_page(browser, url) as page:
        sign_in(page, name)
        return page.context.storage_state()


@pytest.fixture
def page(site: Site) -> Iterator[Page]:
    """The window of an anonymous person."""
    with new_page(site.browser, site.url) as page:
        yield page


@pytest.fixture(scope="module")
def window(site: Site) -> Iterator[Callable[[str | None], Page]]:
    """`window("Ada0")` is hers, `window(None)` has no cookies; tests that only read share it."""
    with ExitStack() as opened:
        made = cache(lambda who: opened.enter_context(site.watched(who)))

        def given(who: str | None) -> Page:
            page: Page = made(who)
            if not who:
                page.context.clear_cookies()
            page.clear_console_messages()
            page.clear_page_errors()
            return page

        yield given


def check(page: Page, where: str) -> None:
    """axe finds nothing, no part is wider than the window; one main heading, and unique ids."""
    assert not violations(page, TAGS), where
    assert page.evaluate(f"[{EXCESS_WIDTH}, {HEADINGS}, {REPEATED_IDS}]") == [0, 1, []], where


def check_in_themes(page: Page, where: str) -> None:
    """Run `check` in the light and the dark theme."""
    page.emulate_media(color_scheme="light")
    check(page, where)
    page.emulate_media(color_scheme="dark")
    assert not violations(page, OF_A_THEME), f"{where}, dark"


def check_path(page: Page, path: str, widths: Sequence[int]) -> None:
    """In windows of these widths nothing moves, HTML and `check` are right, the page fits, and the
    browser logs no error besides the status of a missing page.
    """
    for width in widths:
        resize(page, (width, "dark"))
        answer = page.goto(path)
        assert answer
        assert flaws(answer.text()) == [], path
        check_loaded(page, path)
        assert page.evaluate("window.shifts") == [], path
        check_in_themes(page, f"{path} at {width}")
    for width in {NARROW, PHONE, WIDE} - {*widths}:
        resize(page, (width, "light"))
        assert page.evaluate(EXCESS_WIDTH) == 0, f"{path} at {width}"
    expected = [f"{NOT_FOUND} {page.url}"] * len(widths) if path == "/nowhere" else []
    assert complaints(page) == expected


def site_of(page: Page) -> str:
    return "{0.scheme}://{0.netloc}".format(urlsplit(page.url))


def check_loaded(page: Page, path: str) -> None:
    """Only style, script and icon are loaded, and the stream and pictures of a README."""
    loaded = [name.removeprefix(site_of(page)) for name in page.evaluate(LOADED)]
    others = [name for name in loaded if not name.startswith("/static/")]
    assert len(loaded) - len(others) <= 3, f"{path}: {loaded}"
    assert all(re.match(r"/api/v1/|/users/\w+/\w+/raw/", name) for name in others), others


def expect_heading(page: Page, text: str) -> None:
    """Wait until a page with this main heading is loaded completely."""
    expect(page.locator("h1")).to_have_text(text)
    page.wait_for_load_state()


def focused(page: Page) -> str:
    return " ".join(page.evaluate(FOCUSED)[0].split())


def tab_to(page: Page, name: str) -> None:
    """Press Tab until this element has the focus, which has to be visible on the way."""
    for _ in range(30):
        page.keyboard.press("Tab")
        _, style, width = page.evaluate(FOCUSED)
        assert (style, width) == ("solid", "2px"), f"{focused(page)} has no outline"
        if focused(page) == name:
            return
    raise AssertionError(f"Tab does not reach {name}")


@pytest.mark.parametrize("widths", WINDOWS, ids=str)
@pytest.mark.parametrize("path", PUBLIC)
def test_axe_finds_nothing_for_anybody(site, window, path, widths):
    check_path(window(None), path.format(**site.values), widths)


@pytest.mark.parametrize("widths", WINDOWS, ids=str)
@pytest.mark.parametrize("path", SIGNED_IN)
def test_axe_finds_nothing_for_who_is_signed_in(site, window, path, widths):
    check_path(window("Ada0"), path.format(**site.values), widths)


@pytest.mark.parametrize("widths", WINDOWS, ids=str)
@pytest.mark.parametrize(("who", "paths"), [(None, FOR_ALL), ("Ada0", FOR_ALL + FOR_ADA)])
def test_hostile_names_and_texts_do_nothing_on_any_page(site, who, paths, widths):
    visit_all(site, who, paths, widths)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["Ada3", "Sam1"])
def test_strangers_and_staff_find_the_same_pages_in_order(site, who):
    """Strangers are offered other things than members and anonymous people."""
    visit_all(site, who, FOR_ALL, (NARROW,))


def visit_all(site: Site, who: str | None, paths: list[str], widths: Sequence[int]) -> None:
    with site.watched(who) as page:
        titles: dict[str, str] = {}
        for path in paths:
            check_path(page, path.format(**site.values), widths)
            first = titles.setdefault(page.title(), path)
            assert urlsplit(first).path == urlsplit(path).path, f"{first} and {path}: one title"


def records(answer: Any) -> list[dict[str, Any]]:
    found = answer.get("results", [answer])
    return [one for one in found if "web_url" in one]


def test_every_web_url_opens_its_record_to_whom_the_api_gives_it(site, page):
    api = f"/api/v1/users/Ada0/repos/{'a' * 100}"
    paths = [api, f"{api}/threads", f"{api}/pulls", f"{api}/threads/1/replies", f"{api}/commits"]
    for record in [one for path in paths for one in records(page.request.get(path).json())]:
        answer = page.goto(record["web_url"])
        assert answer and answer.status == 200, record["web_url"]
        said = record.get("title") or record.get("thread_title") or record.get("subject")
        heading = " ".join(page.locator("h1").inner_text().split())
        assert " ".join((said or record.get("name", "")).split())[:60] in heading
    team = f"/teams/{'t' * 64}"
    assert page.request.get(f"/api/v1{team}").status == 401
    page.goto(team)
    expect(page).to_have_url(re.compile("/signin"))
    for who, settings in [("Ada0", 200), ("Ada3", 403)]:
        with new_page(site.browser, site.url, storage_state=site.signed_in[who]) as other:
            answers = [other.goto(f"{team}{below}") for below in ("", "/~settings")]
            assert [one and one.status for one in answers] == [200, settings]


MARKS = """[...document.querySelectorAll('[type=radio], [type=checkbox]')].map(one =>
    [one.name, one.getBoundingClientRect().width, one.getBoundingClientRect().height])"""
"""Each radio button and checkbox of a page, with its computed size."""


@pytest.mark.parametrize("width", [PHONE, WIDE])
def test_radio_buttons_and_checkboxes_are_as_small_as_their_mark_on_every_form(site, width):
    paths = ["/settings/appearance", "/settings", "/new/repo"]
    paths += [f"{REPO}/settings", f"{REPO}/settings/protections"]
    seen = set()
    with site.watched("Ada0") as page:
        resize(page, (width, "light"))
        for path in paths:
            page.goto(path)
            marks = page.evaluate(MARKS)
            assert [one for one in marks if one[1:] != [16, 16]] == [], path
            seen |= {name for name, _, _ in marks}
    assert {"theme", "has_shortcuts", "visibility"} <= seen


def test_what_is_copied_of_code_has_no_numbers_and_no_signs(site, page):
    select = "getSelection().selectAllChildren(document.querySelector('.lines'))"
    copied = f"{select}, String(getSelection())"
    page.goto(f"{REPO}/commits/{site.values['commit']}?file=app.py")
    assert page.locator(".lines .add").count() and page.locator(".lines a[data-n]").count()
    lines = ["def run():", "    return 1  # " + "W" * 300, "def run(number):", "    return number"]
    assert lines_in(page.evaluate(copied)) == lines
    page.goto(f"{REPO}/files/app.py?ref={quote(BRANCH)}")
    assert lines_in(page.evaluate(copied)) == lines[2:]


LONGEST_NAME = """name => {
    const [face, link, role] = document.querySelector("aside li.row").children;
    link.textContent = name;
    const [a, b, c] = [face, link, role].map(one => one.getBoundingClientRect());
    const range = document.createRange();
    range.selectNodeContents(role);
    return a.right <= b.left && b.right <= c.left && a.top < b.bottom && c.top < b.bottom
        && range.getClientRects().length === 1;
}"""
"""Whether the parts of a member stay beside each other with this name, and the role on one line."""


@pytest.mark.parametrize("width", [NARROW, PHONE, WIDE])
def test_the_row_of_a_member_stays_whole_however_long_the_name_is(site, width):
    with site.watched("Ada0") as page:
        resize(page, (width, "light"))
        page.goto(f"/teams/{'t' * 64}")
        assert page.evaluate(LONGEST_NAME, "W" * 39)
        assert page.evaluate(EXCESS_WIDTH) == 0


def test_lines_that_are_gone_have_numbers_on_a_phone_too(site, page):
    resize(page, (PHONE, "light"))
    page.goto(f"{REPO}/commits/{site.values['commit']}?file=app.py")
    for kind in ("del", "add"):
        numbers = page.locator(f".lines .n.{kind} a:visible")
        assert numbers.count() == page.locator(f".lines .c.{kind}").count() > 0
    assert page.evaluate(EXCESS_WIDTH) == 0


PLACES = """() => {
    const mark = document.querySelector('.lines .hidden-char'), range = document.createRange();
    const after = mark.nextSibling, left = at => {
        range.setStart(after, at);
        range.setEnd(after, at + 1);
        return range.getBoundingClientRect().left;
    };
    return [mark.getBoundingClientRect().right, left(0), left(1), left(2)];
}"""
"""The end of a hidden character, and the starts of the three characters after it."""


def test_a_hidden_character_is_seen_turns_nothing_and_is_copied_alone(site, page):
    page.goto(f"{REPO}/files/hidden.txt?ref={quote(BRANCH)}")
    places = page.evaluate(PLACES)
    assert places == sorted(places)
    assert page.locator(".lines .hidden-char").first.bounding_box()["width"] > 20
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.lines td.c'))")
    assert page.evaluate("String(getSelection())").strip() == "a = '\u202eabc\u2069' # \u2069def"
    for width in (NARROW, WIDE):
        resize(page, (width, "light"))
        check_in_themes(page, "hidden.txt")


def test_several_lines_of_a_file_are_marked_by_the_address_and_by_clicks(site, page):
    path = f"{REPO}/files/app.py?ref={quote(BRANCH)}"
    page.goto(f"{path}#L1-L2")
    marked = page.locator(".lines .marked")
    expect(marked).to_have_count(2)
    page.locator(".lines a[data-n='2']").click()
    expect(marked).to_have_count(0)
    expect(page).to_have_url(f"{path}#L2")
    page.locator(".lines a[data-n='1']").click(modifiers=["Shift"])
    expect(page).to_have_url(f"{path}#L2-L1")
    expect(marked).to_have_count(2)
    assert complaints(page) == []


def lines_in(text: str) -> list[str]:
    """The lines of a copied text, without the tabs that separate the cells of a table."""
    return [line.strip("\t") for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize(("status", "is_full"), [(500, False), (503, False), (503, True)])
def test_axe_finds_nothing_on_what_is_shown_without_a_database(page, status, is_full):
    html = render_to_string(f"web/{status}.html", {"is_full": is_full})
    page.goto("/")
    page.set_content(html)
    assert page.evaluate("document.styleSheets.length")
    for width in (NARROW, PHONE, WIDE):
        resize(page, (width, "light"))
        check_in_themes(page, f"{status} at {width}")


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
    tab_to(page, "reach")
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    expect(page.get_by_text("Copy it now")).to_be_visible()
    expect_heading(page, "Tokens")
    check(page, "the new token")
    page.set_viewport_size({"width": NARROW, "height": 800})
    assert page.evaluate(EXCESS_WIDTH) == 0
    page.set_viewport_size({"width": WIDE, "height": 800})
    tab_to(page, "Revoke laptop")
    keyboard.press("Enter")
    expect_heading(page, "Revoke laptop?")
    tab_to(page, "Revoke token")
    keyboard.press("Space")
    expect(page.get_by_text("Token laptop revoked.")).to_be_visible()
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
        page.check("[name=reach][value=all]")
        page.get_by_role("button", name="Create token").click()
        expect(page.locator("input.secret")).to_be_visible()
        page.get_by_role("link", name="Rotate phone").click()
        page.get_by_role("button", name="Rotate token").click()
        expect(page.locator("input.secret")).to_be_visible()
        page.get_by_role("link", name="Back to your tokens").click()
        page.get_by_role("link", name="Revoke phone").click()
        page.get_by_role("button", name="Revoke token").click()
        expect(page.get_by_text("Token phone revoked.")).to_be_visible()
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
    expect(page.get_by_text("Saved.")).to_be_visible()
    assert page.evaluate(paper) != light
    page.goto("/signin")
    assert page.evaluate(paper) != light
    assert complaints(page) == []

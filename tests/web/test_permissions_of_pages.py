"""The permission table holds for pages. Each operation of `permissions.csv` is tried on the page
that does the same, by the same people, with the same rows. A page answers 303 on success, and asks
to sign in instead of 401; anonymous people can read public repositories.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

from apps.accounts.models import User
from tests.permission_cases import CELLS, PEOPLE, Cell, PermissionCase
from tests.routes import routed
from tests.sample_data import SampleData
from tests.test_permissions import OWNERS, undone, writing
from tests.web.page_client import PageClient, PageResponse
from tests.web.test_limits import NOT_COUNTED

pytestmark = pytest.mark.once
Fields = dict[str, Any]


@dataclass(frozen=True)
class Page:
    """The page of an operation.

    `path` is its address, with the names of the API's path. `fields` are submitted beside the body
    of the row; None for a page that is only read. `form` is the address of the form, if it is
    another one; "" if it has no page of its own.
    """

    path: str
    fields: Fields | Callable[[Fields], Fields] | None = None
    form: str | None = None
    cases: tuple[str, ...] | None = None
    """The cases of the table for this page; None for all."""
    is_public: bool = False
    """Whether anonymous people can read it for a public repository."""

    @property
    def method(self) -> str:
        return "GET" if self.fields is None else "POST"


REPO = "/{owner}/repos/{repo_slug}"
IN_REPO = "/{owner}/{repo_slug}"
SETTINGS = f"{IN_REPO}/settings"
PROTECTION = f"{SETTINGS}/protections/{{protection_uuid}}"
THREAD, PULL = f"{REPO}/threads/{{number}}", f"{REPO}/pulls/{{number}}"
OF_THREAD, OF_PULL = f"{IN_REPO}/threads/{{number}}", f"{IN_REPO}/pulls/{{number}}"
OF_REPLY = f"{OF_THREAD}/replies/{{reply_number}}"
MEMBERS = "/teams/{team_slug}/~members"
BOTS = "/teams/{team_slug}/~settings/bots"
BOT_TOKENS = "POST /teams/{team_slug}/bots/{username}/api-tokens"
ROTATE_BOT_TOKEN = "PUT /teams/{team_slug}/bots/{username}/api-tokens/{uuid}/rotate"
TEXTS = {"title": "t", "body": "b", "kind": "issue", "priority": "normal", "status": "open"}
OWN, ALL = ("own",), None
ARCH = f"f{hashlib.sha256(b'arch').hexdigest()[:12]}"
"""The file `arch` on the page of a pull."""


def read(path: str, *cases: str) -> Page:
    return Page(path, cases=cases or ("",), is_public=IN_REPO in path or "/teams/{" in path)


def settings_of(body: Fields) -> Fields:
    return {"description": "", "visibility": "private", "default_branch": "main", **body}


AUDIT = "/teams/{team_slug}/~settings/audit"
PAGES: dict[str, Page] = {
    "GET /audit": read("/site/audit"),
    "GET /audit/export": read("/site/audit/export"),
    "GET /teams/{team_slug}/audit": Page(AUDIT),
    "GET /teams/{team_slug}/audit/export": Page(f"{AUDIT}/export"),
    "GET /api-tokens": read("/settings/tokens"),
    "POST /api-tokens": Page("/settings/tokens", {}, cases=("",)),
    "PUT /api-tokens/{uuid}/revoke": Page("/settings/tokens/{uuid}/revoke", {}, cases=OWN),
    "PUT /api-tokens/{uuid}/rotate": Page("/settings/tokens/{uuid}/rotate", {}, cases=OWN),
    "GET /users/self/sessions": read("/settings/sessions"),
    "DELETE /users/self/sessions": Page("/settings/sessions/end", {}, form="/settings/sessions"),
    "DELETE /users/self/sessions/{uuid}": Page(
        "/settings/sessions/{uuid}/end", {}, cases=("of self",), form="/settings/sessions"
    ),
    "GET /signup-invites": read("/settings/invites"),
    "POST /signup-invites": Page("/settings/invites", {"expires_at": "7 days"}),
    "DELETE /signup-invites/{uuid}": Page("/settings/invites/{uuid}/delete", {}),
    "GET /pings": read("/inbox"),
    "PUT /pings/{uuid}/read": Page("/inbox/{uuid}/read", {}, form=""),
    "PUT /pings/read-all": Page("/inbox/read-all", {}, form=""),
    "PUT /users/self": Page("/settings", {"email": ""}),
    "DELETE /users/self": Page("/settings/delete", {"confirm": "{self_name}"}),
    "GET /users/{username}": Page("/users/{username}", cases=("a member",)),
    "GET /teams": read("/teams"),
    "POST /teams": Page("/new/team", {}),
    "GET /teams/{team_slug}": read("/teams/{team_slug}"),
    "PUT /teams/{team_slug}": Page("/teams/{team_slug}/~settings/active", {"is_active": "false"}),
    "DELETE /teams/{team_slug}": Page("/teams/{team_slug}/~settings/delete", {"confirm": "acme"}),
    "GET /teams/{team_slug}/members": Page(MEMBERS),
    "POST /teams/{team_slug}/members": Page(MEMBERS, {}, form=""),
    "PUT /teams/{team_slug}/members/{username}": Page(f"{MEMBERS}/{{username}}/role", {}, form=""),
    "DELETE /teams/{team_slug}/members/{username}": Page(f"{MEMBERS}/{{username}}/remove", {}),
    "POST /teams/{team_slug}/bots": Page(BOTS, {"display_name": "", "role": "member"}),
    "PUT /teams/{team_slug}/bots/{username}": Page(f"{BOTS}/{{username}}/name", {}),
    "DELETE /teams/{team_slug}/bots/{username}": Page(f"{BOTS}/{{username}}/delete", {}),
    BOT_TOKENS: Page(f"{BOTS}/{{username}}", {"permission": "read"}),
    ROTATE_BOT_TOKEN: Page(f"{BOTS}/{{username}}/tokens/{{uuid}}/rotate", {"keep_old": "0s"}),
    "DELETE /teams/{team_slug}/bots/{username}/api-tokens/{uuid}": Page(
        f"{BOTS}/{{username}}/tokens/{{uuid}}/revoke", {}
    ),
    "POST /{owner}/repos": Page(
        "/new/repo?owner={owner}", {"owner": "{owner}", "visibility": "private"}
    ),
    f"GET {REPO}": read(IN_REPO),
    f"PUT {REPO}": Page(SETTINGS, settings_of),
    f"DELETE {REPO}": Page(f"{SETTINGS}/delete", {"confirm": "{full_name}"}),
    f"GET {REPO}/protections": Page(f"{SETTINGS}/protections", cases=()),
    f"POST {REPO}/protections": Page(f"{SETTINGS}/protections", {"required_approvals": "1"}),
    f"PUT {REPO}/protections/{{protection_uuid}}": Page(
        PROTECTION, lambda body: {"branch": "main", "required_approvals": "1", **body}
    ),
    f"DELETE {REPO}/protections/{{protection_uuid}}": Page(f"{PROTECTION}/delete", {}),
    f"POST {REPO}/protections/{{protection_uuid}}/approvers": Page(
        f"{PROTECTION}/approvers", {}, form=PROTECTION
    ),
    f"DELETE {REPO}/protections/{{protection_uuid}}/approvers/{{user_uuid}}": Page(
        f"{PROTECTION}/approvers/{{user_uuid}}/remove", {}
    ),
    f"GET {REPO}/keys": Page(f"{SETTINGS}/keys"),
    f"POST {REPO}/keys": Page(f"{SETTINGS}/keys", {"title": ""}),
    f"DELETE {REPO}/keys/{{uuid}}": Page(f"{SETTINGS}/keys/{{uuid}}/delete", {}),
    "GET /users/self/keys": Page("/settings/keys"),
    "POST /users/self/keys": Page("/settings/keys", {"title": ""}),
    "DELETE /users/self/keys/{uuid}": Page("/settings/keys/{uuid}/delete", {}),
    f"GET {REPO}/forks": read(f"{IN_REPO}/forks"),
    f"POST {REPO}/forks": Page(f"{IN_REPO}/forks", {"owner": "{self}"}, form=""),
    f"GET {REPO}/branches": read(f"{IN_REPO}/branches"),
    f"GET {REPO}/tags": read(f"{IN_REPO}/tags"),
    f"GET {REPO}/commits": read(f"{IN_REPO}/commits"),
    f"GET {REPO}/commits/{{sha}}": read(f"{IN_REPO}/commits/{{sha}}"),
    f"GET {REPO}/tree/{{path}}": read(f"{IN_REPO}/files/{{path}}"),
    f"GET {REPO}/contents/{{path}}": read(f"{IN_REPO}/files/{{path}}"),
    f"GET {REPO}/raw/{{path}}": read(f"{IN_REPO}/raw/{{path}}"),
    f"GET {REPO}/compare/{{basehead}}": read(f"{IN_REPO}/compare"),
    f"GET {PULL}/commits": read(f"{OF_PULL}/commits"),
    f"GET {PULL}/files": read(f"{OF_PULL}/files"),
    f"GET {PULL}/compare/{{versions}}": read(f"{OF_PULL}/compare/{{versions}}"),
    f"GET {REPO}/threads": read(f"{IN_REPO}/threads"),
    f"POST {REPO}/threads": Page(f"{IN_REPO}/threads/new", TEXTS),
    f"GET {THREAD}": read(OF_THREAD),
    f"PATCH {THREAD}": Page(f"{OF_THREAD}/edit", TEXTS),
    f"DELETE {THREAD}": Page(f"{OF_THREAD}/delete", {}),
    f"GET {THREAD}/versions": read(f"{OF_THREAD}/versions"),
    f"POST {THREAD}/replies": Page(f"{OF_THREAD}/replies", TEXTS, form=OF_THREAD),
    f"GET {THREAD}/replies/{{reply_number}}/versions": read(
        f"{OF_REPLY}/versions", "", "deleted already"
    ),
    f"PATCH {THREAD}/replies/{{reply_number}}": Page(f"{OF_REPLY}/edit", TEXTS, cases=OWN),
    f"DELETE {THREAD}/replies/{{reply_number}}": Page(
        f"{OF_REPLY}/delete", {}, cases=("own", "another's")
    ),
    f"GET {REPO}/pulls": read(f"{IN_REPO}/pulls"),
    f"POST {REPO}/pulls": Page(f"{IN_REPO}/pulls/new", {"status": "open"}),
    f"GET {PULL}": read(OF_PULL),
    f"PUT {PULL}": Page(f"{OF_PULL}/edit", {"title": "t", "body": ""}),
    f"PUT {PULL}/status": Page(f"{OF_PULL}/status", {}, form=""),
    f"POST {PULL}/merge": Page(
        f"{OF_PULL}/merge", {"merge_strategy": "merge", "expected_head_sha": "{head}"}, form=""
    ),
    f"PUT {PULL}/reviewers": Page(
        f"{OF_PULL}/reviewers", {"reviewers": "", "remove": "{asked}"}, form=""
    ),
    f"PUT {PULL}/auto-merge": Page(
        f"{OF_PULL}/auto-merge", {"merge_strategy": "merge", "expected_head_sha": "{head}"}, form=""
    ),
    f"DELETE {PULL}/auto-merge": Page(f"{OF_PULL}/auto-merge/cancel", {}, form=""),
    f"PUT {PULL}/viewed": Page(f"{OF_PULL}/viewed", {"viewed": ARCH}, form=""),
    f"PUT {PULL}/update-branch": Page(
        f"{OF_PULL}/update-branch", {"expected_head_sha": "{head}"}, form=""
    ),
    f"PUT {PULL}/source-branch": Page(f"{OF_PULL}/source-branch/restore", {}, form=""),
    f"DELETE {PULL}/source-branch": Page(f"{OF_PULL}/source-branch/delete", {}, form=""),
    f"POST {PULL}/reviews": Page(f"{OF_PULL}/reviews", {}, form=""),
    f"POST {PULL}/reviews/draft/submit": Page(f"{OF_PULL}/reviews", {"draft": "yes"}, form=""),
    f"DELETE {PULL}/reviews/draft": Page(f"{OF_PULL}/draft/discard", {}),
    f"PUT {PULL}/reviews/draft/comments/{{comment_uuid}}": Page(
        f"{OF_PULL}/draft/{{comment_uuid}}/edit", {"kind": "comment"}
    ),
    f"DELETE {PULL}/reviews/draft/comments/{{comment_uuid}}": Page(
        f"{OF_PULL}/draft/{{comment_uuid}}/delete", {}
    ),
    f"POST {PULL}/apply-suggestions": Page(
        f"{OF_PULL}/apply-suggestions", {"expected_head_sha": "{head}"}
    ),
}
WEBHOOKS = {
    f"{REPO}/webhooks": f"{SETTINGS}/webhooks",
    "/teams/{team_slug}/webhooks": "/teams/{team_slug}/~settings/webhooks",
    "/webhooks": "/site/webhooks",
}
"""The pages of webhooks by their path in the API."""
for api_path, path in WEBHOOKS.items():
    api_one, one = (f"{below}/{{webhook_uuid}}" for below in (api_path, path))
    api_delivery, delivery = (f"{below}/deliveries/{{delivery_uuid}}" for below in (api_one, one))
    fields = {"url": "https://ci.example.org/hook", "description": ""}
    PAGES |= {
        f"GET {api_path}": Page(path),
        f"POST {api_path}": Page(path, fields),
        f"GET {api_one}": Page(one),
        f"PUT {api_one}": Page(one, fields),
        f"DELETE {api_one}": Page(f"{one}/delete", {}),
        f"PUT {api_one}/rotate-secret": Page(f"{one}/rotate", {"keep_old_hours": "24"}),
        f"POST {api_one}/ping": Page(f"{one}/ping", {}, form=""),
        f"GET {api_one}/deliveries": Page(one),
        f"GET {api_delivery}": Page(delivery),
        f"POST {api_delivery}/redeliver": Page(f"{delivery}/redeliver", {}, form=""),
    }
NO_BOTS = [cell for cell in CELLS if cell.who != "B"]
"""Bots have no pages: they cannot sign in."""
ARCHIVE = Page(f"{SETTINGS}/archive", {}, form="")
VISIT = re.compile("django_session|browsersession|last_seen_at|seenversion")
"""In statements that store the first visit of a session, or of a version of a pull."""
CREATED = {
    "POST /api-tokens": 201,
    "PUT /api-tokens/{uuid}/rotate": 201,
    BOT_TOKENS: 201,
    ROTATE_BOT_TOKEN: 201,
    **{f"POST {path}": 201 for path in WEBHOOKS},
    **{f"PUT {path}/{{webhook_uuid}}/rotate-secret": 200 for path in WEBHOOKS},
}
"""Pages that answer a success with another status than 303: a new text is shown once."""


def page_of(cell: Cell) -> Page | None:
    """The page of this row; None if there is none."""
    body = cell.body or {}
    if cell.operation == f"PUT {REPO}" and "is_archived" in body:
        return ARCHIVE
    if cell.operation == f"PUT {PULL}" and "status" in body:
        return Page(f"{OF_PULL}/status", {}, form="")
    if cell.operation == "POST /signup-invites":
        return Page("/settings/invites", lambda _: {"email": "", "expires_at": "7 days"})
    page = PAGES.get(cell.operation)
    if page is None or (page.cases is not None and cell.case not in page.cases):
        return None
    return page


def expected(cell: Cell, page: Page) -> int:
    """The status of the page for a status of the API."""
    if cell.status == 401:
        if page.is_public and cell.visibility == "public":
            return 404 if cell.case == "deleted already" else 200
        return 401 if page.method == "POST" else 302
    if cell.status >= 400:
        return cell.status
    return 200 if page.method == "GET" else CREATED.get(cell.operation, 303)


class Try:
    """Try one cell on its page."""

    def __init__(self, case: PermissionCase, api_path: str) -> None:
        self.case, name = case, PEOPLE[case.cell.who]
        user = User.objects.get(pk=case.person.pk) if name else None
        self.client = PageClient(user)
        template = case.cell.operation.partition(" ")[2]
        template = template.replace("{owner}", "(?P<owner>[^/]+/[^/]+)")
        template = re.sub(r"(?<!P<owner>){(\w+)}", r"(?P<\1>[^/]+)", template)
        path, _, self.query = api_path.partition("?")
        found = re.fullmatch(template, path)
        assert found, api_path
        self.names = found.groupdict()
        self.names["self_name"] = user.username if user else "nobody"
        self.names["full_name"] = case.repo.full_name
        self.names["self"] = user.path if user else "users/nobody"
        self.names["asked"] = getattr(case, "asked", "")
        self.names["head"] = getattr(getattr(case, "of", None), "head_sha", None) or "1" * 40

    def fill(self, text: Any) -> Any:
        return text.format(**self.names) if isinstance(text, str) else text

    def fields(self, page: Page) -> Fields:
        body = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in (self.case.cell.body or {}).items()
        }
        given = page.fields or {}
        sent = given(body) if callable(given) else {**given, **body}
        return {name: self.fill(value) for name, value in sent.items()}

    def send(self, page: Page) -> PageResponse:
        path = self.fill(page.path)
        if page.method == "GET":
            return self.client.get(f"{path}?{self.query}" if "ref=" in self.query else path)
        return self.client.post(path, **self.fields(page))


def rows() -> Iterator[Any]:
    """The cells of each row with a page, one owner at a time."""
    found: dict[str, list[Cell]] = {}
    for cell in NO_BOTS:
        if page_of(cell) is not None:
            words = [cell.operation.replace("{owner}", cell.owner), cell.case, cell.body or ""]
            found.setdefault(" ".join(filter(None, map(str, words))), []).append(cell)
    for name, cells in found.items():
        yield pytest.param(cells, id=name, marks=OWNERS[cells[0].owner])


@pytest.mark.parametrize("cells", list(rows()))
def test_a_page_lets_each_person_do_exactly_what_the_table_says(
    cells: list[Cell], sample: SampleData, db: None, tmp_path_factory: Any, case: Any
) -> None:
    for cell in cells:
        page = page_of(cell)
        assert page
        with case(str(cell)), undone():
            permission_case = PermissionCase(cell, sample, tmp_path_factory)
            attempt = Try(permission_case, permission_case.request()[1])
            status = expected(cell, page)
            form = page.path if page.form is None else page.form
            if form and page.method == "POST" and status in {200, 201, 303, 403}:
                shown = attempt.client.get(attempt.fill(form))
                assert shown.status == (403 if status == 403 else 200), f"the form {form}"
            with writing() as written:
                answer = attempt.send(page)
            assert answer.status == status, f"{answer.status} {answer.text[:500]}"
            changes = page.method == "POST" and status < 400
            if not changes and status != 409:  # with 409 the database has undone what was written
                assert not [sql for sql in written if not VISIT.search(sql)]


STATE = "its button changes a field of the webhook, which is tried on its page"
UNTRIED = {
    "site/webhooks/{}/state": STATE,
    "teams/{}/~settings/webhooks/{}/state": STATE,
    "{}/{}/settings/webhooks/{}/state": STATE,
    "reset": "a way to sign in",
    "reset/new": "a way to sign in",
    "settings/appearance": "the API has no pages to look at",
    "settings/email": "a way to sign in",
    "settings/password": "a way to sign in",
    "settings/second-factor/app": "a way to sign in",
    "settings/second-factor/codes": "a way to sign in",
    "settings/second-factor/passkeys": "a way to sign in",
    "settings/second-factor/passkeys/create": "a way to sign in",
    "settings/second-factor/passkeys/{}/remove": "a way to sign in",
    "settings/second-factor/remove": "a way to sign in",
    "signin": "a way to sign in",
    "signin/code": "a way to sign in",
    "signout": "a way to sign in",
    "signup": "a way to sign in",
    "teams/{}/~settings": "its row is tried on the page that retires a team",
    "unsubscribe": "its link says who asks",
    "{}/{}/pulls/{}/comments/{}": "tried by tests/web/test_pull_files.py",
    "{}/{}/pulls/{}/comments/{}/reply": "tried by tests/web/test_pull_files.py",
    "{}/{}/pulls/{}/comments/{}/status": "tried by tests/web/test_pull_files.py",
    "{}/{}/threads/{}/replies/{}/reply": "tried on the page of replies to the thread",
}
"""Pages that accept a POST and have no row in the table, and why."""


def shape(path: str) -> str:
    """An address of the table above, or of a route, with placeholders for its names."""
    text = re.sub(r"<\w+:(\w+)>", r"{\1}", path).partition("?")[0].lstrip("/")
    text = re.sub(r"^(teams/{team_slug}|users/{username})/{repo_slug}", "{owner}/{repo_slug}", text)
    return re.sub(r"{\w+}", "{}", text)


def test_every_page_that_changes_something_is_tried() -> None:
    tried = {shape(one.path) for one in [*PAGES.values(), ARCHIVE] if one.method == "POST"}
    routes = import_module("apps.web.routes").urlpatterns
    posts = {shape(str(one.pattern)) for one in routes if "POST" in one.callback.methods}
    assert posts - tried == set(UNTRIED) and tried <= posts
    assert set(PAGES) <= {cell.operation for cell in CELLS}


def test_a_form_counts_for_the_rate_limit_of_what_does_the_same_over_the_api() -> None:
    routes = import_module("apps.web.routes").urlpatterns
    forms = [one for one in routes if "POST" in one.callback.methods]
    counted = {shape(str(one.pattern)): one.callback.throttle for one in forms}
    assert {path for path, scope in counted.items() if scope is None} == NOT_COUNTED
    tags = {str(one): one.viewset.schema_tags for one in routed()}
    own = {}
    for operation, page in PAGES.items():
        if page.method == "POST":
            [own[shape(page.path)]] = tags[operation.replace("/{owner}/", "/teams/{team_slug}/")]
    assert own.pop("settings") == "users" and counted["settings"] == "login"
    assert own == {path: counted[path] for path in own}
    assert set(counted.values()) - {None, "login", "signup"} == set(own.values()) | {"users"}

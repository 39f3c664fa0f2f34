"""Pages follow the API: forms have its lengths, choices and rules, `/api/` names its operations."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django import forms
from django.http import QueryDict

import config.urls  # noqa: F401 - the modules of pages need its converters
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.serializers import RuleCharField, StrictChoiceField, StrictIntegerField, validated
from apps.web.forms import NewToken, PageForm
from apps.web.responses import PageRequest
from apps.web.templatetags.guildhall import with_code
from tests.routes import described, routed

pytestmark = pytest.mark.once
WEB = Path(__file__).parents[2] / "apps" / "web"
OF_PAGES_ALONE = {
    "Appearance": "the API has no pages to look at",
    "ConfirmDeletion": "the API has its one word in the address",
    "ConfirmedForm": "confirms who is signed in",
    "NewAuthenticator": "a way to sign in",
    "NewPasskey": "a way to sign in",
    "SignInCode": "a way to sign in",
    "Signed": "a way to sign in",
    "PasswordReset": "a way to sign in",
    "ReviewersForm": "the API has all reviewers at once",
    "ChangePassword": "a way to sign in",
    "NewFork": "the API has its one word in the address",
    "PageForm": "has no fields",
    "EditForm": "has no fields",
    "SignIn": "a way to sign in",
    "SignUp": "a way to sign in",
    "SpaceForm": "has no fields",
    "ExpiringForm": "has no fields",
    "TextForm": "has no fields",
    "NewPassword": "a way to sign in",
}
"""Forms without a request of the API, and why."""

NOT_ON_THE_FORM = {
    "CommentForm": {
        *("commit_sha", "path", "path_base64", "side", "line", "start_line", "review_uuid"),
    },
    "EditPull": {"status"},
    "EditReply": {"links"},
    "EditWebhook": {"is_active", "resume"},
    "LineReplyForm": {"parent_reply_number", "status", "links"},
    "NewWebhook": {"is_active"},
    "NewBotToken": {"username"},
    "NewToken": {"username"},
    "ReplyForm": {"parent_reply_number", "status", "links"},
    "RepoSettings": {"is_archived"},
    "TeamSettings": {"is_active", "second_factor_required"},
    "ThreadForm": {"status"},
}
"""Fields of requests that have a page or a button of their own, or that pages do not offer."""


def all_forms() -> list[type[PageForm]]:
    """Each form class in any module of the pages."""
    modules = [import_module(f"apps.web.{file.stem}") for file in sorted(WEB.glob("*.py"))]
    known = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    found = (one for one in known if issubclass(one, PageForm))
    return sorted(found, key=lambda form: form.__name__)


COMPARED = [form for form in all_forms() if form.request_serializer]


def empty(form: type[PageForm], user: User) -> PageForm:
    request = PageRequest()
    request.method, request.GET = "GET", QueryDict()
    request.principal, request.user = Principal(user), user
    return form(request)


def pairs(form: type[PageForm], user: User) -> list[tuple[str, Any, Any]]:
    """The fields that form and request have in common."""
    assert form.request_serializer
    wanted, fields = form.request_serializer().fields, empty(form, user).fields
    return [(name, field, wanted[name]) for name, field in fields.items() if name in wanted]


@pytest.mark.parametrize("form", COMPARED, ids=lambda form: form.__name__)
def test_a_form_has_the_limits_of_the_request_that_it_stands_for(form, alice):
    shared = pairs(form, alice)
    assert shared
    for name, field, wanted in shared:
        if isinstance(field, forms.CharField):
            assert field.max_length == wanted.max_length, name
        if isinstance(wanted, StrictIntegerField):
            limits = (wanted.min_value, wanted.max_value)
            assert (field.min_value, field.max_value) == limits, name
        if isinstance(field, forms.ChoiceField) and isinstance(wanted, StrictChoiceField):
            choices: Any = field.choices
            offered = [str(word) for word, _ in choices]
            assert set(offered) <= set(wanted.choices), name
            assert offered == [word for word in wanted.choices if word in offered], name


@pytest.mark.parametrize("form", COMPARED, ids=lambda form: form.__name__)
def test_a_form_has_the_fields_of_the_request_but_for_those_that_are_listed(form, alice):
    missing = {*form.request_serializer().fields} - {*empty(form, alice).fields}
    assert missing == NOT_ON_THE_FORM.get(form.__name__, set())


PAGES_OF_FORMS = ["/new/team", "/new/repo", "/settings/tokens"]
PAGES_OF_FORMS += ["/teams/acme/~settings", "/teams/acme/~settings/bots", "/teams/acme/~members"]
PAGES_OF_FORMS += [
    f"/teams/acme/api{below}"
    for below in (
        "/threads/new",
        "/pulls/new",
        "/settings",
        "/settings/protections",
        "/settings/webhooks",
    )
]


@pytest.mark.parametrize("path", PAGES_OF_FORMS)
def test_a_page_shows_each_field_of_its_form(path, visit, team_repo, alice):
    page = visit(alice).get(path).gives()
    names = [field.html_name for field in page.response.context["form"]]
    assert names and [name for name in names if f'name="{name}"' not in page.html] == []


@pytest.mark.parametrize("form", COMPARED, ids=lambda form: form.__name__)
def test_a_form_asks_for_what_the_request_needs(form, alice):
    for name, field, wanted in pairs(form, alice):
        if wanted.required and not wanted.allow_null and not getattr(wanted, "allow_blank", False):
            assert field.required, name


@pytest.mark.parametrize("form", COMPARED, ids=lambda form: form.__name__)
def test_a_form_refuses_the_names_that_the_request_refuses(form, alice):
    odd = "a\u202eb/../ c"
    for name, field, wanted in pairs(form, alice):
        is_text = not isinstance(field, forms.ChoiceField)
        if is_text and isinstance(wanted, RuleCharField) and wanted.problem(odd):
            request = PageRequest()
            request.method, request.principal, request.user = "POST", Principal(alice), alice
            request.POST = QueryDict(urlencode({name: odd}))
            sent = form(request)
            assert not sent.is_valid() and wanted.problem(odd) in sent.errors[name]


def test_every_expiry_that_a_new_token_offers_is_accepted_by_the_api():
    for end in filter(None, NewToken.ENDS):
        assert validated(NewToken.request_serializer(), {"name": "x", "expires_at": end})


def test_each_form_stands_for_a_request_or_says_why_not():
    without = {form.__name__ for form in all_forms() if not form.request_serializer}
    assert without <= set(OF_PAGES_ALONE)
    assert NewToken in COMPARED and len(COMPARED) > 15


TEXT = "Is **this** like #1, @bob? <script>x</script>"
SEEN = "<strong>this</strong>"


@pytest.fixture
def place(make, team_repo, alice, bob) -> str:
    """A repository with thread 1, reply 1 to it, and pull 2, all by bob."""
    thread = make.thread(team_repo, by=bob, title="First", body="First text.")
    make.reply(thread, by=bob, body="First reply.")
    make.pull(team_repo, by=bob, title="Second", body="Second text.")
    return f"/{team_repo.path}"


FORMS = {
    "/threads/new": {"title": "Typed", "kind": "proposal", "priority": "high"},
    "/threads/1/edit": {"title": "Typed", "kind": "issue", "priority": "low", "status": "open"},
    "/threads/1/replies": {"kind": "question"},
    "/threads/1/replies/1/reply": {"kind": "question"},
    "/threads/1/replies/1/edit": {"kind": "task", "status": "open"},
    "/threads/2/replies": {"kind": "question"},
    "/pulls/new": {"title": "Typed", "source_branch": "a", "target_branch": "b", "status": "draft"},
    "/pulls/2/edit": {"title": "Typed"},
    "/pulls/2/reviews": {"expected_head_sha": "abc"},
}


@pytest.mark.parametrize("path", FORMS)
def test_a_text_is_shown_as_it_will_look_and_nothing_is_done(visit, place, bob, events, path):
    person, fields = visit(bob), FORMS[path]
    with events():
        page = person.post(place + path, **fields, body=TEXT, preview="yes").gives(200)
    assert SEEN in page.html and "<script>x" not in page.html and not page.alert()
    assert f'href="{place}/threads/1"' in page.html and 'href="/users/bob"' in page.html
    assert "Is **this** like #1" in page.html
    for name, value in fields.items():
        kept = [f' name="{name}"', f'value="{value}"']
        tags = re.findall(r"<(?:input|option)[^>]*>", page.html)
        chosen = [one for one in tags if kept[1] in one and (kept[0] in one or " selected" in one)]
        assert chosen, (name, value)


def test_what_was_previewed_is_then_sent_as_it_was_typed(visit, make, place, bob, events):
    person, path = visit(bob), f"{place}/threads/1/edit"
    shown = person.get(path).gives().inputs()
    typed = {"title": "Typed", "body": "One\r\ntwo", "kind": "discussion", "priority": "normal"}
    typed["status"] = "open"
    page = person.post(path, **shown | typed | {"preview": "yes"}).gives()
    with events("thread-updated"):
        person.post(path, **page.inputs() | typed).redirects_to(f"{place}/threads/1")
    assert "Typed" in person.get(f"{place}/threads/1").h1


def test_a_preview_is_cut_where_a_text_would_be_refused(visit, place, bob):
    page = visit(bob).post(f"{place}/threads/new", body="a " * 40_000 + "END", preview="yes")
    seen = re.search(r"Nothing is saved yet.*?</section>", page.gives().html, re.DOTALL)
    assert seen and "END" not in seen[0]


def test_who_may_not_write_sees_no_preview(visit, place, bob, carol):
    visit(carol).post(f"{place}/threads/1/replies", body=TEXT, preview="yes").gives(403)
    page = visit().post(f"{place}/threads/1/replies", body=TEXT, preview="yes").gives(401)
    assert "Is **this**" in page.html


def test_the_page_names_every_operation_record_and_code(visit):
    html = visit().get("/api/").gives(200).html
    assert 'href="/api/v1/openapi.json"' in html
    for one in routed():
        assert f"<code>{one.method} {one.path}</code>" in html
    for name, schema in described()["components"]["schemas"].items():
        assert f'<details id="{name}">' in html
        for field, inner in schema.get("properties", {}).items():
            assert f"<code>{field}</code>" in html and inner["description"]
    for code in ("head_changed", "slug_taken", "rate_limited"):
        assert f"<code>{code}</code>" in html
    assert "`" not in html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("", ""),
        ("no code", "no code"),
        ("`sha` of <b>, or `null`.", "<code>sha</code> of &lt;b&gt;, or <code>null</code>."),
        ("a `<b>`", "a <code>&lt;b&gt;</code>"),
        ("one ` alone", "one <code> alone</code>"),
    ],
)
def test_what_stands_between_backticks_is_code(text, html):
    assert with_code(text) == html


def test_its_links_lead_somewhere_and_no_place_has_two_of_one_name(visit):
    html = visit().get("/api/").html
    places = re.findall(r' id="([^"]+)"', html)
    assert len({*places}) == len(places)
    assert {*re.findall(r'href="#([^"]+)"', html)} <= {*places}


def test_the_page_is_one_load_for_a_browser_and_leads_back(visit, ada):
    assert '<a href="/api/">The API</a>' in visit().get("/").html
    person = visit(ada)
    compressed = person.client.get("/api/", headers={"accept-encoding": "gzip"})
    assert len(compressed.content) < 56_000
    assert "ada" in person.get("/api/").text.lower()
    assert visit().client.head("/api/").status_code == 200
    assert visit().client.post("/api/").status_code == 405

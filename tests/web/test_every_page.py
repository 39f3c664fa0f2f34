"""Properties of every page: access, headers, sessions, CSRF tokens, error pages, static files."""

import gzip
import logging
import os
import re
import subprocess
import sys
from contextvars import Context
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import OperationalError, connection
from django.template.loader import render_to_string
from django.test import Client, RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import path as route
from django.urls import resolve

from apps.accounts.models import Invite
from apps.accounts.principal import ANONYMOUS
from apps.accounts.proofs import address_proof, reset_proof, unsubscribe_proof
from apps.core.access import Level
from apps.core.errors import NotFound
from apps.core.requests import DAY
from apps.pulls.models import PullStatus
from apps.repos.access import RepoAccess
from apps.site.limits import limit_cache
from apps.threads.models import ReplyStatus, ThreadStatus
from apps.web import __file__ as app
from apps.web import errors, headers
from apps.web.decorators import page
from apps.web.frame import repo_context
from apps.web.templatetags.guildhall import lasting
from config import urls
from config.environment import origin_of
from config.logs import RequestId, TextFormatter
from tests.principals import principal_of
from tests.web.markup import colour_alone
from tests.web.page_client import PageResponse, plain
from tests.web.test_browser import FOR_ADA, FOR_ALL, PUBLIC, SIGNED_IN

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
INLINE = (
    r"<style|<script(?! type=.module. src=./static/)|\sstyle=|\son\w+=|(src|href)=.(https?:)?//"
)
PATHS = ["/", "/api/", "/signin", "/settings", "/settings/tokens", "/nowhere"]
PATHS += ["/inbox", "/pulls", "/activity", "/search"]


def test_every_route_declares_who_may_open_it():
    routes = import_module("apps.web.routes").urlpatterns
    assert all(isinstance(vars(route.callback)["page"], Level) for route in routes)


def shape(pattern: str) -> str:
    """A pattern of the URL patterns, for any owner of repositories."""
    owner = "teams/<team_slug:team_slug>/<repo|users/<username:username>/<repo"
    return re.sub(owner, "<repo", pattern).removeprefix("<repo_slug:repo_slug>")


ONE = "/<uid:uid>"
UNSEEN: dict[str, str] = {
    "admin/login/": "leads to the sign-in",
    "avatars/users/<uid:uid>.svg": "a picture",
    "avatars/teams/<uid:uid>.svg": "a picture",
    "signin/code": "in tests/web/test_passkeys.py, as are the pages of passkeys",
    "settings/second-factor/passkeys": "needs an authenticator app",
    "settings/second-factor/passkeys/<uid:uid>/remove": "needs a passkey",
    "unsubscribe": "has tests of its own, in a browser too",
    ".git": "leads to the repository",
    "site/audit": "the page of the audit log of a team, without its header",
    "site/audit/export": "a download",
    "teams/<team_slug:team_slug>/~settings/audit/export": "a download",
    "webhooks/<uid:uid>": "leads to the webhook",
    "/raw/<tree_path:path>": "a file as it is",
    "/pulls/<number:number>/verdict": "a part of the page of the pull",
    "/threads/<number:number>/replies": "the form that stands below a thread",
    "/threads/<number:number>/replies/<number:to>": "leads to the thread",
    **{
        f"site/webhooks{end}": "the page of a repository's webhooks, without its header"
        for end in ("", ONE, f"{ONE}/rotate", f"{ONE}/delete", f"{ONE}/deliveries/<uid:delivery>")
    },
}
"""Addresses whose GET is not tried in a browser by `test_browser.py`, and why."""


def test_each_page_is_in_the_lists_of_the_browser_tests():
    names = ["token", "bot_token", "invite", "protection", "approver", "hook", "delivery"]
    names += ["team_hook", "team_delivery", "draft", "ssh_key", "deploy_key"]
    uuids = dict.fromkeys(names, str(UUID(int=0)))
    values = {**uuids, "reset": "", "proof": "", "commit": "1" * 40}
    paths = {path.format(**values) for path in PUBLIC + SIGNED_IN + FOR_ALL + FOR_ADA}
    tried = {resolve(unquote(urlsplit(path).path)).route for path in paths - {"/nowhere"}}
    routes = import_module("apps.web.routes").urlpatterns
    pages = {shape(str(one.pattern)) for one in routes if "GET" in one.callback.methods}
    assert pages - {shape(one) for one in tried} == set(UNSEEN)


def test_each_page_has_a_line_in_the_docs():
    lines = (ROOT / "docs" / "pages.md").read_text().splitlines()
    table = [line for line in lines if line.startswith(("| `/", "| `…/"))]
    spans = re.findall(r"`([^`]+)`", " ".join(table))
    routes = import_module("apps.web.routes").urlpatterns
    patterns = [re.sub(r"<\w+:\w+>", "", str(one.pattern)) for one in routes]
    words = {*re.findall(r"[a-z-]+", " ".join(patterns))}
    assert words - {*re.findall(r"[a-z-]+", " ".join(spans))} == set()


@pytest.mark.parametrize("path", PATHS)
def test_each_page_loads_from_its_own_host_only_and_has_one_heading(visit, ada, path):
    page = visit(ada).get(path)
    assert page.header("Content-Security-Policy") == headers.PAGES
    assert page.header("Referrer-Policy") in {"same-origin", "strict-origin"}
    assert page.header("X-Frame-Options") == "DENY"
    assert page.html.count("<h1") == len(re.findall("<title>[^<]{9,}</title>", page.html)) == 1
    assert not re.search(INLINE, page.html)


def test_the_policy_is_the_strict_one_and_the_admin_keeps_its_own(visit, sam):
    assert headers.PAGES == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    admin = visit(sam).get("/admin/accounts/").header("Content-Security-Policy")
    assert "'unsafe-inline'" in admin and "script-src 'self';" in admin


@pytest.mark.parametrize("path", ["/", "/settings/appearance"])
def test_pages_are_private_to_one_person_and_small(visit, ada, path):
    person = visit(ada)
    answer = person.get(path)
    assert answer.header("Cache-Control") in {"private, no-cache", "no-store"}
    compressed = person.client.get(path, headers={"accept-encoding": "gzip"})
    assert compressed.headers["Content-Encoding"] == "gzip" and len(compressed.content) < 4000


def test_a_page_with_a_secret_is_not_compressed(visit, ada, sam):
    """A text from the address or the form, in the same compressed page, would help to guess it."""
    visit(sam).post("/settings/invites", email="zoe@example.org", expires_at="30 days")
    invite = Invite.objects.get().uuid
    person, staff, nobody = visit(ada), visit(sam), visit()
    gzip_too = {"accept-encoding": "gzip"}
    for client, path in (
        (nobody, f"/signup?invite={invite}"),
        (nobody, f"/signin?next=/settings/email?token={invite}"),
        (nobody, f"/reset/new?token={reset_proof(ada)}"),
        (person, f"/settings/email?token={address_proof(ada, 'new@example.org')}"),
        (nobody, f"/unsubscribe?token={unsubscribe_proof(ada)}"),
        (staff, "/settings/invites"),
        (staff, f"/settings/invites/{invite}/delete"),
    ):
        response = client.client.get(path, headers=gzip_too)
        assert response.status_code == 200 and "Content-Encoding" not in response, path
    new = {"name": "laptop", "expires_at": "90 days"}
    made = person.client.post("/settings/tokens", new, headers=gzip_too | SAME_ORIGIN)
    assert made.status_code == 201 and "Content-Encoding" not in made


def test_a_page_with_a_form_is_never_the_same_and_has_no_etag(visit, ada):
    """Its CSRF token is masked anew each time."""
    person = visit(ada)
    first, second = person.get("/settings"), person.get("/settings")
    assert first.value("csrfmiddlewaretoken") != second.value("csrfmiddlewaretoken")
    assert "ETag" not in first.response.headers


def test_browsers_store_no_page_of_somebody_who_is_signed_in(visit, ada, make):
    repo = make.repo(ada, by=ada, visibility="public")
    for path in ("/", "/api/", "/settings", "/users/Ada", f"/{repo.path}", f"/{repo.path}/threads"):
        assert visit(ada).get(path).gives().header("Cache-Control") == "no-store"
    assert visit().get(f"/{repo.path}").gives().header("Cache-Control") == "private, no-cache"


def test_the_stylesheet_and_the_icon_are_there_and_small(visit):
    for name in re.findall(r'href="(/static/[^"]+)"', visit().get("/").html):
        found = visit().client.get(name)
        assert found.status_code == 200 and len(gzip.compress(found.getvalue())) <= 9_000


def test_an_unknown_method_is_405(visit, ada):
    answer = visit(ada).client.delete("/reset/sent")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET")
    assert PageResponse(answer).h1 == "Not allowed here"
    assert visit(ada).client.head("/settings").status_code == 200


def test_the_cookies_are_for_the_server_only(visit, ada):
    assert settings.SESSION_COOKIE_AGE == 14 * 86400
    person = visit(strict=True)
    token = person.get("/signin").value("csrfmiddlewaretoken")
    person.sign_in("Ada", csrfmiddlewaretoken=token).redirects_to("/")
    assert len(person.client.cookies) == 3
    for cookie in person.client.cookies.values():
        assert cookie["httponly"] and cookie["samesite"] == "Lax"


def test_under_https_the_cookies_are_secure(tmp_path):
    code = "from config.settings import *; print(SESSION_COOKIE_SECURE, CSRF_COOKIE_SECURE)"
    environment = {"DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "config.settings"}
    for url, secure in (("https://code.example.org", True), ("http://localhost", False)):
        run = [sys.executable, "-c", code]
        env = {**os.environ, **environment, "BASE_URL": url}
        said = subprocess.run(run, env=env, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        assert said.stdout.split() == [str(secure)] * 2


def test_a_session_is_prolonged_once_a_day_and_reading_costs_no_write(visit, ada):
    person = visit(ada)
    assert settings.SESSION_COOKIE_NAME in person.get("/settings").response.cookies
    with CaptureQueriesContext(connection) as captured:
        again = person.get("/settings")
    assert settings.SESSION_COOKIE_NAME not in again.response.cookies
    assert [one["sql"][:6] for one in captured.captured_queries] == 4 * ["SELECT"]
    session = person.client.session
    session[DAY] -= 1
    session.save()
    renewed = person.get("/settings").response.cookies[settings.SESSION_COOKIE_NAME]
    assert renewed["max-age"] == 14 * 86400


def test_the_api_and_git_accept_no_session_and_read_none(visit, ada, api, make):
    person = visit(ada)
    person.get("/settings")
    repo = make.repo(ada, by=ada, visibility="private")
    token = {"authorization": f"Bearer {make.token(ada)}"}
    with CaptureQueriesContext(connection) as captured:
        assert person.get("/api/v1/teams").status == 401
        assert person.get(f"/{repo.path}.git/info/refs?service=git-upload-pack").status == 401
        assert person.get("/api/v1/nothing").status == 404
        assert person.get("/api/v1/teams", **token).status == 200
    assert not [one["sql"] for one in captured.captured_queries if "session" in one["sql"]]
    assert "Cookie" not in person.get("/api/v1/teams", **token).header("Vary")


def test_a_post_without_a_session_gives_back_what_was_written(visit):
    fields = {"name": "lap <b>top", "expires_at": "1y", "password": "secret"}
    page = visit().post("/settings/tokens", **fields).gives(401)
    assert "lap <b>top" in page.text and "secret" not in page.text
    assert "Expires at: 1y" in page.text
    assert 'href="/signin?next=/settings/tokens"' in page.html


def test_a_post_without_a_csrf_token_is_refused_and_does_nothing(visit, ada, events):
    person = visit(ada, strict=True)
    with events():
        for headers in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
            refused = person.post("/settings/tokens", headers, name="laptop").gives(403)
            assert "laptop" not in refused.html
        person.post("/signout", SAME_ORIGIN).gives(403)
    assert person.is_signed_in


def test_a_form_with_an_old_csrf_token_comes_back_with_its_text_and_a_fresh_one(visit, ada, events):
    person = visit(ada, strict=True)
    with events():
        sent = {"name": "laptop", "expires_at": "1y"}
        old = person.post("/settings/tokens", SAME_ORIGIN, **sent).gives(403)
    assert old.value("name") == "laptop" and 'value="1y" selected' in old.html
    assert "Your page was out of date" in old.alert()
    fresh = {"csrfmiddlewaretoken": old.value("csrfmiddlewaretoken")}
    person.post("/settings/tokens", SAME_ORIGIN, **sent, **fresh).gives(201)
    old = person.post("/signout", SAME_ORIGIN).gives(403)
    fresh = {"csrfmiddlewaretoken": old.value("csrfmiddlewaretoken")}
    person.post("/signout", SAME_ORIGIN, **fresh).redirects_to("/")


def test_a_sign_in_with_an_old_csrf_token_does_not_show_the_password(visit, ada):
    sent = {"username": "Ada", "password": "secret"}
    old = visit(strict=True).post("/signin", SAME_ORIGIN, **sent).gives(403)
    assert old.value("username") == "Ada" and "secret" not in old.html


def test_behind_a_proxy_that_ends_tls_the_origin_of_base_url_is_accepted(visit, ada):
    assert origin_of("https://code.example.org:8443/here") == "https://code.example.org:8443"
    person = visit(strict=True)
    origin = {"Origin": "https://code.example.org"}
    token = person.get("/signin").value("csrfmiddlewaretoken")
    fields = {"username": "Ada", "password": "wrong", "csrfmiddlewaretoken": token}
    assert person.post("/signin", origin, **fields).status == 403
    with override_settings(CSRF_TRUSTED_ORIGINS=["https://code.example.org"]):
        person = visit(strict=True)
        person.client.handler = type(person.client.handler)(enforce_csrf_checks=True)
        fields["csrfmiddlewaretoken"] = person.get("/signin").value("csrfmiddlewaretoken")
        assert person.post("/signin", origin, **fields).status == 422


def test_a_body_that_is_too_large_or_no_form_is_answered_with_a_page(visit, ada):
    for body, kind in ((b"x" * 3_000_000, "application/x-www-form-urlencoded"), (b"x", "")):
        sent = {"data": body, "content_type": kind or "multipart/form-data; boundary=x"}
        for person in (visit(), visit(strict=True)):
            answer = PageResponse(person.client.post("/signin", **sent))
            assert answer.status in {400, 403, 413, 422} and answer.h1
    assert "http" not in visit().client.post("/signin", {"next": "/x\0\n"}).headers


def test_a_body_that_is_too_large_is_told_and_leaves_no_stack_trace_in_the_log(visit, caplog):
    person = visit(strict=True)
    person.get("/signin")
    fields = "&".join(f"field{n}=x" for n in range(2000))
    cases = (("x" * 3_000_000, 413, "Too large"), (fields, 400, "could not read"))
    for body, status, said in cases:
        form = {"data": body, "content_type": "application/x-www-form-urlencoded"}
        assert said in PageResponse(person.client.post("/signin", **form)).gives(status).h1
    assert not caplog.records


def test_refusals_are_pages_with_their_status(visit):
    person = visit()
    assert person.get("/nowhere").gives(404).h1 == "Page not found"
    assert person.get("/settings/tokens/1").gives(404).h1
    assert person.get("/", host="evil.example").gives(400).h1 == "We could not read that request"
    assert person.post("/signin", {"Sec-Fetch-Site": "cross-site"}).status == 422


@pytest.mark.parametrize(("raised", "status"), [(OperationalError, 503), (ZeroDivisionError, 500)])
def test_an_error_of_the_server_is_answered_without_the_database(raised, status, rf, db):
    @page(Level.PUBLIC)
    def breaks(request):
        raise raised("on purpose")

    request = rf.get("/")
    request.session, request.user = {}, AnonymousUser()
    request.principal = ANONYMOUS
    limit_cache.get()  # read before the error, and then in memory
    with CaptureQueriesContext(connection) as captured:
        try:
            answer = PageResponse(breaks(request))
        except ZeroDivisionError:
            answer = PageResponse(errors.server_error(request))
    queries = [query["sql"] for query in captured.captured_queries]
    assert answer.gives(status).h1
    counting = re.compile("dailycount|SAVEPOINT")  # a 500 is counted, if the database answers
    assert bool(queries) == (status == 500) and all(map(counting.search, queries))
    assert bool(answer.header("Retry-After")) == (status == 503)
    assert f'href="{settings.STATIC_URL}guildhall.css"' in answer.html


def test_the_api_answers_errors_in_its_own_format(api):
    api().get("/nowhere").fails(404, "not_found")
    request = RequestFactory().get("/api/v1/x")
    assert errors.server_error(request).content == b""


ADDRESS = "/static/guildhall.css"


def fetch(**headers: str) -> tuple[Any, bytes]:
    """The response and its content."""
    response: Any = Client().get(ADDRESS, headers=headers)
    return response, response.getvalue()


def test_a_static_file_is_sent_in_pieces():
    response, content = fetch()
    assert (response.status_code, response.streaming) == (HTTPStatus.OK, True)
    with open(app.replace("__init__.py", "static/guildhall.css"), "rb") as file:
        assert content == file.read()


def test_a_part_of_a_file_is_sent_alone():
    response, content = fetch(Range="bytes=0-3")
    assert (response.status_code, len(content)) == (HTTPStatus.PARTIAL_CONTENT, 4)


def test_a_file_that_the_browser_has_is_not_sent_again():
    first, _ = fetch()
    response, content = fetch(**{"If-None-Match": first["ETag"]})
    assert (response.status_code, content) == (HTTPStatus.NOT_MODIFIED, b"")
    assert "Content-Type" not in response


@page(Level.PUBLIC)
def breaks(request):
    raise ZeroDivisionError("on purpose")


urlpatterns = [route("breaks", breaks), *urls.urlpatterns]
handler400, handler403 = urls.handler400, urls.handler403
handler404, handler500 = urls.handler404, urls.handler500


def id_on(page):
    [found] = re.findall(r"Request ([0-9a-f]{8})", page.text)
    return found


@pytest.mark.parametrize("path", ["/nowhere", "/teams/acme/api", "/new/repo?owner=teams/acme"])
def test_a_refusal_names_its_request_and_one_way_on(visit, team_repo, carol, path):
    pages = [visit(carol).get(path) for _ in range(2)]
    for found in pages:
        assert found.status in {403, 404} and found.h1 and 'href="/"' in found.html
        assert found.header("X-Request-Id") == id_on(found)
    assert id_on(pages[0]) != id_on(pages[1])


@override_settings(ROOT_URLCONF=__name__)
def test_the_log_of_an_error_has_the_id_that_its_page_shows(visit, caplog):
    caplog.handler.addFilter(RequestId())
    with caplog.at_level(logging.ERROR):
        shown = visit().get("/breaks").gives(500)
    [record] = [one for one in caplog.records if one.exc_info]
    line = TextFormatter().format(record)
    assert "Internal Server Error: /breaks" in line
    assert line.splitlines()[0].endswith(f"(request {id_on(shown)})")


def test_a_line_about_no_request_stays_as_it_is():
    record = logging.makeLogRecord({"msg": "Began"})
    assert Context().run(RequestId().filter, record) and vars(record)["about"] == ""


def test_a_wait_is_told_in_words():
    expected = ["1 second", "90 seconds", "2 minutes", "3 minutes", "2 hours", "90 days"]
    assert [lasting(n) for n in (1, 90, 120, 121, 7200, 90 * 86400)] == expected


def test_a_text_is_not_lost_with_what_it_was_for(visit, make, team_repo, alice, bob, events):
    thread = make.thread(team_repo, by=alice)
    address = f"/{team_repo.path}/threads/{thread.number}"
    visit(alice).post(f"{address}/delete")
    with events():
        sent = {"kind": "comment", "body": "Long <b>thought"}
        page = visit(bob).post(f"{address}/replies", **sent).gives(404)
    assert "This is what you wrote" in page.text and "Long <b>thought" in page.text
    assert ">Kind</label>" not in page.html
    foreign = visit(bob, strict=True).post(f"{address}/replies", body="Long thought").gives(403)
    assert "Long thought" not in foreign.html


def test_a_word_that_was_chosen_is_no_text_area_for_who_is_signed_out(
    visit, make, team_repo, alice
):
    thread = make.thread(team_repo, by=alice)
    address = f"/{team_repo.path}/threads/{thread.number}/replies"
    page = visit().post(address, kind="comment", body="Long\n\nthought").gives(401)
    assert page.html.count("<textarea") == 1 and "Kind: comment" in page.text
    assert "readonly>Long\n\nthought</textarea>" in page.html


def test_a_repository_that_goes_while_its_page_is_made_is_not_found(team_repo, alice):
    access = RepoAccess(principal_of(alice), Level.READ, team_repo, team_repo.path)
    assert repo_context(access, "code")["open_pulls"] == "0"
    type(team_repo).objects.filter(pk=team_repo.pk).delete()
    with pytest.raises(NotFound):
        repo_context(access, "code")


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/admin", "/admin/"),
        ("/api?x=1", "/api/?x=1"),
        ("/signin/?next=/inbox", "/signin?next=/inbox"),
        ("/teams/acme/", "/teams/acme"),
        ("/teams/acme/api/pulls//", "/teams/acme/api/pulls"),
        ("/teams/nobody/", "/teams/nobody"),
    ],
)
def test_a_slash_too_many_or_too_few_leads_to_the_page(visit, path, there):
    visit().get(path).redirects_to(there, 301)


@pytest.mark.parametrize("host", ["//example.org", "/\\example.org", "//", "/nowhere"])
@pytest.mark.parametrize("below", ["", "/", "/admin", "/signin/"])
def test_an_address_without_a_page_leads_nowhere(db, client, host, below):
    answer = client.get("/", PATH_INFO=host + below)
    assert (answer.status_code, answer.headers.get("Location")) == (404, None)


def test_a_form_that_is_sent_to_such_an_address_leads_nowhere(visit, alice):
    visit(alice).post("/settings/tokens/", name="x").gives(404)


BARE = [
    '<p><span class="state good"></span></p>',
    '<p class="message bad"><br></p>',
    '<ul><li class="unread">#1 Slow pushes</li></ul>',
    '<li class="d0 accepted"><article>So it is.</article></li>',
    '<span class="stat"><span>11</span><span>3</span></span>',
    '<p>1 <svg class="tint-bad"><path d="M1 1"/></svg></p>',
    '<ul class="checks"><li class="met"><svg class="tint-good"></svg><div>A branch</div></li></ul>',
    '<input name="title" aria-invalid="true" aria-describedby="title_helptext">',
]
SAID = [
    '<ul><li class="unread"><span class="unseen">unread</span> #1</li></ul>',
    '<span class="stat"><span>+11</span><span>\u22123</span></span>',
    '<p>bob <svg class="tint-bad"><path d="M1 1"/></svg></p>',
    '<ul class="checks"><li><svg class="tint-good"></svg><div>Met: A branch</div></li></ul>',
    '<input name="title" aria-invalid="true" aria-describedby="title_helptext title_error">',
]


@pytest.mark.parametrize("html", BARE)
def test_a_colour_alone_is_found(html):
    assert colour_alone(html) != []


@pytest.mark.parametrize("html", SAID)
def test_a_colour_with_a_word_or_a_sign_is_none(html):
    assert colour_alone(html) == []


@pytest.mark.parametrize(
    ("template", "statuses"),
    [("_pull_state", PullStatus), ("_state", ThreadStatus), ("_state", ReplyStatus)],
)
def test_each_state_has_a_word_of_its_own_and_an_icon(template, statuses):
    shown = [render_to_string(f"web/{template}.html", {"status": str(one)}) for one in statuses]
    words = [plain(html) for html in shown]
    assert len({*words}) == len(statuses)
    assert words == [str(one).replace("_", " ").capitalize() for one in statuses]
    for html in shown:
        assert colour_alone(html) == [] and re.search(r"<svg.*</svg>\w", html, re.DOTALL)

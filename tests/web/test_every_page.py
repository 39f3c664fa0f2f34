"""Properties of every page: access, headers, sessions, CSRF tokens, error pages."""

import gzip
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import OperationalError, connection
from django.test import RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import resolve

from apps.accounts.principal import ANONYMOUS
from apps.core.access import Level
from apps.core.requests import DAY
from apps.site.limits import limit_cache
from apps.web import errors, headers
from apps.web.decorators import page
from config.environment import origin_of
from tests.web.page_client import PageResponse
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
"""Addresses whose GET is not tried in a browser by `test_browser.py`, and why."""


def test_each_page_is_in_the_lists_of_the_browser_tests():
    uuids = dict.fromkeys(("token", "invite", "protection", "approver"), str(UUID(int=0)))
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
    assert (
        page.html.count("<h1") == 1 and len(re.findall("<title>[^<]{9,}</title>", page.html)) == 1
    )
    assert not re.search(INLINE, page.html)


def test_the_policy_is_the_strict_one_and_the_admin_keeps_its_own(visit, sam):
    assert headers.PAGES == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    admin = visit(sam).get("/admin/accounts/").header("Content-Security-Policy")
    assert "'unsafe-inline'" in admin and "script-src 'self';" in admin


@pytest.mark.parametrize("path", ["/", "/settings/tokens"])
def test_pages_are_private_to_one_person_and_small(visit, ada, path):
    person = visit(ada)
    answer = person.get(path)
    assert answer.header("Cache-Control") in {"private, no-cache", "no-store"}
    compressed = person.client.get(path, headers={"accept-encoding": "gzip"})
    assert compressed.headers["Content-Encoding"] == "gzip" and len(compressed.content) < 4000


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
    environment = {
        **os.environ,
        "DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }
    for url, secure in (("https://code.example.org", True), ("http://localhost", False)):
        run = [sys.executable, "-c", code]
        env = {**environment, "BASE_URL": url}
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
        old = person.post("/settings/tokens", SAME_ORIGIN, name="laptop", expires_at="1y").gives(
            403
        )
    assert old.value("name") == "laptop" and 'value="1y" selected' in old.html
    assert "Your page was out of date" in old.alert()
    fresh = {"csrfmiddlewaretoken": old.value("csrfmiddlewaretoken")}
    person.post("/settings/tokens", SAME_ORIGIN, name="laptop", expires_at="1y", **fresh).gives(201)
    old = person.post("/signout", SAME_ORIGIN).gives(403)
    fresh = {"csrfmiddlewaretoken": old.value("csrfmiddlewaretoken")}
    person.post("/signout", SAME_ORIGIN, **fresh).redirects_to("/")


def test_a_sign_in_with_an_old_csrf_token_does_not_show_the_password(visit, ada):
    old = (
        visit(strict=True)
        .post("/signin", SAME_ORIGIN, username="Ada", password="secret")
        .gives(403)
    )
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
    for body, status, said in (
        ("x" * 3_000_000, 413, "Too large"),
        (fields, 400, "could not read"),
    ):
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
    assert answer.gives(status).h1 and not captured.captured_queries
    assert bool(answer.header("Retry-After")) == (status == 503)
    assert f'href="{settings.STATIC_URL}guildhall.css"' in answer.html


def test_the_api_answers_errors_in_its_own_format(api):
    api().get("/nowhere").fails(404, "not_found")
    request = RequestFactory().get("/api/v1/x")
    assert errors.server_error(request).content == b""

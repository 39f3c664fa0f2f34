"""Error pages: the reason, the id in the log, and a way to continue."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from django.urls import path

from apps.core.access import Level
from apps.core.errors import NotFound
from apps.repos.access import RepoAccess
from apps.web.decorators import page
from apps.web.frame import repo_context
from apps.web.templatetags.guildhall import lasting
from config import urls
from config.logs import RequestId
from tests.principals import principal_of

pytestmark = pytest.mark.once


@page(Level.PUBLIC)
def breaks(request):
    raise ZeroDivisionError("on purpose")


urlpatterns = [path("breaks", breaks), *urls.urlpatterns]
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
        assert found.header("X-Request-ID") == id_on(found)
    assert id_on(pages[0]) != id_on(pages[1])


@override_settings(ROOT_URLCONF=__name__)
def test_the_log_of_an_error_has_the_id_that_its_page_shows(visit, caplog):
    with caplog.at_level(logging.ERROR):
        shown = visit().get("/breaks").gives(500)
    [record] = [one for one in caplog.records if one.exc_info]
    assert RequestId().filter(record)
    formatters: Any = settings.LOGGING["formatters"]
    line = logging.Formatter(formatters["line"]["format"]).format(record)
    assert "Internal Server Error: /breaks" in line
    assert line.splitlines()[0].endswith(f"(request {id_on(shown)})")


def test_a_line_about_no_request_stays_as_it_is():
    record = logging.makeLogRecord({"msg": "Began"})
    assert RequestId().filter(record) and vars(record)["about"] == ""


def test_a_wait_is_told_in_words():
    expected = ["1 second", "90 seconds", "2 minutes", "3 minutes", "2 hours", "90 days"]
    assert [lasting(n) for n in (1, 90, 120, 121, 7200, 90 * 86400)] == expected


def test_a_text_is_not_lost_with_what_it_was_for(visit, make, team_repo, alice, bob, events):
    thread = make.thread(team_repo, by=alice)
    address = f"/{team_repo.path}/threads/{thread.number}"
    visit(alice).post(f"{address}/delete")
    with events():
        page = (
            visit(bob).post(f"{address}/replies", kind="comment", body="Long <b>thought").gives(404)
        )
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

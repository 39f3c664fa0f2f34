"""Pages of lists."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import ApiToken
from tests.api import Api


@pytest.fixture
def tokens(make, alice) -> Api:
    """alice with 130 tokens besides the one that she uses; the newest is called 129."""
    ApiToken.objects.bulk_create(
        ApiToken(user=alice, name=f"{number:03}", digest=f"{number}", token_prefix="ght_")
        for number in range(130)
    )
    return Api(make.token(alice))


def names(page: dict[str, Any]) -> list[str]:
    return [row["name"] for row in page["results"]]


def test_a_page_has_thirty_rows_unless_asked(tokens):
    page = tokens.get("/api-tokens").gives()
    assert len(page["results"]) == 30
    assert page["previous"] is None
    assert page["next"] == "http://testserver/api/v1/api-tokens?page=2"


@pytest.mark.parametrize(
    ("asked", "size"), [(1, 1), (99, 99), (100, 100), (101, 100), (10**9, 100)]
)
def test_a_page_has_as_many_rows_as_asked_up_to_a_hundred(tokens, asked, size):
    assert len(tokens.get(f"/api-tokens?per_page={asked}").gives()["results"]) == size


def test_following_next_meets_every_row_once_and_previous_leads_back(tokens):
    url, seen, pages = "/api-tokens?ordering=name&per_page=25", [], []
    while url:
        page = tokens.get(url).gives()
        seen += names(page)
        pages.append(page)
        url = page["next"]
    assert seen == sorted({*seen})
    assert len(seen) == 131
    back = tokens.get(pages[-1]["previous"]).gives()
    assert back["results"] == pages[-2]["results"]


def test_links_keep_the_other_parameters(tokens):
    sent = "/api-tokens?ordering=-name&per_page=10&page=3&page=2&other=a%26b&other=%C3%A9"
    page = tokens.get(sent).gives()
    for link, number in ((page["next"], "3"), (page["previous"], "1")):
        kept = parse_qs(urlsplit(link).query)
        other = {"ordering": ["-name"], "per_page": ["10"], "other": ["a&b", "é"]}
        assert kept == {**other, "page": [number]}


def test_a_page_past_the_end_is_empty_and_the_last_has_no_next(tokens):
    last = tokens.get("/api-tokens?per_page=100&page=2").gives()
    assert (len(last["results"]), last["next"]) == (31, None)
    past = tokens.get("/api-tokens?per_page=100&page=3").gives()
    assert (past["results"], past["next"]) == ([], None)
    assert past["previous"].endswith("page=2")


def test_a_page_that_is_exactly_full_has_no_next(tokens):
    ApiToken.objects.filter(name__gte="099").exclude(name="tests").delete()
    page = tokens.get("/api-tokens?per_page=100").gives()
    assert (len(page["results"]), page["next"]) == (100, None)


def test_links_are_under_the_base_url_where_one_is_set(tokens, settings):
    settings.BASE_URL = "https://code.example.org"
    link = tokens.get("/api-tokens").gives()["next"]
    assert link == "https://code.example.org/api/v1/api-tokens?page=2"


def test_a_list_never_counts(tokens):
    with CaptureQueriesContext(connection) as queries:
        tokens.get("/api-tokens").gives()
    assert queries and not [one for one in queries if "COUNT(" in one["sql"].upper()]

"""All links of all pages of the demo, followed by everybody; and each `web_url` of the API."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urljoin, urlsplit

import pytest

from apps.accounts.models import User
from apps.repos.models import Repo
from config import demo
from tests.api import Api
from tests.factories import UserFactory
from tests.web.page_client import PageClient, PageResponse

NO_PAGES = ("/static/", "/admin/", "/api/v1/", "/favicon.ico")
LISTS = [
    "/teams/acme",
    "/teams/acme/repos",
    "/teams/acme/repos/hello",
    "/teams/acme/repos/hello/threads",
    "/teams/acme/repos/hello/pulls",
    "/users/bob",
    "/threads",
    "/pulls",
    "/events?scope=repo:teams/acme/hello&per_page=100",
]


@pytest.fixture
def people(db: None) -> dict[str, User]:
    demo.load()
    Repo.objects.update(visibility="public")
    named = User.objects.filter(username__in=["alice", "dave"])
    return {user.username: user for user in named} | {
        "sam": UserFactory.create(username="sam", staff=True)
    }


def links_of(page: PageResponse, address: str) -> set[str]:
    """The addresses of pages of ours to which this one leads, without what is behind a `#`."""
    found = {urljoin(address, unescape(href)) for href in re.findall(r' href="([^"]*)"', page.html)}
    return {
        one.partition("#")[0]
        for one in found
        if not urlsplit(one).netloc and not one.startswith(NO_PAGES)
    }


@pytest.mark.slow
@pytest.mark.parametrize("who", ["alice", "dave", "sam", None])
def test_no_link_leads_to_nothing(people, who):
    client = PageClient(people.get(who)) if who else PageClient()
    seen: dict[str, int] = {}
    left = (
        {"/", "/teams", "/teams/acme", "/users/bob", "/activity?scope=self"}
        if who
        else {"/", "/teams/acme"}
    )
    while left:
        address = left.pop()
        page = client.get(address)
        seen[address] = page.status
        if page.status in {301, 302, 303}:
            left |= {page.header("Location").partition("#")[0]} - seen.keys()
            continue
        if "/raw/" in address:  # a file as it is, and no page
            continue
        assert links_of(page, address), f"{address} has no way on"
        left |= links_of(page, address) - seen.keys()
    assert {address: status for address, status in seen.items() if status >= 400} == {}
    assert len(seen) > 15


def web_urls(value: object) -> list[str]:
    """Each `web_url` anywhere in an answer of the API."""
    if isinstance(value, dict):
        own = [value["web_url"]] if value.get("web_url") else []
        return [*own, *(url for inner in value.values() for url in web_urls(inner))]
    if isinstance(value, list):
        return [url for inner in value for url in web_urls(inner)]
    return []


@pytest.mark.slow
def test_every_web_url_opens_a_page_that_has_what_it_names(people, make):
    api, client = Api(make.token(people["alice"])), PageClient(people["alice"])
    urls = {url for path in LISTS for url in web_urls(api.get(path).gives())}
    assert len(urls) > 10
    for url in urls:
        parts = urlsplit(url)
        page = client.get(parts.path)
        assert page.gives().h1, url
        if parts.fragment:
            assert f'id="{parts.fragment}"' in page.html, url

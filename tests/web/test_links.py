"""Everybody follows all links of all pages of the demo, within a budget of queries; and each
`web_url` of the API has a page.
"""

import re
from collections import Counter, deque
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
from django.db import connection
from django.urls import resolve

from apps.accounts.models import User
from apps.repos.models import Repo
from config import demo
from tests.api import Api
from tests.factories import UserFactory
from tests.test_queries import BESIDE
from tests.web.markup import colour_alone, flaws
from tests.web.page_client import PageClient, PageResponse

pytestmark = [pytest.mark.slow, pytest.mark.once]
NO_PAGES = ("/static/", "/admin/", "/api/v1/", "/favicon.ico")
STARTS = ["/", "/activity?scope=self", "/teams", "/teams/acme", "/users/bob"]
CODE = re.compile(r"/(files|raw|commits|compare|branches|tags)")
MANY, MOST_OPTIONS = 2, 2
"""How many pages of code are followed of each family, and with how many options: one template shows
the files of every commit, and the demo has thousands of such pages. All other pages are followed.
"""

QUERIES, QUERIES_OF_PULLS = 16, 25
"""The largest number of queries for a page, and for one of a pull."""


@pytest.fixture
def people(db: None) -> dict[str | None, User | None]:
    demo.load()
    named = User.objects.filter(username__in=["alice", "dave"])
    sam = UserFactory.create(username="sam", staff=True)
    return {None: None} | {user.username: user for user in [*named, sam]}


def links_of(page: PageResponse, address: str) -> list[str]:
    """The addresses of our pages that this page links to, without fragments."""
    found = {urljoin(address, unescape(href)) for href in re.findall(r' href="([^"]*)"', page.html)}
    return sorted(
        one.partition("#")[0]
        for one in found
        if not urlsplit(one).netloc and not one.startswith((*NO_PAGES, "mailto:"))
    )


def family(address: str) -> tuple[Any, ...]:
    """The family of a page of code, with two options in whatever repository; the address itself for
    any other page.
    """
    parts, options = urlsplit(address), options_of(address)
    if not CODE.search(parts.path):
        return (address,)
    match = resolve(parts.path)
    if len(options) > 1:
        return (match.route, *options)
    repo = [match.kwargs.get(name) for name in ("team_slug", "username", "repo_slug")]
    return (match.route, *repo, *options)


def options_of(address: str) -> list[str]:
    return sorted(dict(parse_qsl(urlsplit(address).query)))


class Walk:
    """The pages that one person reaches by following every link once."""

    def __init__(self, user: User | None) -> None:
        self.client = PageClient(user)
        self.statuses: dict[str, int] = {}
        self.wrong: list[str] = []
        self.costly: dict[str, int] = {}
        self.titles: Counter[str] = Counter()
        self.left: deque[str] = deque(STARTS if user else ["/", "/teams/acme"])
        self.known, self.families = set(self.left), Counter[tuple[Any, ...]]()

    def go(self) -> None:
        while self.left:
            address = self.left.popleft()
            response, queries = self.open(address)
            is_pull = "/pulls/" in address or address.endswith("/reply")
            most = QUERIES_OF_PULLS if is_pull else QUERIES
            if queries > most:  # the first visit also writes git's answers to the cache
                response, queries = self.open(address)
            self.costly |= {address: queries} if queries > most else {}
            self.statuses[address] = response.status_code
            if response.status_code in {301, 302, 303}:
                self.add([response.headers["Location"].partition("#")[0]])
            elif response.headers["Content-Type"].startswith("text/html"):
                self.read(address, PageResponse(response))

    def open(self, address: str) -> tuple[Any, int]:
        """The response and the number of queries."""
        asked = 0

        def count(execute: Any, *query: Any) -> Any:
            nonlocal asked
            asked += not BESIDE.match(query[0])
            return execute(*query)

        with connection.execute_wrapper(count):
            return self.client.client.get(address), asked

    def read(self, address: str, page: PageResponse) -> None:
        found = links_of(page, address)
        wrong = [*flaws(page.html), *colour_alone(page.html)]
        self.wrong += [f"{address}: {flaw}" for flaw in wrong]
        self.wrong += [] if found else [f"{address} has no way on"]
        self.add(found)

    def add(self, addresses: list[str]) -> None:
        for address in addresses:
            if address in self.known:
                continue
            self.known.add(address)
            self.families[family(address)] += 1
            is_code = CODE.search(urlsplit(address).path)
            if is_code and len(options_of(address)) > MOST_OPTIONS:
                continue
            if self.families[family(address)] <= MANY:
                self.left.append(address)


def test_every_link_leads_to_a_page_in_order_that_leads_on_and_takes_few_queries(people, case):
    for who, user in people.items():
        with case(str(who)):
            walk = Walk(user)
            walk.go()
            refused = {one: status for one, status in walk.statuses.items() if status >= 400}
            assert refused == {} and walk.wrong == [] and walk.costly == {}
            assert any("tide-table/pulls/" in one for one in walk.statuses)


def records(value: object) -> list[dict[str, Any]]:
    """Every record with a `web_url` in a response of the API."""
    if isinstance(value, dict):
        own = [value] if value.get("web_url") else []
        return [*own, *(one for inner in value.values() for one in records(inner))]
    if isinstance(value, list):
        return [one for inner in value for one in records(inner)]
    return []


def lists() -> list[str]:
    """The paths of the API that return all records and events of the demo."""
    found = ["/teams", "/teams/acme/repos", "/teams/acme/members", "/threads", "/pulls", "/pings"]
    for user in User.objects.filter(is_active=True).exclude(username="sam"):
        found += [f"/users/{user.username}", f"/users/{user.username}/repos"]
    for repo in Repo.objects.all():
        owner = repo.path.rpartition("/")[0]
        path = f"/{owner}/repos/{repo.slug}"
        found += [path, f"{path}/threads?per_page=100", f"{path}/pulls?per_page=100"]
        found += [f"{path}/commits?per_page=3", f"{path}/tree", f"{path}/branches"]
        numbers = repo.threads.values_list("number", flat=True)
        found += [f"{path}/threads/{one}/replies?per_page=100" for one in numbers]
        found.append(f"/events?scope=repo:{repo.path}&per_page=100")
    return found


def names(record: dict[str, Any]) -> list[str]:
    """The texts of a record, one of which is in the main heading of its page."""
    found = [record.get(name) for name in ("thread_title", "title", "name", "username", "slug")]
    return [" ".join(str(one).split()) for one in found if one]


def test_every_web_url_opens_a_page_that_names_its_record(people, make, case):
    api, client = Api(make.token(people["alice"])), PageClient(people["alice"])
    found: dict[str, PageResponse] = {}
    named = 0
    for path in lists():
        for record in records(api.get(path).gives()):
            parts = urlsplit(record["web_url"])
            address = parts._replace(scheme="", netloc="", fragment="").geturl()
            with case(f"{path}: {record['web_url']}"):
                page = found.get(address) or found.setdefault(address, client.get(address))
                heading = page.gives().h1
                words = names(record)
                assert heading and (not words or any(one in heading for one in words)), words
                assert not parts.fragment or f'id="{parts.fragment}"' in page.html
                named += bool(words)
    assert len(found) > 20 and named > 50

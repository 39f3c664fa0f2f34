"""Search by type and by name or title, within the person's access."""

from __future__ import annotations

import re

import pytest

from apps.repos.models import Visibility
from apps.teams.models import Member
from tests.factories import PullFactory, ThreadFactory, UserFactory
from tests.test_queries import costing
from tests.web.page_client import plain

TYPES = ("repos", "pulls", "threads", "users")


@pytest.fixture
def things(make, team_repo, alice):
    """A thread and a pull in team acme's private repository, and one thread in a public one."""
    make.thread(team_repo, by=alice, title="Slow pushes of the moon", body="stars")
    make.pull(team_repo, by=alice, title="Moon landing", body="stars")
    public = make.repo(alice, "moonbase", by=alice, visibility=Visibility.PUBLIC)
    make.thread(public, by=alice, title="100% of the moon")
    return public


def found(person, query: str) -> list[str]:
    """The titles or names on the page, in order."""
    html = person.get(f"/search?{query}").gives().html
    main = html[html.index("<main") :]
    entries = re.findall(r'<div class="entry">.*?<a href="[^"]*">(.*?)</a>', main, re.DOTALL)
    return [plain(one) for one in entries]


def test_each_sort_is_found_by_a_part_of_what_it_is_called(visit, things, alice, bob):
    person = visit(bob)
    assert found(person, "q=moon") == ["alice/moonbase"]
    assert found(person, "q=API&type=repos") == ["acme/api"]
    assert found(person, "q=moon&type=pulls") == ["Moon landing"]
    assert found(person, "q=MOON&type=threads") == ["100% of the moon", "Slow pushes of the moon"]
    assert found(person, "q=0%25&type=threads") == ["100% of the moon"]
    assert found(person, "q=ALI&type=users") == ["alice"]
    assert found(person, "q=stars&type=threads") == found(person, "q=stars&type=pulls") == []


def test_nothing_is_found_that_one_may_not_read(visit, things, alice, bob, carol):
    for reader, lost in ((carol, False), (bob, True)):
        if lost:
            Member.objects.filter(user=bob).delete()
        person = visit(reader)
        for text in ("", "moon", "api", "acme"):
            for sort in ("repos", "pulls", "threads"):
                html = person.get(f"/search?q={text}&type={sort}").gives().html
                assert "acme/api" not in html and "landing" not in html and "pushes" not in html
        assert found(person, "type=threads") == ["100% of the moon"]
        assert found(person, "type=repos") == ["alice/moonbase"]


@pytest.mark.parametrize("sort", TYPES)
def test_an_empty_answer_says_what_was_searched_and_how_to_go_on(visit, things, bob, sort):
    page = visit(bob).get(f"/search?q=%3Cb%3Enothing&type={sort}").gives()
    assert "“<b>nothing”" in page.text and "Try fewer letters" in page.text
    assert "<b>nothing" not in page.html
    for other in TYPES:
        assert f'href="/search?q=%3Cb%3Enothing&amp;type={other}"' in page.html
    assert page.html.count('aria-current="page"') == 1
    assert page.value("q") == "" or page.html.count("nothing") > 3


@pytest.mark.parametrize("query", ["type=moon", f"q={'x' * 201}", "q=%00", "type=pulls&before=x"])
def test_what_cannot_be_searched_for_is_refused(visit, bob, query):
    visit(bob).get(f"/search?{query}").gives(422)


@pytest.mark.parametrize("sort", TYPES)
def test_a_long_answer_has_pages_and_costs_the_same(visit, make, team_repo, alice, bob, sort):
    def add(count: int) -> None:
        for number in range(count):
            if sort == "repos":
                make.repo(alice, f"moon{count}-{number}", by=alice, visibility="public")
            elif sort == "threads":
                ThreadFactory.create(repo=team_repo, title=f"moon {count}-{number}")
            elif sort == "pulls":
                PullFactory.create(repo=team_repo, thread__title=f"moon {count}-{number}")
            else:
                UserFactory.create(username=f"moon{count}-{number}")

    person, costs = visit(bob), []
    for count in (3, 57):
        add(count)
        person.get(f"/search?q=moon&type={sort}").gives()
        with costing() as cost:
            page = person.get(f"/search?q=moon&type={sort}").gives()
        costs.append((cost.sql, cost.git))
    assert costs[0] == costs[1] and costs[0] <= (6, 0)
    following = re.search(r'rel="next" href="/search\?([^"]+)"', page.html)
    assert following
    first, second = (
        found(person, f"q=moon&type={sort}"),
        found(person, following[1].replace("&amp;", "&")),
    )
    assert len(first) == 50 and len({*first, *second}) == 60


def test_the_bar_searches_from_every_page_for_who_is_signed_in(visit, bob):
    assert '<form role="search" action="/search">' in visit(bob).get("/settings").html
    assert "/search" not in visit().get("/").html

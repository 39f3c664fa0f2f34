"""/threads: the threads of all readable repositories, newest activity first."""

from __future__ import annotations

import datetime as dt
from itertools import chain

import pytest

from apps.repos.models import Visibility
from apps.teams.models import Member, Team
from apps.threads import pagination
from apps.threads.models import Thread
from tests.threads import paths


@pytest.fixture(params=["one by one", "together"])
def each_query(request, monkeypatch):
    """Both kinds of queries: by repository, and over all rows in order."""
    if request.param == "together":
        monkeypatch.setattr(pagination, "FEW_REPOS", 0)


@pytest.fixture
def far(make, carol):
    """A private repository of carol's."""
    return make.repo(carol, "far", by=carol)


@pytest.fixture
def three(make, team_repo, far, alice, bob, carol):
    """Three threads. Only carol may read the last."""
    first = make.thread(team_repo, by=alice, title="First", kind="issue")
    second = make.thread(team_repo, by=bob, title="Second", kind="question", priority="high")
    hidden = make.thread(far, by=carol, title="Hidden", status="closed")
    return [first, second, hidden]


def titles(answer) -> list[str]:
    return [record["title"] for record in answer.gives()["results"]]


def test_one_lists_what_one_may_read_as_its_repository_does(
    api, each_query, three, team_repo, alice, carol
):
    assert titles(api(carol).get("/threads")) == ["Hidden"]
    page = api(alice).get("/threads").gives()
    assert page["results"] == api(alice).get(paths.threads(team_repo)).gives()["results"]
    assert [record["repo_path"] for record in page["results"]] == [team_repo.path] * 2
    for record in page["results"]:
        assert api(alice).get(record["api_url"]).gives()["title"] == record["title"]


def test_threads_of_pulls_and_deleted_ones_are_left_out(api, each_query, make, team_repo, alice):
    make.pull(team_repo, by=alice)
    gone = make.thread(team_repo, by=alice)
    api(alice).delete(f"{paths.threads(team_repo)}/{gone.number}").gives(204)
    assert titles(api(alice).get("/threads")) == []


def test_what_had_activity_comes_first(api, each_query, make, three, alice, bob):
    assert titles(api(alice).get("/threads")) == ["Second", "First"]
    reply = make.reply(three[0], by=bob)
    assert titles(api(alice).get("/threads")) == ["First", "Second"]
    api(alice).patch(paths.thread(three[1]), priority="low").gives()
    assert titles(api(alice).get("/threads")) == ["Second", "First"]
    api(bob).patch(f"{paths.thread(three[0])}/replies/{reply.number}", body="Or not.").gives()
    assert titles(api(alice).get("/threads")) == ["First", "Second"]


def test_staff_lists_all_of_the_site(api, each_query, three, sam):
    assert titles(api(sam).get("/threads")) == ["Hidden", "Second", "First"]


def test_a_former_member_lists_nothing_of_the_team(api, each_query, three, bob, acme):
    assert titles(api(bob).get("/threads?created_by=bob")) == ["Second"]
    Member.objects.filter(team=acme, user=bob).delete()
    for query in ("", "?created_by=bob", "?participant=self", "?team=acme", "?search=second"):
        assert titles(api(bob).get(f"/threads{query}")) == []


def test_an_inactive_team_is_listed_to_its_members_and_staff(
    api, each_query, three, team_repo, acme, alice, carol, sam
):
    team_repo.visibility = Visibility.PUBLIC
    team_repo.save()
    assert len(titles(api(carol).get("/threads?team=acme"))) == 2
    Team.objects.filter(pk=acme.pk).update(is_active=False)
    assert titles(api(carol).get("/threads?team=acme")) == []
    for person in (alice, sam):
        assert len(titles(api(person).get("/threads?team=acme"))) == 2


FILTERS = {
    "?status=open": ["Second", "First"],
    "?status=closed": ["Hidden"],
    "?status=closed&status=open": ["Hidden", "Second", "First"],
    "?status=resolved": [],
    "?kind=question": ["Second"],
    "?priority=high": ["Second"],
    "?priority=normal&kind=issue": ["First"],
    "?created_by=BOB": ["Second"],
    "?created_by=self": [],
    "?created_by=": ["Hidden", "Second", "First"],
    "?created_by=nobody": [],
    "?participant=bob": ["Second"],
    "?participant=carol&status=closed": ["Hidden"],
    "?search=SECO": ["Second"],
    "?search=": ["Hidden", "Second", "First"],
    "?search=%25": [],
    "?team=ACME": ["Second", "First"],
    "?team=acme&created_by=alice": ["First"],
    "?team=nowhere": [],
    "?team=": ["Hidden", "Second", "First"],
}


@pytest.mark.parametrize("query", FILTERS)
def test_filters_choose(api, each_query, three, sam, query):
    assert titles(api(sam).get(f"/threads{query}")) == FILTERS[query]


def test_a_team_is_found_by_a_former_slug(api, each_query, make, three, team_repo, alice, sam):
    make.pull(team_repo, by=alice, title="Pulled")
    api(alice).put("/teams/acme", name="Acme", slug="zenith").gives()
    for slug in ("acme", "ACME", "zenith"):
        for person in (alice, sam):
            page = api(person).get(f"/threads?team={slug}").gives()
            assert [record["title"] for record in page["results"]] == ["Second", "First"]
            assert {record["repo_path"] for record in page["results"]} == {"teams/zenith/api"}
            assert titles(api(person).get(f"/pulls?team={slug}")) == ["Pulled"]


def test_who_replies_takes_part_until_the_reply_is_deleted(
    api, each_query, make, three, alice, bob
):
    reply = make.reply(three[0], by=bob)
    assert titles(api(alice).get("/threads?participant=bob")) == ["First", "Second"]
    api(bob).delete(f"{paths.thread(three[0])}/replies/{reply.number}").gives(204)
    assert titles(api(bob).get("/threads?participant=self")) == ["Second"]


def test_a_search_looks_at_titles_alone(api, each_query, make, team_repo, alice):
    make.thread(team_repo, by=alice, title="Über", body="zebra")
    assert titles(api(alice).get("/threads?search=%C3%BCBER")) == ["Über"]
    assert titles(api(alice).get("/threads?search=zebra")) == []


BAD = ["status=open&status=", "status=open&status=none", "search=a%00b", "created_by=%00"]
BAD += ["participant=%00", "team=%00", "per_page=0", "per_page=none"]
BAD_OF_THREADS = [*BAD, "status=merged", "kind=pull", "kind=", "priority=highest"]
BAD_OF_PULLS = [*BAD, "status=resolved", "awaiting_review_from=%00"]
ADDRESSES = [f"/threads?{query}" for query in BAD_OF_THREADS]
ADDRESSES += [f"/pulls?{query}" for query in BAD_OF_PULLS]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_word_that_is_not_known_is_refused_by_name(api, alice, address):
    name = address.partition("?")[2].partition("=")[0]
    assert name in api(alice).get(address).fails(422, "validation_failed")


ZEROS = "0" * 32
CURSORS = ["", "1", "1-2", f"x-{ZEROS}", f"1-{ZEROS[1:]}", f"-1-{ZEROS}", f"{'9' * 18}-{ZEROS}"]


@pytest.mark.parametrize("text", CURSORS)
@pytest.mark.parametrize("name", ["before", "after"])
def test_a_cursor_that_is_none_is_refused(api, alice, name, text):
    assert name in api(alice).get(f"/threads?{name}={text}").fails(422, "invalid_cursor")


def test_the_list_of_a_repository_takes_several_statuses(api, make, repo, alice):
    for status in ("open", "closed", "resolved"):
        make.thread(repo, by=alice, title=status, status=status)
    url = paths.threads(repo)
    assert titles(api(alice).get(f"{url}?status=open&status=closed")) == ["closed", "open"]
    assert titles(api(alice).get(f"{url}?status=resolved&created_by=self")) == ["resolved"]
    page = api(alice).get(f"{url}?status=open&status=closed&per_page=1").gives()
    assert titles(api(alice).get(page["next"])) == ["open"]
    detail = api(alice).get(f"{url}?status=open&status=none").fails(422, "validation_failed")
    assert '"none" is not one of open' in detail


# Pages


@pytest.fixture
def seven(make, far, team_repo, alice, carol):
    """Threads alternating between two repositories; three have the same time. sam may read all."""
    places = [(team_repo, alice), (far, carol)] * 4
    made = [make.thread(repo, by=one, title=f"{n}") for n, (repo, one) in enumerate(places[:7])]
    same = Thread.objects.filter(title__in=["2", "3", "4"])
    same.update(last_activity_at=made[3].last_activity_at)
    return made


def walk(api, path: str, way: str) -> list[list[str]]:
    pages = []
    while path and (page := api.get(path).gives())["results"]:
        pages.append([record["title"] for record in page["results"]])
        path = page[way]
    return pages


def test_pages_lead_through_all_of_it_and_back(api, each_query, seven, sam):
    everything = titles(api(sam).get("/threads"))
    assert sorted(everything) == [f"{n}" for n in range(7)]
    assert (everything[:2], everything[-2:]) == (["6", "5"], ["1", "0"])
    pages = walk(api(sam), "/threads?per_page=2", "next")
    assert ([*chain(*pages)], [*map(len, pages)]) == (everything, [2, 2, 2, 1])
    last = api(sam).get("/threads?per_page=2").gives()
    while last["next"]:
        last = api(sam).get(last["next"]).gives()
    back = walk(api(sam), last["previous"], "previous")
    assert [*chain(*reversed(back))] == everything[:-1]


def test_addresses_of_pages_are_whole_and_keep_the_filters(api, seven, alice):
    page = api(alice).get("/threads?per_page=2&team=acme&status=open&status=closed").gives()
    for address in (page["next"], page["previous"]):
        assert address.startswith("http://testserver/api/v1/threads?")
        assert "&status=open&status=closed" in address and "team=acme" in address
    assert page["next"].count("before=") == page["previous"].count("after=") == 1


def test_the_first_page_leads_to_what_comes_later(
    api, each_query, make, seven, team_repo, alice, sam
):
    page = api(sam).get("/threads?per_page=3").gives()
    empty = api(sam).get(page["previous"]).gives()
    assert (empty["results"], empty["previous"]) == ([], page["previous"])
    assert titles(api(sam).get(empty["next"])) == titles(api(sam).get("/threads?per_page=3"))
    for n in range(7, 12):
        make.thread(team_repo, by=alice, title=f"{n}")
    assert walk(api(sam), page["previous"], "previous") == [["9", "8", "7"], ["11", "10"]]


def test_what_gets_activity_meanwhile_is_not_shown_twice_further_back(
    api, each_query, make, seven, team_repo, alice, sam
):
    """The thread has moved to the front, where `previous` finds it."""
    page = api(sam).get("/threads?per_page=3").gives()
    for thread in (seven[6], seven[0]):  # a thread that was on the page, and a thread that was not
        make.reply(thread, by=thread.created_by)
    first = [record["title"] for record in page["results"]]
    rest = [*chain(*walk(api(sam), page["next"], "next"))]
    assert sorted(first + rest) == ["1", "2", "3", "4", "5", "6"]
    assert titles(api(sam).get(page["previous"])) == ["0", "6"]


def test_an_empty_list_has_no_neighbours(api, each_query, carol):
    page = api(carol).get("/threads").gives()
    assert page == {"results": [], "next": None, "previous": None}


def test_before_and_after_together_bound_the_page(api, each_query, seven, sam):
    first = api(sam).get("/threads?per_page=1").gives()
    older = api(sam).get(first["next"].replace("per_page=1", "per_page=3")).gives()
    places = [older["previous"].partition("after=")[2], older["next"].partition("before=")[2]]
    newest, oldest = (place.partition("&")[0] for place in places)
    between = titles(api(sam).get(f"/threads?before={newest}&after={oldest}"))
    assert between == [record["title"] for record in older["results"]][1:-1]


def test_a_moment_long_ago_or_far_ahead_is_a_place_as_well(api, each_query, seven, sam):
    start, end = f"0-{ZEROS}", "9" * 17 + "-" + "f" * 32
    assert titles(api(sam).get(f"/threads?before={start}")) == []
    assert len(titles(api(sam).get(f"/threads?before={end}"))) == 7
    assert titles(api(sam).get(f"/threads?after={end}")) == []
    assert titles(api(sam).get(f"/threads?after={start}&per_page=1")) == ["0"]


def test_activity_never_goes_back(make, team_repo, alice):
    thread = make.thread(team_repo, by=alice)
    ahead = thread.last_activity_at + dt.timedelta(hours=1)
    Thread.objects.filter(pk=thread.pk).update(last_activity_at=ahead)
    thread.touch()
    thread.refresh_from_db()
    assert thread.last_activity_at == ahead

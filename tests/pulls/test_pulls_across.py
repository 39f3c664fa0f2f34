"""`/pulls`: the pulls of all repositories that a person may read, newest activity first."""

from __future__ import annotations

import pytest

from apps.repos.models import Repo
from apps.teams.models import Member
from apps.threads import pagination
from tests.factories import PullFactory, RepoFactory
from tests.pulls import paths
from tests.threads import paths as of_threads


@pytest.fixture(params=["one by one", "together"])
def asked(request, monkeypatch):
    """Both ways to read the list: each repository by itself, and all rows in their order."""
    if request.param == "together":
        monkeypatch.setattr(pagination, "FEW_REPOS", 0)


@pytest.fixture
def far(make, carol):
    """A private repository of carol, which nobody else can read."""
    return make.repo(carol, "far", by=carol)


@pytest.fixture
def three(make, team_repo, far, alice, bob, carol):
    """Three pulls, of which one is visible only to carol."""
    first = make.pull(team_repo, by=alice, title="First")
    second = make.pull(team_repo, by=bob, title="Second", source="other")
    return [first, second, make.pull(far, by=carol, title="Hidden")]


def titles(answer) -> list[str]:
    return [row["title"] for row in answer.gives()["results"]]


def test_one_lists_what_one_may_read_as_its_repository_does(
    api, asked, make, three, team_repo, alice, carol
):
    make.thread(team_repo, by=alice)
    assert titles(api(carol).get("/pulls")) == ["Hidden"]
    page = api(alice).get("/pulls").gives()
    assert page["results"] == api(alice).get(paths.pulls(team_repo)).gives()["results"]
    for row in page["results"]:
        assert (row["repo_path"], row["source_repo_path"]) == (team_repo.path, team_repo.path)
        assert api(alice).get(row["api_url"]).gives() == row


def test_the_repository_that_a_pull_comes_from_is_named_to_its_readers(
    api, asked, team_repo, alice, carol, sam
):
    fork = RepoFactory.create(owner=carol, upstream=team_repo)
    PullFactory.create(repo=team_repo, source_repo=fork, thread__created_by=carol)
    PullFactory.create(repo=team_repo, source_repo=None, thread__created_by=carol)
    source_paths = {
        who: [row["source_repo_path"] for row in api(who).get("/pulls").gives()["results"]]
        for who in (alice, sam)
    }
    assert source_paths == {alice: [None, None], sam: [None, fork.path]}


def test_a_former_member_lists_nothing_of_the_team(api, asked, three, bob, acme):
    assert titles(api(bob).get("/pulls?created_by=bob")) == ["Second"]
    Member.objects.filter(team=acme, user=bob).delete()
    for query in ("", "?created_by=bob", "?participant=self", "?team=acme", "?search=second"):
        assert titles(api(bob).get(f"/pulls{query}")) == []


# Activity


@pytest.fixture
def resting(make, pull):
    """A pull with commits and a newer one without, in the order of the list."""
    newer = make.pull(pull.repo, by=pull.thread.created_by, source="x", title="Newer")
    return pull, newer


def test_a_push_a_review_a_reply_and_every_change_of_status_is_activity(
    api, make, clone, resting, alice, bob
):
    pull, newer = resting
    url, review_of = paths.pull(pull), []

    def rises(act) -> None:
        make.reply(newer.thread, by=bob)
        assert titles(api(bob).get("/pulls")) == ["Newer", "Add an arch"], act
        act()
        results = api(bob).get("/pulls").gives()["results"]
        assert [row["title"] for row in results] == ["Add an arch", "Newer"], act
        assert results[0] == api(bob).get(url).gives()

    def push() -> None:
        clone.push_commit("feature", {"arch": "wide\n"})

    def review(method: str, path: str, **body: str):
        def act() -> None:
            answer = api(alice if "dismissed" in body.values() else bob).send(method, path, body)
            review_of.append(answer.gives(201 if method == "POST" else 200)["uuid"])

        return act

    rises(push)
    for status in ("draft", "open", "closed", "open"):
        rises(lambda status=status: api(alice).put(f"{url}/status", status=status).gives())
    rises(lambda: api(alice).put(url, body="Wider.").gives())
    rises(review("POST", f"{url}/reviews", status="commented"))
    rises(review("PUT", f"{url}/reviews/{review_of[0]}", status="approved"))
    rises(review("PUT", f"{url}/reviews/{review_of[0]}", status="dismissed"))
    rises(lambda: make.reply(pull.thread, by=alice))
    rises(lambda: api(alice).post(f"{url}/merge").gives())


def test_a_target_that_moves_is_no_activity_of_its_pulls(api, clone, resting, bob):
    before = api(bob).get("/pulls").gives()["results"]
    clone.push_commit("main", {"NEWS": "none\n"})
    after = api(bob).get("/pulls").gives()["results"]
    assert [row["base_sha"] for row in after] != [row["base_sha"] for row in before]
    assert [row["title"] for row in after] == ["Newer", "Add an arch"]
    assert [row["last_activity_at"] for row in after] == [row["last_activity_at"] for row in before]


# Filters


FILTERS = {
    "?status=open": ["Second", "First"],
    "?status=draft": [],
    "?status=closed": ["Hidden"],
    "?status=closed&status=open": ["Hidden", "Second", "First"],
    "?status=merged&status=draft": [],
    "?created_by=BOB": ["Second"],
    "?created_by=self": [],
    "?created_by=nobody": [],
    "?participant=bob": ["Second"],
    "?participant=carol&status=closed": ["Hidden"],
    "?awaiting_review_from=nobody": [],
    "?awaiting_review_from=": ["Hidden", "Second", "First"],
    "?search=SECO": ["Second"],
    "?search=_": [],
    "?team=ACME": ["Second", "First"],
    "?team=acme&created_by=alice&status=open": ["First"],
    "?team=nowhere": [],
}


@pytest.mark.parametrize("query", FILTERS)
def test_filters_choose(api, asked, three, carol, sam, query):
    api(carol).put(f"{paths.pull(three[2])}/status", status="closed").gives()
    assert titles(api(sam).get(f"/pulls{query}")) == FILTERS[query]


def test_a_draft_is_none_of_the_open_ones_though_its_thread_is_open(api, asked, three, alice):
    api(alice).put(f"{paths.pull(three[0])}/status", status="draft").gives()
    assert titles(api(alice).get("/pulls?status=open")) == ["Second"]
    assert titles(api(alice).get("/pulls?status=draft")) == ["First"]
    assert titles(api(alice).get("/pulls?status=draft&status=open")) == ["First", "Second"]


def test_who_replies_or_reviews_takes_part(api, asked, make, three, alice, bob, sam):
    make.reply(three[0].thread, by=bob)
    make.review(three[1], by=sam, status="commented")
    assert titles(api(alice).get("/pulls?participant=bob")) == ["Second", "First"]
    assert titles(api(alice).get("/pulls?participant=sam")) == ["Second"]


def test_a_cursor_of_pulls_is_one_of_activity_as_well(api, asked, three, sam):
    api(sam).get("/pulls?before=yesterday").fails(422, "invalid_cursor")
    page = api(sam).get("/pulls?per_page=2").gives()
    assert titles(api(sam).get(page["next"])) == ["First"]
    back = api(sam).get(api(sam).get(page["next"]).gives()["previous"]).gives()
    assert [row["title"] for row in back["results"]] == ["Hidden", "Second"]
    assert api(sam).get(back["previous"]).gives()["results"] == []


def test_the_list_of_a_repository_takes_several_statuses(api, make, repo: Repo, alice):
    for n, status in enumerate(("open", "draft", "closed")):
        pull = make.pull(repo, by=alice, source=f"topic-{n}", title=status)
        api(alice).put(f"{paths.pull(pull)}/status", status=status).gives()
    url = paths.pulls(repo)
    assert titles(api(alice).get(f"{url}?status=open&status=closed")) == ["closed", "open"]
    assert titles(api(alice).get(f"{url}?status=draft&created_by=self")) == ["draft"]
    page = api(alice).get(f"{url}?status=open&status=closed&per_page=1").gives()
    assert titles(api(alice).get(page["next"])) == ["open"]
    detail = api(alice).get(f"{url}?status=open&status=none").fails(422, "validation_failed")
    assert '"none" is not one of open' in detail


def test_the_thread_of_a_pull_tells_its_activity_too(api, make, three, alice, bob):
    make.review(three[0], by=bob, status="commented")
    listed = api(alice).get(paths.pull(three[0])).gives()["last_activity_at"]
    thread = api(alice).get(of_threads.thread(three[0].thread)).gives()
    assert thread["last_activity_at"] == listed > thread["created_at"]

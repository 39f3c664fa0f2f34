"""Home, the person's pulls, the inbox and search: lists across repositories, within access."""

import re
from typing import Any

import pytest

from apps.events.models import Ping
from apps.pulls.jobs import check_next_conflict
from apps.pulls.models import Pull, PullStatus, ReviewStatus
from apps.repos.actions import create_protection
from apps.repos.models import BRANCHES, Repo, Visibility
from apps.statuses.actions import create_status
from apps.teams.actions import add_member
from apps.teams.models import Member
from apps.threads.models import Thread
from tests.factories import (
    ApproverFactory,
    ProtectionFactory,
    PullFactory,
    RefFactory,
    RepoFactory,
    ReviewFactory,
    TeamFactory,
    ThreadFactory,
    UserFactory,
)
from tests.gitclient import Clone
from tests.principals import access_of, team_access_of
from tests.test_queries import costing
from tests.web.page_client import plain

HEAD = "a" * 40


@pytest.fixture
def repo(team_repo: Repo) -> Repo:
    """A pull with both branches, whose target requires the approval of bob."""
    for name in ("main", "feature"):
        RefFactory.create(repo=team_repo, full_name=BRANCHES + name)
    return team_repo


@pytest.fixture
def protection(repo, bob):
    found = ProtectionFactory.create(repo=repo, branch="main")
    ApproverFactory.create(protection=found, user=bob)
    return found


def pull_of(author, repo: Repo, title: str, **fields):
    fields = {"head_sha": HEAD, "head_pushed_by": author, "has_conflict": False, **fields}
    thread = {"thread__created_by": author, "thread__title": title}
    return PullFactory.create(repo=repo, **fields, **thread)


def rows(page, heading: str) -> list[str]:
    """The text of the rows below this heading."""
    found = re.search(rf"<h2[^>]*>{heading}.*?</section>", page.html, re.DOTALL)
    assert found, page.text
    return [plain(row) for row in re.findall(r"<li.*?</li>", found[0], re.DOTALL)]


def test_a_review_waits_for_who_may_give_it_and_the_pull_for_others(
    visit, repo, protection, alice, bob
):
    pull = pull_of(alice, repo, "Renew the lease", changed_files=2, additions=14, deletions=3)
    [asked] = rows(visit(bob).get("/").gives(), "Waiting for you")
    assert "Renew the lease acme/api · alice requested your review · 2 files +14" in asked
    page = visit(alice).get("/").gives()
    [waits] = rows(page, "Waiting for others")
    assert "Renew the lease acme/api · your pull · bob has not approved 0 of 1 approvals" in waits
    assert not rows(page, "Waiting for you") and "Nothing is waiting for you" in page.text
    review = ReviewFactory.create(pull=pull, created_by=bob, commit_sha=HEAD, by_pusher=False)
    page = visit(alice).get("/").gives()
    [ready] = rows(page, "Waiting for you")
    assert "your pull · all approvals are in ready" in ready
    assert not rows(page, "Waiting for others")
    assert not rows(visit(bob).get("/"), "Waiting for you")
    review.status = ReviewStatus.CHANGES_REQUESTED
    review.save()
    [refused] = rows(visit(alice).get("/"), "Waiting for you")
    assert "your pull · bob requested changes changes requested" in refused


def test_a_pull_is_ready_once_git_has_found_no_conflict(visit, team_repo, make, alice, tmp_path):
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.commit("main", {"README": "A place to meet.\n"})
    clone.commit("feature", {"arch": "open\n"}, onto="main")
    clone.push("main", "feature")
    make.pull(team_repo, by=alice, title="Add an arch")

    def shown(heading: str) -> list[str]:
        return rows(visit(alice).get("/").gives(), heading)

    [checking] = shown("Waiting for others")
    assert "your pull · no approval is required checking" in checking
    assert not shown("Waiting for you")
    assert check_next_conflict()
    [ready] = shown("Waiting for you")
    assert "your pull · no approval is required ready" in ready
    clone.commit("main", {"arch": "shut\n"})
    clone.push("main")
    assert "checking" in shown("Waiting for others")[0] and not shown("Waiting for you")
    assert check_next_conflict()
    [conflict] = shown("Waiting for you")
    assert "your pull · it conflicts with main conflict" in conflict
    assert not shown("Waiting for others")


def test_a_pull_waits_for_its_required_statuses(visit, team_repo, make, alice, bob, tmp_path):
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.commit("main", {"README": "A place to meet.\n"})
    clone.commit("feature", {"arch": "open\n"}, onto="main")
    clone.push("main", "feature")
    settings: Any = {"required_approvals": 0, "required_statuses": ["ci/build", "ci/test"]}
    create_protection(access=access_of(alice, team_repo), branch="main", **settings)
    pull = make.pull(team_repo, by=alice)
    assert check_next_conflict()

    def after(context: str, state: str, heading: str) -> str:
        sent = {"sha": pull.head_sha, "context": context, "state": state}
        create_status(access=access_of(bob, team_repo), **sent)
        [row] = rows(visit(alice).get("/").gives(), heading)
        return str(row)

    [row] = rows(visit(alice).get("/").gives(), "Waiting for others")
    assert "your pull · ci/build and ci/test have not passed yet checks pending" in row
    row = after("ci/build", "success", "Waiting for others")
    assert "your pull · ci/test has not passed yet checks pending" in row
    assert "your pull · ci/test failed checks failed" in after(
        "ci/test", "error", "Waiting for you"
    )
    row = after("ci/test", "success", "Waiting for you")
    assert "your pull · no approval is required ready" in row


def test_required_statuses_cost_one_query_for_all_pulls(visit, repo, make, alice):
    settings: Any = {"required_approvals": 0, "required_statuses": ["ci"]}
    create_protection(access=access_of(alice, repo), branch="main", **settings)
    costs, person = [], visit(alice)
    for count in (1, 3):
        for number in range(count):
            source = f"s{number}-{count}"
            RefFactory.create(repo=repo, full_name=BRANCHES + source)
            pull = make.pull(repo, by=alice, source=source)
            Pull.objects.filter(pk=pull.pk).update(head_sha=f"{pull.pk:040x}")
        person.get("/pulls").gives()
        with costing() as cost:
            person.get("/pulls").gives()
        costs.append(cost.sql)
    assert person.get("/pulls?show=others").gives().html.count("ci has not passed yet") == 4
    assert costs[0] == costs[1]


def test_a_pull_with_nothing_to_merge_is_not_ready(visit, team_repo, make, alice, tmp_path):
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.commit("main", {"README": "A place to meet.\n"})
    clone.push("main", "main:feature")
    pull = make.pull(team_repo, by=alice, title="Add an arch")
    assert check_next_conflict()
    [nothing] = rows(visit(alice).get("/").gives(), "Waiting for you")
    assert "your pull · main already has all of its commits nothing to merge" in nothing
    page = visit(alice).get(f"/teams/acme/api/pulls/{pull.number}").gives()
    assert "The target already has all of these changes." in page.text
    clone.commit("feature", {"arch": "open\n"}, onto="main")
    clone.push("feature")
    assert check_next_conflict()
    [ready] = rows(visit(alice).get("/").gives(), "Waiting for you")
    assert "your pull · no approval is required ready" in ready


def test_drafts_and_what_others_merge_wait_for_others_and_a_missing_branch_for_me(
    visit, repo, alice, carol
):
    pull_of(alice, repo, "Half done", status=PullStatus.DRAFT)
    pull_of(alice, repo, "From nowhere", source_branch="gone")
    page = visit(alice).get("/").gives()
    [draft] = rows(page, "Waiting for others")
    assert "Half done acme/api · your draft draft" in draft
    [missing] = rows(page, "Waiting for you")
    assert "there is no branch gone" in missing
    Repo.objects.update(visibility=Visibility.PUBLIC)
    pull_of(carol, repo, "From outside")
    [waits] = rows(visit(carol).get("/"), "Waiting for others")
    assert "your pull · no approval is required to be merged" in waits


def test_a_pull_or_thread_has_one_row_with_all_reasons(visit, make, repo, protection, alice, bob):
    thread = make.thread(repo, by=bob, title="Which language?")
    make.reply(thread, by=alice, body="German")
    make.reply(thread, by=alice, body="@bob, or French")
    pull = make.pull(repo, by=alice, title="Speak German")
    make.reply(pull.thread, by=alice, body="@bob please")
    found = rows(visit(bob).get("/").gives(), "Waiting for you")
    assert len(found) == 2
    both = "alice mentioned you · alice requested your review"
    assert f"unread Speak German acme/api · {both}" in found[0]
    assert "Which language? acme/api · alice mentioned you · alice replied to you" in found[1]


def test_nothing_is_shown_of_what_one_may_not_read_any_more(
    visit, make, repo, protection, alice, bob
):
    make.thread(repo, by=alice, title="Secret plan", body="@bob")
    make.pull(repo, by=bob, title="Secret change")
    make.pull(repo, by=alice, title="Secret wish", source="main2")
    person = visit(bob)
    for path in ("/", "/inbox", "/pulls", "/pulls?show=others", "/activity"):
        assert "Secret" in person.get(path).gives().text, path
    Member.objects.filter(user=bob).delete()
    paths = ["/", "/inbox", "/inbox?unread=false", "/activity", "/activity?scope=self"]
    paths += [f"/pulls?show={show}" for show in ("you", "others", "done")]
    paths += [f"/search?type={one}" for one in ("repos", "pulls", "threads")] + ["/users/alice"]
    for path in paths:
        html = person.get(path).gives().html
        assert "Secret" not in html and "acme/api" not in html, path
    assert 'class="count hot"' not in person.get("/").html


def test_home_of_somebody_new_says_what_will_be_there(visit, carol):
    page = visit(carol).get("/").gives()
    assert page.h1 == "Home" and page.text.count("You are not in any team") == 1
    assert "Nothing is waiting for you" in page.text
    assert "You and your teams have no repositories" in page.text


def test_repositories_of_one_and_of_ones_teams_stand_there_but_not_those_of_others(
    visit, make, repo, alice, bob, carol
):
    make.repo(bob, "notes", by=bob, description="Things to remember")
    make.repo(carol, "elsewhere", by=carol, visibility="public")
    pull_of(alice, repo, "One")
    repos = rows(visit(bob).get("/").gives(), "Repositories")
    own, others = "bob/notes Things to remember", "acme/api 1 open pull"
    assert repos == [f"private {own} empty", f"private {others} empty"]
    assert "acme" in rows(visit(bob).get("/"), "Teams")[0]


def test_strangers_see_what_this_is_and_public_repositories_alone(visit, make, repo, alice):
    assert "There are no public repositories yet" in visit().get("/").gives().text
    make.repo(alice, "open", by=alice, visibility="public")
    make.repo(alice, "inside", by=alice, visibility="internal")
    page = visit().get("/").gives()
    assert page.h1 == "Guildhall" and 'href="/users/alice/open"' in page.html
    assert "api" not in re.findall(r'href="/(?:users|teams)/\w+/(\w+)"', page.html)
    assert "inside" not in page.html and "/inbox" not in page.html
    for path in ("/inbox", "/pulls", "/activity", "/search"):
        visit().get(path).redirects_to(f"/signin?next={path}", 302)


def test_pulls_are_by_who_does_something_next(visit, repo, protection, alice, bob):
    pull_of(alice, repo, "Reviewed by bob")
    pull_of(bob, repo, "Merged", status=PullStatus.MERGED)
    pull_of(bob, repo, "Closed", status=PullStatus.CLOSED)
    pull_of(bob, repo, "Draft", status=PullStatus.DRAFT)
    person = visit(bob)

    def titles(show: str) -> set[str]:
        html = person.get(f"/pulls?show={show}").gives().html
        return set(re.findall(r'<div class="entry"><a[^>]*><bdi>(.*?)</bdi></a>', html))

    assert titles("you") == {"Reviewed by bob"}
    assert titles("others") == {"Draft"}
    assert titles("done") == {"Merged", "Closed"}
    assert "Reviewed by bob" in person.get("/pulls").text
    person.get("/pulls?show=none").gives(422)
    assert "No pull is waiting for you" in visit(alice).get("/pulls").text
    assert "has been merged or closed yet" in visit(alice).get("/pulls?show=done").text


def rows_for(alice, bob, acme, repo, make, count: int) -> None:
    """This many rows in every list of the home page."""
    for number in range(count):
        make.reply(make.thread(repo, by=bob), by=alice, body="@bob")
        make.pull(repo, by=alice, source=f"s{number}-{count}")
        pull = make.pull(repo, by=bob, source=f"t{number}-{count}")
        make.review(pull, by=alice)
        make.repo(bob, by=bob)
        TeamFactory.create(owner=bob)


@pytest.mark.parametrize(
    ("path", "most"),
    [("/", 16), ("/inbox", 6), ("/pulls", 9), ("/pulls?show=done", 5), ("/activity", 9)],
)
def test_a_page_that_gathers_costs_the_same_for_nine_of_everything_as_for_three(
    visit, make, repo, protection, acme, alice, bob, path, most
):
    person = visit(bob)
    costs = []
    for count in (3, 6):
        rows_for(alice, bob, acme, repo, make, count)
        if count == 3:
            person.get(path).gives()
        with costing() as cost:
            page = person.get(path).gives()
        costs.append((cost.sql, cost.git))
    assert Thread.objects.count() == 27 and page.html.count("<li") > 3
    assert costs[0] == costs[1] and costs[0] <= (most, 0), costs


NOWHERE = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def thread(make, team_repo, alice, bob):
    """A thread by alice that mentions bob twice."""
    found = make.thread(team_repo, by=alice, title="Slow pushes", body="@bob")
    make.reply(found, by=alice, body="@bob, look")
    return found


def count(page) -> str:
    """The number of unread pings in the header."""
    found = re.findall(r'Inbox</span>(?:<span class="count hot">(.*?)</span>)?', page.html)
    return str(found[0])


def test_each_ping_says_what_happened_where_and_leads_there(visit, make, acme, thread, alice, bob):
    page = visit(bob).get("/inbox").gives()
    assert page.text.count("Slow pushes acme/api · alice mentioned you") == 2
    assert 'href="/teams/acme/api/threads/1#reply-1"' in page.html
    carol = make.with_token(type(bob).objects.create(username="carol", username_key="carol"))
    add_member(access=team_access_of(alice, acme), user=carol, role="viewer")
    page = visit(carol).get("/inbox").gives()
    assert "acme alice added you to the team" in page.text and 'href="/teams/acme"' in page.html
    assert count(page) == "1"


def test_pings_are_marked_as_read_one_by_one(visit, thread, alice, bob, events):
    person, other = visit(bob), visit(alice)
    ping = Ping.objects.filter(user=bob).latest("event")
    assert count(person.get("/")) == "2" and count(other.get("/")) == ""
    with events():
        other.post(f"/inbox/{ping.uuid}/read").gives(404)
        person.post(f"/inbox/{NOWHERE}/read").gives(404)
        person.get(f"/inbox/{ping.uuid}/read").gives(405)
        visit().post(f"/inbox/{ping.uuid}/read").gives(401)
        for _ in range(2):
            person.post(f"/inbox/{ping.uuid}/read").redirects_to("/inbox")
    page = person.get("/inbox")
    assert count(page) == "1" and page.html.count('class="unread"') == 1
    all_of_them = person.get("/inbox?unread=false").gives()
    assert all_of_them.text.count("alice mentioned you") == 2
    assert all_of_them.html.count('class="unread"') == 1


def test_all_are_marked_as_read_at_once_and_the_empty_list_says_what_comes_there(
    visit, thread, bob
):
    person = visit(bob)
    person.post("/inbox/read-all", next="/inbox?page=1").redirects_to("/inbox?page=1")
    page = person.get("/inbox").gives()
    assert "All pings marked as read." in page.text and "No unread pings." in page.text
    assert count(page) == "" and 'action="/inbox/read-all"' not in page.html
    assert "Slow pushes" in person.get("/inbox?unread=false").text


@pytest.mark.parametrize("goal", ["https://evil.example/inbox", "//evil.example", "/settings", ""])
def test_the_way_back_leads_to_the_inbox_only(visit, thread, bob, goal):
    visit(bob).post("/inbox/read-all", next=goal).redirects_to("/inbox")


def test_a_long_inbox_has_pages_and_the_bar_counts_no_further_than_it_says(visit, thread, bob):
    event = Ping.objects.filter(user=bob).latest("event").event
    more = []
    for _ in range(118):
        event.pk = None
        event.save(force_insert=True)
        more.append(Ping(user=bob, event_id=event.pk, kind="mention"))
    Ping.objects.bulk_create(more)
    person = visit(bob)
    page = person.get("/inbox").gives()
    assert count(page) == "99+" and page.html.count("alice mentioned you") == 50
    assert 'href="/inbox?page=2"' in page.html
    assert person.get("/inbox?page=3").gives().html.count("alice mentioned you") == 20


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


ADD = {
    "repos": lambda repo, name: RepoFactory.create(
        owner=repo.owner, slug=name, visibility="public"
    ),
    "threads": lambda repo, name: ThreadFactory.create(repo=repo, title=name),
    "pulls": lambda repo, name: PullFactory.create(repo=repo, thread__title=name),
    "users": lambda repo, name: UserFactory.create(username=name),
}


@pytest.mark.parametrize("sort", TYPES)
def test_a_long_answer_has_pages_and_costs_the_same(visit, team_repo, bob, sort):
    person, costs, query = visit(bob), [], f"q=moon&type={sort}"
    for count in (3, 57):
        for number in range(count):
            ADD[sort](team_repo, f"moon{count}-{number}")
        person.get(f"/search?{query}").gives()
        with costing() as cost:
            page = person.get(f"/search?{query}").gives()
        costs.append((cost.sql, cost.git))
    assert costs[0] == costs[1] and costs[0] <= (7, 0)
    following = page.find(r'rel="next" href="/search\?([^"]+)"')
    first, second = found(person, query), found(person, following)
    assert len(first) == 50 and len({*first, *second}) == 60


def test_the_bar_searches_from_every_page_for_who_is_signed_in(visit, bob):
    assert '<form role="search" action="/search">' in visit(bob).get("/settings").html
    assert "/search" not in visit().get("/").html

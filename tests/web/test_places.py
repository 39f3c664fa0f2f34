"""The pages of teams, people and repositories, who may open them, and the pages of activity."""

import re
from urllib.parse import quote
from uuid import uuid4
from xml.etree import ElementTree

import pytest

from apps.events.models import ActivityCount, Event
from apps.repos.models import Visibility
from apps.teams.access import access_to_team
from apps.teams.actions import update_team
from apps.teams.models import Member
from apps.web.activity import graph
from tests.principals import principal_of
from tests.web.page_client import plain

HIDDEN = ["", "/threads", "/pulls", "/forks", "/activity", "/commits", "/branches", "/tags"]
HIDDEN += ["/compare", ".git", "/settings", "/files/README.md", "/raw/README.md", "/commits/main"]
HIDDEN += [f"/threads/1{below}" for below in ("", "/edit", "/versions", "/replies/1")]
HIDDEN += [f"/pulls/1{below}" for below in ("", "/files", "/commits", "/verdict")]
HIDDEN += ["/threads/99", "/pulls/99", "?page=x", "/threads?page=x", "/settings/protections"]


def assert_look_alike(person, addresses) -> None:
    """Anonymous people are asked to sign in, and nothing else differs."""
    answers = [person.get(address) for address in addresses]
    goal = "" if addresses[0].endswith(".git") else "/signin?next="
    for address, answer in zip(addresses, answers, strict=True):
        shown = quote(address) if goal else address.removesuffix(".git")
        answer.redirects_to(f"{goal}{shown}", 302)
    ownless = {"Location", "Content-Length", "X-Request-Id"}
    first, *others = [(set(one.response.headers) - ownless, one.html) for one in answers]
    assert all(other == first for other in others)


@pytest.mark.parametrize("below", HIDDEN)
def test_people_who_are_not_signed_in_cannot_tell_a_private_repository_from_a_missing_one(
    visit, make, team_repo, alice, below
):
    make.thread(team_repo, by=alice)
    own = make.repo(alice, "notes", by=alice, visibility=Visibility.PRIVATE)
    paths = [team_repo.path, own.path]
    paths += ["teams/acme/nothing", "teams/nobody/api", "users/alice/nothing", "users/no/api"]
    assert_look_alike(visit(), [f"/{path}{below}" for path in paths])


@pytest.mark.parametrize("below", ["", "?page=x", "?page=2", "/~members", "/~settings"])
def test_people_who_are_not_signed_in_cannot_tell_a_closed_team_from_a_missing_one(
    visit, acme, team_repo, alice, below
):
    update_team(access=access_to_team(principal_of(alice), acme), name="Acme", slug="acme-two")
    names = ["acme-two", "acme", "nothing"]
    assert_look_alike(visit(), [f"/teams/{name}{below}" for name in names])


@pytest.mark.parametrize("below", ["", "?page=x", "?page=2"])
def test_people_who_are_not_signed_in_cannot_tell_who_has_an_account(visit, alice, below):
    assert_look_alike(visit(), [f"/users/{name}{below}" for name in ("alice", "nothing")])


def test_an_unknown_number_of_a_public_repository_is_404_for_everybody(visit, make, acme, alice):
    repo = make.repo(acme, "open", by=alice, visibility=Visibility.PUBLIC)
    for person in (visit(), visit(alice)):
        person.get(f"/{repo.path}/threads/99").gives(404)
        person.get("/teams/acme?page=x").gives(422)
    visit(alice).get("/teams/acme/nothing").gives(404)


def test_a_former_slug_leads_to_todays_page_for_those_who_may_read_it(
    visit, make, acme, team_repo, alice, bob, carol
):
    thread = make.thread(team_repo, by=alice)
    space = access_to_team(principal_of(alice), acme)
    update_team(access=space, name="Acme", slug="acme-two")
    old = f"/teams/acme/api/threads/{thread.number}?page=1"
    visit(bob).get(old).redirects_to(f"/teams/acme-two/api/threads/{thread.number}?page=1", 301)
    visit(bob).get("/teams/acme/~members").redirects_to("/teams/acme-two/~members", 301)
    assert "acme-two" not in visit(carol).get(old).gives(403).html
    visit().get(old).redirects_to(f"/signin?next={quote(old)}", 302)


def test_an_empty_repository_says_how_to_push_and_the_clone_address_leads_to_the_page(
    visit, team_repo, bob
):
    page = visit(bob).get(f"/{team_repo.path}").gives()
    assert f"git remote add origin http://testserver/{team_repo.path}.git" in page.text
    visit(bob).get(f"/{team_repo.path}.git").redirects_to(f"/{team_repo.path}", 302)


def test_a_team_shows_its_repositories_to_those_who_may_read_them(
    visit, make, acme, team_repo, alice, bob, carol
):
    make.repo(acme, "open", by=alice, visibility=Visibility.PUBLIC)
    assert "api" in visit(bob).get("/teams/acme").gives().text
    for person in (visit(), visit(carol)):
        page = person.get("/teams/acme").gives()
        assert "open" in page.text and "/teams/acme/api" not in page.html
        assert "/users/bob" not in page.html
    assert "acme" in visit(bob).get("/teams").gives().text
    assert "You are not in any team" in visit(carol).get("/teams").text
    visit().get("/teams").redirects_to("/signin?next=/teams", 302)


def test_members_are_added_changed_and_removed(visit, acme, alice, bob, carol, events):
    person = visit(alice)
    assert "carol" not in person.get("/teams/acme/~members").gives().text
    with events("member-added"):
        added = person.post("/teams/acme/~members", username="Carol", role="viewer")
        added.redirects_to("/teams/acme/~members")
    again = person.post("/teams/acme/~members", username="carol", role="viewer").gives(409)
    assert again.alert() and again.value("username") == "carol"
    assert person.post("/teams/acme/~members", username="nobody", role="viewer").gives(422).alert()
    with events("member-updated"):
        person.post("/teams/acme/~members/carol/role", role="member")
    assert "Remove carol" in person.get("/teams/acme/~members/carol/remove").gives().text
    with events("member-removed", "member-removed"):
        person.post("/teams/acme/~members/carol/remove").redirects_to("/teams/acme/~members")
        visit(bob).post("/teams/acme/~members/bob/remove").redirects_to("/teams")
    assert [one.user.username for one in Member.objects.filter(team=acme)] == ["alice"]
    person.post("/teams/acme/~members/alice/remove").gives(409)
    person.post("/teams/acme/~members/alice/role", role="viewer").gives(409)


def test_a_person_is_shown_with_the_repositories_that_one_may_read(visit, make, alice, bob, carol):
    make.repo(alice, "secret-plan", by=alice)
    visit().get("/users/alice").redirects_to("/signin?next=/users/alice", 302)
    assert "secret-plan" not in visit(bob).get("/users/Alice").gives().text
    assert "secret-plan" in visit(alice).get("/users/alice").gives().text
    make.repo(alice, "open", by=alice, visibility=Visibility.PUBLIC)
    page = visit().get("/users/alice").gives()
    assert "open" in page.text and "secret-plan" not in page.html
    visit(bob).get("/users/nobody").gives(404)


def told(page) -> list[str]:
    """The sentences of the events on the page, newest first."""
    found = re.findall(r'<li class="event".*?</li>', page.html, re.DOTALL)
    return [plain(one).removesuffix(" just now") for one in found]


def test_it_tells_of_ones_teams_and_own_repositories(visit, make, team_repo, alice, bob, carol):
    make.thread(team_repo, by=alice, title="Slow pushes")
    make.repo(bob, "notes", by=bob)
    make.repo(carol, "elsewhere", by=carol, visibility="public")
    assert told(visit(bob).get("/activity").gives()) == [
        "bob created the repository bob/notes",
        "alice started #1 Slow pushes in acme/api",
        "alice created the repository acme/api",
    ]
    of_carol = ["carol created the repository carol/elsewhere"]
    assert told(visit(bob).get("/activity?scope=user:Carol").gives()) == of_carol
    assert told(visit(bob).get("/activity?scope=self")) == ["bob created the repository bob/notes"]
    assert told(visit(carol).get("/activity")) == of_carol


def test_only_what_one_may_read_is_told(visit, make, team_repo, alice, bob, carol, sam):
    make.thread(team_repo, by=alice, title="Secret plan")
    person = visit(carol)
    for path in ("/teams/acme/~activity", "/teams/acme/api/activity"):
        person.get(path).gives(403)
        visit().get(path).redirects_to(f"/signin?next={path}", 302)
        for reader in (bob, sam):
            assert "Secret plan" in visit(reader).get(path).gives().text
    for scope in ("team:acme", "repo:teams/acme/api", "thread:teams/acme/api/1", "site"):
        person.get(f"/activity?scope={scope}").gives(403)
    person.get("/activity?scope=moon").gives(422)
    person.get("/activity?scope=team:nobody").gives(404)
    person.get("/activity?before_id=x").gives(422)
    for path in ("/activity", "/activity?scope=user:alice", "/users/alice", "/"):
        assert "Secret" not in person.get(path).gives().html
    Member.objects.filter(user=bob).delete()
    for path in ("/activity", "/activity?scope=self", "/activity?scope=inbox", "/"):
        assert "Secret" not in visit(bob).get(path).gives().html


def test_anybody_reads_what_goes_on_in_a_public_repository(visit, make, alice):
    repo = make.repo(alice, "open", by=alice, visibility=Visibility.PUBLIC)
    page = visit().get(f"/{repo.path}/activity").gives()
    assert told(page) == ["alice created the repository alice/open"]
    assert "data-live" not in page.html
    live = visit(alice).get(f"/{repo.path}/activity").html
    assert 'data-live data-scope="repo:users/alice/open"' in live


def test_older_events_are_on_further_pages(visit, make, team_repo, alice, bob):
    event = Event.objects.latest("id")
    for number in range(120):
        event.pk, event.kind, event.data = None, "branch-pushed", {"commit_count": number + 1}
        event.target = {"kind": "branch", "name": "main"}
        event.save(force_insert=True)
    person, path, seen = visit(bob), "/teams/acme/~activity?x=1", list[str]()
    while path and len(seen) < 200:
        page = person.get(path).gives()
        seen += told(page)
        assert ("data-live" in page.html) == ("before_id" not in path)
        found = re.search(r'rel="next" href="([^"]+)"', page.html)
        path = found[1].replace("&amp;", "&") if found else ""
    assert len(seen) == len(set(seen)) == 121
    assert seen[0].startswith("alice pushed 120 commits") and "created" in seen[-1]
    assert "No older activity" in person.get("/teams/acme/~activity?before_id=1").gives().text


@pytest.mark.parametrize(
    "path", ["/activity", "/teams/acme/~activity", "/teams/acme/api/activity", "/users/alice", "/"]
)
def test_the_newest_event_says_from_where_a_live_page_goes_on(
    visit, make, team_repo, alice, bob, path
):
    make.thread(team_repo, by=alice)
    html = visit(bob).get(path).gives().html
    newest = Event.objects.latest("id").pk
    assert f'id="event-{newest}" data-kind="thread-created"' in html
    assert (f'data-after="{newest}"' in html) == (path != "/users/alice")


def test_an_empty_list_says_what_would_be_there(visit, acme, carol, bob):
    own = visit(carol).get("/activity").gives().text
    assert "Your teams and repositories have no activity" in own
    page = visit(bob).get("/teams/acme/~activity").gives()
    assert "Events of the team and its repositories appear here" in page.text


def test_a_person_is_drawn_with_what_they_did(visit, make, team_repo, alice, bob):
    make.thread(team_repo, by=alice)
    page = visit(bob).get("/users/alice").gives()
    assert page.html.count("h3v") == 90 and "1 thread" in page.text
    assert re.search(r'role="img" aria-label="Events per day, .*; 1 in all, most 1 on', page.html)
    ActivityCount.objects.all().delete()
    assert "0 in all" in visit(bob).get("/users/alice").html


@pytest.mark.once
def test_the_tallest_bar_fills_the_drawing_and_an_empty_day_is_a_line():
    counts = [0, 3, 6]
    days = [{"date": f"2026-01-0{n + 1}", "count": count} for n, count in enumerate(counts)]
    totals = dict.fromkeys(("pulls_created", "reviews_created", "threads_created"), 0)
    totals |= {"replies_created": 1, "pushes": 8}
    drawn = graph({"days": days, "from": "2026-01-01", "to": "2026-01-03", "totals": totals})
    assert drawn["bars"] == "M0 36v-1h3v1zM4 36v-18h3v18zM8 36v-36h3v36z"
    assert drawn["words"] == ["1 reply", "8 pushes"] and drawn["total"] == 9


@pytest.mark.once
@pytest.mark.parametrize("kind", ["users", "teams"])
def test_a_face_is_a_picture_that_never_changes(visit, alice, kind):
    path = f"/avatars/{kind}/{alice.uuid}.svg"
    found = visit().get(path).gives()
    assert found.header("Content-Type") == "image/svg+xml"
    assert found.header("Cache-Control") == "private, max-age=31536000, immutable"
    root = ElementTree.fromstring(found.html)  # noqa: S314 - our own
    inline = visit(alice).get("/").html
    drawn = root[1].attrib["d"]
    assert f'd="{drawn}"' in inline
    assert visit(alice).get(path).html == found.html
    visit().get(f"/avatars/{kind}/{uuid4()}.svg").gives()
    visit().get(f"/avatars/{kind}/alice.svg").gives(404)

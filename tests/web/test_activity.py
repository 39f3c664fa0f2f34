"""The pages of activity: of a person's teams and repositories, of a scope, a team, a repository."""

from __future__ import annotations

import re
from uuid import uuid4
from xml.etree import ElementTree

import pytest

from apps.events.models import Event
from apps.repos.models import Visibility
from apps.teams.models import Member
from apps.web.activity import graph
from tests.web.page_client import plain


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
    assert told(visit(bob).get("/activity?scope=user:Carol").gives()) == [
        "carol created the repository carol/elsewhere"
    ]
    assert told(visit(bob).get("/activity?scope=self")) == ["bob created the repository bob/notes"]
    assert told(visit(carol).get("/activity")) == ["carol created the repository carol/elsewhere"]


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
    assert (
        "Your teams and repositories have no activity" in visit(carol).get("/activity").gives().text
    )
    page = visit(bob).get("/teams/acme/~activity").gives()
    assert "Events of the team and its repositories appear here" in page.text


def test_a_person_is_drawn_with_what_they_did(visit, make, team_repo, alice, bob):
    make.thread(team_repo, by=alice)
    page = visit(bob).get("/users/alice").gives()
    assert page.html.count("h3v") == 90 and "1 thread" in page.text
    assert re.search(r'role="img" aria-label="Events per day, .*; 1 in all, most 1 on', page.html)
    Event.objects.all().delete()
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

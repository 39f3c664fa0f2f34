"""Former slugs lead to their teams and repositories until others take them."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from apps.repos import jobs
from apps.repos.models import Repo
from apps.teams.models import FormerTeamSlug, Team
from tests.api import Answer
from tests.factories import TeamFactory
from tests.test_queries import costing


def rename(api, repo, slug: str, by) -> str:
    """Change the repository's slug; return its new path."""
    record = api(by).put(repo.api_path, name="Api", slug=slug).gives()["api_url"]
    return str(record).removeprefix("http://testserver")


def leads_to(answer: Answer, path: str) -> None:
    assert answer.status == 301
    assert answer.header("Location") == f"http://testserver{path}"


def test_a_former_slug_leads_those_who_may_read_to_the_repo(api, repo, alice, carol):
    now = rename(api, repo, "engine", alice)
    api().get(repo.api_path).fails(401, "not_authenticated")
    assert "engine" not in api(carol).get(repo.api_path).fails(403, "forbidden")
    leads_to(api(alice).get(repo.api_path), now)
    leads_to(api(alice).get(f"{repo.api_path}/threads/1?x=%C3%A9&y"), f"{now}/threads/1?x=%C3%A9&y")
    leads_to(api(alice).send("HEAD", repo.api_path), now)


def test_nothing_is_changed_through_a_former_slug(api, repo, alice, events):
    rename(api, repo, "engine", alice)
    with events():
        api(alice).put(repo.api_path, name="x", slug="x").fails(404, "not_found")
        body = {"title": "t", "body": "", "kind": "issue"}
        api(alice).post(f"{repo.api_path}/threads", **body).fails(404, "not_found")


def test_whoever_takes_a_former_slug_has_it(api, make, repo, alice):
    before = repo.api_path
    rename(api, repo, "engine", alice)
    taker = make.repo(repo.owner, "api", by=alice)
    assert api(alice).get(before).gives()["uuid"] == str(taker.uuid)
    gone = rename(api, taker, "other", alice)
    leads_to(api(alice).get(before), gone)


def test_a_fork_that_takes_a_former_slug_has_it(api, make, alice, carol):
    upstream = make.repo(alice, "api", by=alice, visibility="public")
    own = make.repo(carol, "api", by=carol)
    rename(api, own, "engine", carol)
    api(carol).post(f"{upstream.api_path}/forks").gives(201)
    jobs.make_next_fork()
    made = Repo.objects.get(upstream=upstream)
    assert made.slug == "api"
    gone = rename(api, made, "copy", carol)
    leads_to(api(carol).get("/users/carol/repos/api"), gone)


def test_a_slug_that_is_taken_back_is_not_a_former_one(api, repo, alice):
    before = repo.api_path
    now = rename(api, repo, "engine", alice)
    repo.slug = "engine"
    rename(api, repo, "api", alice)
    assert api(alice).get(before).gives()["slug"] == "api"
    leads_to(api(alice).get(now.removeprefix("/api/v1")), f"/api/v1{before}")


def test_a_slug_that_one_repo_gave_up_another_may_be_renamed_to(api, make, repo, alice):
    before = repo.api_path
    rename(api, repo, "engine", alice)
    other = make.repo(repo.owner, "other", by=alice)
    rename(api, other, "api", alice)
    assert api(alice).get(before).gives()["uuid"] == str(other.uuid)


def test_a_former_slug_of_the_team_leads_to_all_below_it(api, make, acme, alice, carol):
    repo = make.repo(acme, "api", by=alice)
    rename(api, repo, "engine", alice)
    api(alice).put("/teams/acme", name="Acme", slug="guild").gives()
    home = "/api/v1/teams/guild"
    leads_to(api(carol).get("/teams/acme"), home)
    api(carol).get("/teams/acme/members").fails(403, "forbidden")
    leads_to(api(alice).get("/teams/acme/members?page=2"), f"{home}/members?page=2")
    leads_to(api(alice).get("/teams/acme/repos"), f"{home}/repos")
    leads_to(api(alice).get("/teams/acme/check-repo-slug?slug=x"), f"{home}/check-repo-slug?slug=x")
    for slug in ("api", "engine"):
        leads_to(api(alice).get(f"/teams/acme/repos/{slug}/pulls"), f"{home}/repos/engine/pulls")
    api(alice).put("/teams/acme", name="Acme", slug="acme").fails(404, "not_found")
    api(alice).get("/teams/acme/repos/nothing").fails(404, "not_found")


def asked(api, slug):
    answer = api().get(f"/check-team-slug?slug={slug}")
    return answer.status, answer.json["suggestion"]


def test_no_other_team_takes_a_slug_that_was_given_up_lately(api, make, acme, alice, carol, events):
    repo = make.repo(acme, "api", by=alice)
    old = repo.api_path
    api(alice).put("/teams/acme", name="Acme", slug="guild").gives()
    assert asked(api, "acme") == asked(api, "Acme") == (409, "acme-2")
    with events():
        api(carol).post("/teams", name="Other", slug="acme").fails(409, "slug_taken")
        api(alice).post("/teams", name="Other", slug="acme").fails(409, "slug_taken")
    TeamFactory.create(slug="other", owner=carol)
    with events():
        api(carol).put("/teams/other", name="Other", slug="acme").fails(409, "slug_taken")
    leads_to(api(alice).get(old), "/api/v1/teams/guild/repos/api")


def test_a_team_takes_its_own_former_slug_again_at_once(api, acme, alice):
    for slug in ("guild", "acme", "guild", "acme"):
        team = Team.objects.get(pk=acme.pk)
        api(alice).put(f"/teams/{team.slug}", name="Acme", slug=slug).gives()
    assert api(alice).get("/teams/acme").gives()["slug"] == "acme"
    leads_to(api(alice).get("/teams/guild"), "/api/v1/teams/acme")
    assert asked(api, "guild") == (409, "guild-2")


@pytest.mark.parametrize("by_renaming", [False, True])
def test_whoever_takes_a_former_team_slug_after_ninety_days_has_it(
    api, make, acme, alice, carol, by_renaming
):
    make.repo(acme, "api", by=alice)
    api(alice).put("/teams/acme", name="Acme", slug="guild").gives()
    days_ago(89)
    api(carol).post("/teams", name="Other", slug="acme").fails(409, "slug_taken")
    days_ago(90)
    leads_to(api(alice).get("/teams/acme"), "/api/v1/teams/guild")
    assert asked(api, "acme") == (200, None)
    if by_renaming:
        TeamFactory.create(slug="other", owner=carol)
        taken = api(carol).put("/teams/other", name="Other", slug="acme").gives()
    else:
        taken = api(carol).post("/teams", name="Other", slug="acme").gives(201)
    assert api(alice).get("/teams/acme").gives()["uuid"] == taken["uuid"]
    api(alice).get("/teams/acme/repos/api").fails(404, "not_found")
    make.repo(Team.objects.get(slug="acme"), "api", by=carol, visibility="public")
    assert api(alice).get("/teams/acme/repos/api").gives()["owner_slug"] == "acme"
    api(alice).put("/teams/guild", name="Acme", slug="acme").fails(409, "slug_taken")


def days_ago(days):
    """Set the age of all former slugs."""
    FormerTeamSlug.objects.update(given_up_at=timezone.now() - dt.timedelta(days=days))


def test_a_repo_slug_that_was_given_up_is_free_in_its_own_space_alone(
    api, make, repo, alice, carol, bob
):
    """Slugs are unique per owner, so nobody else can take one in this space."""
    rename(api, repo, "engine", alice)
    space = repo.owner.path
    assert api(alice).get(f"/{space}/check-repo-slug?slug=api").gives()["available"]
    api(carol).post(f"/{space}/repos", name="Api", slug="api").fails(403, "forbidden")
    api(alice).post(f"/{space}/repos", name="Api", slug="api").gives(201)


def answer_and_queries(client, path: str) -> tuple[int, int]:
    with costing() as cost:
        status = client.get(path).status_code
    return status, cost.sql


@pytest.mark.parametrize("owner", ["teams/acme", "users/alice"])
@pytest.mark.parametrize("below", ["/secret", "/secret.git/info/refs?service=git-upload-pack"])
def test_a_stranger_gets_the_answer_for_a_private_repository_after_as_many_queries_as_without(
    client, make, acme, alice, owner, below
):
    make.repo(acme, "other", by=alice)
    path = f"/{owner}{below}"
    answer_and_queries(client, path)  # the first request looks up more
    without = answer_and_queries(client, path)
    make.repo(acme if owner == "teams/acme" else alice, "secret", by=alice)
    assert answer_and_queries(client, path) == without


@pytest.mark.parametrize(
    "path", ["teams/acme/once", "users/alice/once", "teams/old/secret", "teams/old/once"]
)
@pytest.mark.parametrize("below", ["", ".git/info/refs?service=git-upload-pack"])
def test_a_former_slug_of_a_private_repository_takes_a_stranger_as_many_queries_as_no_slug(
    client, api, make, acme, alice, path, below
):
    old = TeamFactory.create(slug="old", owner=alice)
    make.repo(old, "secret", by=alice)
    for owner in (acme, alice, old):
        rename(api, make.repo(owner, "once", by=alice), "now", by=alice)
    api(alice).put("/teams/old", name="Old", slug="renamed").gives()
    absent = f"/{path.rpartition('/')[0]}/absent{below}"
    answer_and_queries(client, absent)  # the first request looks up more
    assert answer_and_queries(client, f"/{path}{below}") == answer_and_queries(client, absent)

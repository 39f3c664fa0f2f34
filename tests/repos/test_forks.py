"""…/repos/{repo_slug}/forks, …/fork, …/forks/user/…, …/forks/team/… and /forks/{uuid}"""

from __future__ import annotations

from uuid import uuid4

import pytest

from apps.repos import jobs
from apps.repos.models import Fork, Repo, Visibility
from apps.teams.models import Role
from tests import prepared_data
from tests.factories import MemberFactory, TeamFactory
from tests.gitclient import Clone
from tests.prepared_data import given, with_people


def of_team(make, folder):
    things = with_people(make, folder)
    return things | {"repo": make.repo(things["acme"], "api", by=things["alice"])}


def of_alice(make, folder):
    things = with_people(make, folder)
    return things | {"repo": make.repo(things["alice"], "api", by=things["alice"])}


def with_upstream(things, folder):
    """alice's internal repository with two branches and a tag; HEAD is `trunk`."""
    repo = things["repo"]
    repo.visibility = Visibility.INTERNAL
    repo.save(update_fields=["visibility"])
    clone = Clone(folder / "upstream", repo, things["alice"])
    clone.commit("trunk", {"README": "one\n"})
    clone.push("trunk")
    clone.commit("topic", {"README": "two\n"}, onto="trunk")
    clone.push("topic")
    return things | {"upstream": Repo.objects.get(pk=repo.pk)}


BUILDS = {
    "team": {"upstream": lambda m, at: with_upstream(of_team(m, at), at), "repo": of_team},
    "user": {"upstream": lambda m, at: with_upstream(of_alice(m, at), at), "repo": of_alice},
}


@pytest.fixture(params=["team", pytest.param("user", marks=pytest.mark.slow)])
def builds(request):
    return BUILDS[request.param]


things = prepared_data.things
alice, bob, carol, sam, acme = map(given, ("alice", "bob", "carol", "sam", "acme"))
repo, upstream = given("repo"), given("upstream")


def work() -> None:
    """Run the worker's fork job until no fork is due."""
    while jobs.make_next_fork():
        pass


def forked(api, repo, by, **query):
    """Request a fork, make it, and return its record."""
    team = f"?team_slug={query['team_slug']}" if query else ""
    requested = api(by).post(f"{repo.api_path}/forks{team}").gives(201)
    work()
    return api(by).get(f"/forks/{requested['uuid']}").gives()


def test_a_fork_is_asked_for_and_made_afterwards(api, upstream, carol, events):
    with events():
        requested = api(carol).post(f"{upstream.api_path}/forks").gives(201)
    expected = ("queued", None, None)
    assert (requested["status"], requested["repo_path"], requested["started_at"]) == expected
    assert (requested["owner_kind"], requested["owner_slug"]) == ("user", "carol")
    assert requested["created_by_username"] == "carol"
    with events("fork-created"):
        work()
    made = api(carol).get(f"/forks/{requested['uuid']}").gives()
    assert (made["status"], made["error"]) == ("completed", None)
    assert (made["repo_path"], made["upstream_path"]) == ("users/carol/api", upstream.path)
    assert made["created_at"] <= made["started_at"] <= made["completed_at"]


def test_a_fork_has_branches_tags_and_head_of_its_upstream_and_their_heads_stored(
    api, upstream, carol
):
    made = forked(api, upstream, carol)
    copy = Repo.objects.get(owner_user=carol)
    assert copy.git.refs() == upstream.git.refs()
    assert dict(copy.refs.values_list("full_name", "sha")) == copy.git.refs()
    assert copy.git.head_branch() == "trunk"
    assert not (copy.git.path / "objects" / "info" / "alternates").exists()
    record = api(carol).get(f"/{made['repo_path'].replace('carol/', 'carol/repos/')}").gives()
    expected = (True, False, "trunk")
    assert (record["is_fork"], record["is_empty"], record["default_branch"]) == expected
    assert record["upstream_path"] == upstream.path
    assert api(carol).get(upstream.api_path).gives()["fork_count"] == 1


def test_an_empty_repository_forks_too(api, repo, alice):
    made = forked(api, repo, alice)
    assert made["status"] == "completed"
    copy = Repo.objects.get(fork__uuid=made["uuid"])
    assert (copy.is_empty, copy.default_branch) == (True, "main")
    assert copy.git.exists()


def test_a_fork_with_tags_alone_is_empty_until_its_first_branch(api, make, alice, carol, tmp_path):
    repo = make.repo(alice, "tags", by=alice, visibility="public")
    clone = Clone(tmp_path / "tags", repo, alice)
    clone.commit("trunk", {"a": "1\n"})
    clone.git("push", "--quiet", str(repo.git.path), "trunk:refs/tags/v1")
    forked(api, repo, carol)
    copy = Repo.objects.get(owner_user=carol)
    assert copy.is_empty and list(copy.git.refs()) == ["refs/tags/v1"]
    clone.repo = copy
    clone.push("trunk")
    assert Repo.objects.get(owner_user=carol).default_branch == "trunk"


def test_the_commits_and_pull_heads_that_no_branch_reaches_stay_behind(
    api, upstream, alice, carol, tmp_path
):
    clone = Clone(tmp_path / "secret", upstream, alice)
    lost = clone.commit("secret", {"password": "x\n"})
    clone.push("secret")
    clone.push(":secret")
    assert upstream.git.has_commit(lost)
    forked(api, upstream, carol)
    assert not Repo.objects.get(owner_user=carol).git.has_commit(lost)


def test_an_owner_has_one_fork_of_a_repository(api, upstream, carol):
    api(carol).post(f"{upstream.api_path}/forks").gives(201)
    api(carol).post(f"{upstream.api_path}/forks").fails(409, "fork_exists")
    work()
    api(carol).post(f"{upstream.api_path}/forks").fails(409, "fork_exists")
    assert Fork.objects.count() == 1


def test_members_fork_into_their_team(api, upstream, carol, bob):
    guild = TeamFactory.create(slug="guild", owner=bob)
    address = f"{upstream.api_path}/forks?team_slug="
    api(carol).post(f"{address}nobody").fails(404, "not_found")
    api(carol).post(f"{address}guild").fails(403, "forbidden")
    member = MemberFactory.create(team=guild, user=carol, viewer=True)
    api(carol).post(f"{address}guild").fails(403, "role_required")
    member.role = Role.MEMBER
    member.save()
    assert forked(api, upstream, carol, team_slug="Guild")["repo_path"] == "teams/guild/api"
    api(bob).post(f"{address}guild").fails(409, "fork_exists")
    guild.is_active = False
    guild.save()
    api(carol).post(f"{address}guild").fails(403, "team_inactive")


def test_a_taken_slug_gets_a_number(api, make, upstream, alice, carol):
    make.repo(carol, "api", by=carol)
    make.repo(carol, "api-2", by=carol)
    assert forked(api, upstream, carol)["repo_path"] == "users/carol/api-3"


def test_ones_own_repository_can_be_forked_into_ones_own_space(api, make, alice):
    own = make.repo(alice, "own", by=alice)
    assert forked(api, own, alice)["repo_path"] == "users/alice/own-2"


def test_a_fork_is_its_own_readers_business(api, upstream, alice, carol, bob, sam):
    made = forked(api, upstream, carol)
    Repo.objects.filter(owner_user=carol).update(visibility="private")
    rows = api(alice).get(f"{upstream.api_path}/forks").gives()["results"]
    assert rows == []
    assert api(alice).get(f"/forks/{made['uuid']}").gives()["repo_path"] is None
    assert api(carol).get(f"{upstream.api_path}/forks").gives()["results"] == [made]
    assert api(sam).get(f"{upstream.api_path}/forks").gives()["results"] == [made]


def test_a_fork_outlives_what_its_creator_may_read(api, upstream, alice, bob, carol):
    made = forked(api, upstream, carol)
    Repo.objects.filter(pk=upstream.pk).update(visibility="private")
    record = api(carol).get(f"/forks/{made['uuid']}").gives()
    assert (record["repo_path"], record["upstream_path"]) == ("users/carol/api", None)
    copy = api(carol).get("/users/carol/repos").gives()["results"][0]
    assert (copy["is_fork"], copy["upstream_path"]) == (True, None)
    assert api(carol).get("/users/carol/repos/api").gives()["upstream_path"] is None
    stranger = bob if upstream.owner_user_id else carol
    if stranger is bob:
        Repo.objects.filter(owner_user=carol).update(visibility="private")
        api(bob).get(f"/forks/{made['uuid']}").fails(403, "forbidden")


def test_a_fork_is_found_by_its_owner_and_from_itself(api, upstream, bob, carol):
    TeamFactory.create(slug="guild", owner=carol)
    own, team = (forked(api, upstream, carol), forked(api, upstream, carol, team_slug="guild"))
    assert api(carol).get("/users/carol/repos/api/fork").gives() == own
    assert api(carol).get(f"{upstream.api_path}/forks/user/Carol").gives() == own
    assert api(carol).get(f"{upstream.api_path}/forks/team/guild").gives() == team
    assert api(carol).get(f"{upstream.api_path}/forks").gives()["results"] == [team, own]
    for absent in ("fork", "forks/user/bob", "forks/user/nobody", "forks/team/nobody"):
        api(carol).get(f"{upstream.api_path}/{absent}").fails(404, "not_found")
    api(carol).get(f"/forks/{uuid4()}").fails(404, "not_found")


def test_the_fork_of_an_owner_is_the_one_that_has_not_failed(api, upstream, carol):
    first = api(carol).post(f"{upstream.api_path}/forks").gives(201)
    Fork.objects.update(status="failed", error="no")
    path = f"{upstream.api_path}/forks/user/carol"
    assert api(carol).get(path).gives()["uuid"] == first["uuid"]
    second = forked(api, upstream, carol)
    assert api(carol).get(path).gives() == second
    assert api(carol).get(f"/forks/{first['uuid']}").gives()["error"] == "no"


def test_a_fork_may_not_be_more_visible_than_its_upstream(api, upstream, carol):
    forked(api, upstream, carol)
    body = {"name": "Api", "slug": "api"}
    address = "/users/carol/repos/api"
    refused = api(carol).put(address, **body, visibility="public")
    assert refused.fails(422, "validation_failed").startswith("visibility: ")
    for allowed in ("private", "internal", "internal"):
        api(carol).put(address, **body, visibility=allowed).gives()
    Repo.objects.filter(pk=upstream.pk).update(visibility="private")
    api(carol).put(address, **body, visibility="internal").gives()
    Repo.objects.filter(pk=upstream.pk).update(visibility="public")
    api(carol).put(address, **body, visibility="public").gives()

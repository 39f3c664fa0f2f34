"""serve --demo: the example is complete, the API returns it, and it is created once."""

import re
from base64 import b64decode
from datetime import datetime, timedelta

import pytest
from django.db import transaction

from apps.accounts.models import User
from apps.events.models import Event
from apps.repos.commits import find_next_commits
from apps.repos.models import Repo
from config import demo
from config.demo import ACTIONS, imported
from tests.api import Api
from tests.factories import UserFactory
from tests.git.scratch import git as run_git

REPO = "/teams/acme/repos/hello"
TIDES = "/teams/acme/repos/tide-table"
PULLS = {
    "Tell the largest range": ("merged", ["pull_already_merged"]),
    "Show heights in feet": ("open", []),
    "Round heights to millimetres": ("open", ["merge_conflict"]),
    "Estimate the surge": ("open", ["approval_required"]),
    "Measure Amber Quay anew": ("open", ["approval_required"]),
    "Leave the harbours out of the image": ("closed", ["pull_closed", "approval_required"]),
    "Add the harbours of the north coast": ("open", ["approval_required"]),
}
"""The status of each, and its blockers."""


@pytest.mark.parametrize("same", [{"username": "Dave"}, {"email": "Dave@example.org"}])
def test_nothing_is_made_beside_somebody_who_has_one_of_the_names(db, same):
    other = UserFactory.create(**same)
    assert f"there is {other.username} already" in demo.load()
    assert list(User.objects.all()) == [other]


@pytest.fixture(scope="module")
def people(django_db_setup, django_db_blocker):
    """The API for each person of the demo, with the printed token. Created once for all tests
    below, which also use `db`.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        printed = demo.load()
        found = re.findall(r"^ +(\w+) +(ght_\w+)", printed, re.M)
        yield {name: Api(token) for name, token in found}
        transaction.set_rollback(True)


def test_everybody_can_sign_in_to_the_pages_as_each_of_its_people(db, client):
    printed = demo.load()
    [password] = re.findall(r"^ +password +(\S+)$", printed, re.M)
    for name in demo.PEOPLE:
        client.post("/signin", {"username": name, "password": password})
        assert name in client.get("/").content.decode()
        assert client.session["_auth_user_id"] == str(User.objects.get(username=name).pk)
        client.logout()


def test_a_second_start_changes_nothing_and_shows_no_secret(people, db):
    before = Event.objects.count()
    said = demo.load()
    assert "ght_" not in said and "password" not in said
    assert "alice" in said and said.count("\n") == 1
    assert (Event.objects.count(), User.objects.count(), Repo.objects.count()) == (before, 4, 3)


def test_the_people_the_history_and_the_thread_are_as_told(people, db):
    levels = {name: api.get(REPO).gives()["caller_permission"] for name, api in people.items()}
    assert levels == {"alice": "owner", "bob": "write", "carol": "read", "dave": "read"}
    git = Repo.objects.get(slug="hello").git
    assert run_git(git.path, "fsck", "--strict", "--no-dangling") == b""
    refs = git.refs()
    assert set(refs) >= {f"refs/heads/{name}" for name in ("main", "names", "licence", "shout")}
    authors = git.commit_authors(refs["refs/heads/licence"], refs["refs/heads/names"])
    assert [person.name for person in authors] == ["bob"]
    replies = people["dave"].get(f"{REPO}/threads/4").gives()["replies"]
    shape = [(reply["number"], reply["depth"], reply["is_deleted"]) for reply in replies]
    assert shape == [(1, 0, False), (2, 1, True), (3, 2, False), (4, 0, False)]


def test_a_pull_is_merged_one_is_under_review_and_one_conflicts(people, db):
    pulls = people["dave"].get(f"{REPO}/pulls?ordering=number").gives()["results"]
    assert [pull["status"] for pull in pulls] == ["merged", "open", "draft"]
    assert pulls[1]["commit_count"] == 2 and pulls[1]["changed_files"] == 2
    reviews = people["dave"].get(f"{REPO}/pulls/2/reviews").gives()["results"]
    assert [review["status"] for review in reviews] == ["changes_requested", "commented"]
    assert reviews[0]["is_stale"]
    people["alice"].put(f"{REPO}/pulls/3/status", status="open").gives()
    people["alice"].post(f"{REPO}/pulls/3/merge").fails(409, "merge_conflict")
    people["alice"].post(f"{REPO}/pulls/2/merge").gives()


def pull_of(api, title):
    """The path of the pull with this title."""
    pulls = api.get(f"{TIDES}/pulls?per_page=100").gives()["results"]
    return next(f"{TIDES}/pulls/{pull['number']}" for pull in pulls if pull["title"] == title)


def test_the_larger_repository_is_sound_and_open_to_everybody(people, db):
    assert people["dave"].get(TIDES).gives()["visibility"] == "public"
    repos = Repo.objects.filter(slug="tide-table")
    assert sorted(repo.path for repo in repos) == ["teams/acme/tide-table", "users/dave/tide-table"]
    for repo in repos:
        assert run_git(repo.git.path, "fsck", "--strict", "--no-dangling") == b""
        assert not repo.journal.exists()


def test_its_history_is_of_some_weeks_and_of_several_people(people, db):
    commits = people["dave"].get(f"{TIDES}/commits?per_page=100").gives()["results"]
    assert 15 <= len(commits) <= 25
    pushed = [commit for commit in commits if len(commit["parents"]) < 2]
    assert {commit["author"]["username"] for commit in pushed} == {"alice", "bob"}
    dates = sorted(datetime.fromisoformat(commit["author"]["date"]) for commit in commits)
    assert timedelta(weeks=3) < dates[-1] - dates[0] < timedelta(weeks=7)


def test_its_files_are_of_every_sort(people, db):
    tree = people["dave"].get(f"{TIDES}/tree?recursive=true&per_page=100").gives()
    files = {entry["path"]: entry for entry in tree["results"] if entry["type"] != "tree"}
    endings = {path.rpartition(".")[2] for path in files}
    assert endings >= {"py", "js", "css", "sh", "sql", "rs", "toml"}
    assert {"Dockerfile", "docs/curve.png"} <= files.keys()
    assert files["docs/README.md"]["mode"] == "120000"
    assert files["bin/week.sh"]["mode"] == "100755"

    def content(path):
        return b64decode(people["dave"].get(f"{TIDES}/contents/{path}").gives()["content"])

    assert b"\0" in content("data/new-moons.bin")
    assert content("VERSION") == b"1.1"
    assert max(map(len, content("web/sample.json").splitlines())) > 1000
    readme = content("README.md").decode()
    assert all(one in readme for one in ("\n## ", "\n1. ", "\n|---", "```sh", "](docs/", "![The"))


def test_it_has_releases_and_protected_branches(people, db):
    tags = people["dave"].get(f"{TIDES}/tags").gives()["results"]
    annotated = {tag["name"]: tag["tag_sha"] is not None for tag in tags}
    assert annotated == {"v1.0": True, "v1.1": False}
    branches = people["dave"].get(f"{TIDES}/branches?per_page=100").gives()["results"]
    protected = {branch["name"] for branch in branches if branch["is_protected"]}
    assert protected == {"main", "release/1.0"}
    protections = people["alice"].get(f"{TIDES}/protections").gives()["results"]
    required = {one["branch"]: one["required_approvals"] for one in protections}
    assert required == {"main": 1, "release/*": 1}


@pytest.mark.parametrize("title", PULLS)
def test_there_is_a_pull_in_each_state(people, db, title):
    status, blocked = PULLS[title]
    path = pull_of(people["bob"], title)
    assert people["bob"].get(path).gives()["status"] == status
    assert people["bob"].get(f"{path}/protection").gives()["blocked_reasons"] == blocked


def test_the_pull_that_is_ready_can_be_merged_and_one_conflicts_in_one_file(people, db):
    conflict = pull_of(people["bob"], "Round heights to millimetres")
    told = people["bob"].get(f"{conflict}/protection").gives()
    assert told["conflict_paths"] == ["tides/harmonics.py"]
    ready = pull_of(people["bob"], "Show heights in feet")
    assert people["bob"].get(f"{ready}/protection").gives()["caller_can_merge"]


def test_a_pull_from_a_fork_was_pushed_to_since_it_was_approved(people, db):
    path = pull_of(people["dave"], "Measure Amber Quay anew")
    pull = people["dave"].get(path).gives()
    assert (pull["source_repo_path"], pull["commit_count"]) == ("users/dave/tide-table", 2)
    assert len(people["dave"].get(f"{path}/versions").gives()["results"]) == 2
    [review] = people["dave"].get(f"{path}/reviews").gives()["results"]
    assert (review["status"], review["is_stale"]) == ("approved", True)
    kinds = {event["kind"] for event in of_number(people["dave"], pull["number"])}
    assert {"pull-created", "pull-readied", "pull-pushed"} <= kinds


def of_number(api, number):
    """The events about this thread or pull."""
    events = api.get("/events?scope=repo:teams/acme/tide-table&per_page=100").gives()["results"]
    return [event for event in events if event["target"].get("number") == number]


def test_one_pull_is_large_and_one_is_discussed_by_the_line(people, db):
    large = people["dave"].get(pull_of(people["dave"], "Add the harbours of the north coast"))
    assert large.gives()["changed_files"] > 20
    path = pull_of(people["dave"], "Estimate the surge")
    [review] = people["dave"].get(f"{path}/reviews").gives()["results"]
    assert review["created_by_username"] == "carol" and "line 12" in review["body"]
    thread = people["dave"].get(path.replace("/pulls/", "/threads/")).gives()
    assert [reply["depth"] for reply in thread["replies"]] == [0, 1, 2]


def test_a_thread_nests_deeply_around_a_reply_that_was_deleted(people, db):
    threads = people["dave"].get(f"{TIDES}/threads?kind=issue").gives()["results"]
    path = f"{TIDES}/threads/{threads[0]['number']}"
    assert find_next_commits()
    replies = people["dave"].get(f"{path}?render=html").gives()["replies"]
    assert max(reply["depth"] for reply in replies) == 8
    assert [reply["depth"] for reply in replies if reply["is_deleted"]] == [3]
    live = [reply for reply in replies if not reply["is_deleted"]]
    [edited] = [reply for reply in live if reply["edited_at"]]
    versions = people["dave"].get(f"{path}/replies/{edited['number']}/versions").gives()["results"]
    assert len(versions) == 3
    html = "".join(reply["body_html"] for reply in live)
    assert '/users/carol"' in html and '/pulls/5"' in html and "/commits/" in html
    assert "<pre>" in html


def test_the_history_is_the_same_commits_at_the_same_time_of_loading():
    def refs(now):
        with imported(now) as history:
            return history.refs()

    assert refs(1_900_000_000) == refs(1_900_000_000) != refs(1_900_000_001)


def test_each_step_is_of_a_person_and_an_action_that_exist():
    steps = [step for part in demo.STEPS["repositories"] for step in part["steps"]]
    assert {person for person, _, _ in steps} == set(demo.PEOPLE)
    assert {action for _, action, _ in steps} == {*ACTIONS, "create_repo", "create_fork", "push"}

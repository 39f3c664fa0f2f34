"""`…/pulls`: list and open."""

from __future__ import annotations

from typing import Any

import pytest

from apps.pulls.models import PullStatus
from apps.threads.models import ThreadKind
from tests.factories import MemberFactory
from tests.pulls import paths

WANTED = {"title": "Add an arch", "body": "", "source_branch": "feature", "target_branch": "main"}

FOUND = {
    "": [4, 3, 2, 1],
    "ordering=number": [1, 2, 3, 4],
    "ordering=-updated_at": [2, 4, 3, 1],
    "ordering=updated_at": [1, 3, 4, 2],
    "status=closed": [2],
    "status=draft": [],
    "created_by=CAROL": [3, 1],
    "created_by=nobody": [],
    "search=GATE": [1],
    "search=needed": [4],
    "search=gate&created_by=alice": [],
}
"""The results of each query for four pulls, of which the second was closed last."""
NO_PULLS: list[tuple[dict[str, Any], str]] = [
    ({"title": " "}, "validation_failed"),
    ({"title": "x" * 256}, "validation_failed"),
    ({"body": None}, "validation_failed"),
    ({"body": "x" * 65_537}, "validation_failed"),
    ({"source_branch": "-x"}, "validation_failed"),
    ({"source_branch": "a..b"}, "validation_failed"),
    ({"source_branch": "main\u202e"}, "validation_failed"),
    ({"target_branch": "main\x85"}, "validation_failed"),
    ({"source_branch": "users/alice:"}, "validation_failed"),
    ({"target_branch": "alice:main"}, "validation_failed"),
    ({"target_branch": "refs heads"}, "validation_failed"),
    ({"target_branch": "é" * 128}, "validation_failed"),
    ({"source_branch": 7}, "validation_failed"),
    ({"status": "closed"}, "validation_failed"),
    ({"status": "merged"}, "validation_failed"),
    ({"status": None}, "validation_failed"),
    ({"source_branch": "main"}, "same_branch"),
    ({"source_branch": "nobody:feature"}, "source_not_found"),
    ({"source_branch": "teams/nobody:feature"}, "source_not_found"),
    ({"source_branch": "a:b:feature"}, "source_not_found"),
]


def test_a_reader_opens_a_pull(api, repo, open_repo, carol, events):
    url = paths.pulls(repo)
    with events("pull-created") as recorded:
        pull = api(carol).post(url, **WANTED).gives(201)
    assert {name: pull[name] for name in WANTED} == WANTED
    assert (pull["number"], pull["status"], pull["created_by_username"]) == (1, "open", "carol")
    assert (pull["head_sha"], pull["base_sha"], pull["commit_count"]) == (None, None, 0)
    assert pull["source_repo_path"] == repo.path
    assert pull["web_url"] == f"http://testserver/{repo.path}/pulls/1"
    assert api(carol).get(pull["api_url"]).gives() == pull
    assert recorded[0].target == {"kind": "pull", "number": 1}
    branches = {"source_branch": "feature", "target_branch": "main"}
    assert recorded[0].data == {"status": "open", "head_sha": None, **branches}


@pytest.mark.parametrize("status", ["open", "draft"])
def test_a_pull_begins_as_what_it_is_asked_to_be(api, open_repo, carol, events, status):
    url = paths.pulls(open_repo)
    with events("pull-created") as recorded:
        pull = api(carol).post(url, **WANTED, status=status).gives(201)
    assert pull["status"] == recorded[0].data["status"] == status
    assert api(carol).get(pull["api_url"]).gives() == pull
    thread = api(carol).get(f"{open_repo.api_path}/threads/1").gives()
    assert thread["status"] == "open"
    other = "pull-readied" if status == "draft" else "pull-drafted"
    with events(other):
        wanted = "open" if status == "draft" else "draft"
        api(carol).put(f"{url}/1/status", status=wanted).gives()


def test_a_draft_is_in_the_way_of_another_pull_and_of_its_merge(api, clone, alice):
    clone.push("main:feature")
    url = paths.pulls(clone.repo)
    api(alice).post(url, **WANTED, status="draft").gives(201)
    api(alice).post(f"{url}/1/merge").fails(409, "pull_is_draft")
    api(alice).post(url, **WANTED, status="draft").fails(409, "pull_already_exists")


def test_a_pull_shares_its_number_with_a_thread_of_its_own(api, make, open_repo, alice):
    make.thread(open_repo, by=alice)
    pull = make.pull(open_repo, by=alice, title="Widen the gate", body="It is narrow.")
    assert pull.number == pull.thread.number == 2
    thread = api(alice).get(f"{open_repo.api_path}/threads/2").gives()
    assert (thread["kind"], thread["title"]) == (ThreadKind.PULL, "Widen the gate")
    assert (thread["status"], thread["body"]) == ("open", "It is narrow.")
    listed = api(alice).get(f"{open_repo.api_path}/threads").gives()["results"]
    assert [row["number"] for row in listed] == [1]


def test_every_property_is_required(api, open_repo, alice):
    for missing in WANTED:
        body = {name: value for name, value in WANTED.items() if name != missing}
        said = api(alice).post(paths.pulls(open_repo), **body).fails(422, "validation_failed")
        assert said == f"{missing}: This field is required."


def test_a_body_that_is_no_pull_is_refused(api, team_repo, alice):
    caller, url = api(alice), paths.pulls(team_repo)
    for changed, code in NO_PULLS:
        caller.post(url, **{**WANTED, **changed}).fails(422, code)
    assert not team_repo.pulls.exists()
    team_repo.refresh_from_db()
    assert team_repo.last_number == 0


def test_a_source_may_name_its_repository(api, open_repo, alice):
    kind, name = open_repo.path.split("/")[:2]
    forms = {f"{kind}/{name}:one": "one", f"{kind}/{name.upper()}:two": "two"}
    if kind == "users":
        forms["Alice:three"] = "three"
    for form, branch in forms.items():
        body = {**WANTED, "source_branch": form}
        made = api(alice).post(paths.pulls(open_repo), **body).gives(201)
        assert made["source_branch"] == branch
    itself = {**WANTED, "source_branch": f"{kind}/{name}:main"}
    api(alice).post(paths.pulls(open_repo), **itself).fails(422, "same_branch")


def test_a_pull_stands_where_its_branches_are(make, clone, bob, carol, events):
    base = clone.repo.branch_sha("main")
    clone.commit("feature", {"a": "1\n2\n", "README": ""}, onto="main")
    head = clone.push_commit("feature", {"b": "3\n"}, by=bob)
    with events("pull-created") as recorded:
        pull = make.pull(clone.repo, by=carol)
    assert (pull.head_sha, pull.base_sha, pull.head_pushed_by) == (head, base, bob)
    assert recorded[0].data["head_sha"] == head
    assert (pull.commit_count, pull.changed_files) == (2, 3)
    assert (pull.additions, pull.deletions) == (3, 1)


def test_a_pull_is_opened_once_while_its_source_exists(api, clone, alice):
    url = paths.pulls(clone.repo)
    first = api(alice).post(url, **WANTED).gives(201)
    second = api(alice).post(url, **WANTED).gives(201)
    clone.push("main:feature")
    said = api(alice).post(url, **WANTED).fails(409, "pull_already_exists")
    assert f"Pull {first['number']} " in said
    api(alice).post(url, **{**WANTED, "target_branch": "release"}).gives(201)
    for number in (first["number"], second["number"]):
        api(alice).put(f"{url}/{number}/status", status="closed").gives()
    assert api(alice).post(url, **WANTED).gives(201)["number"] == 4


def test_pulls_are_listed_newest_first_by_page(api, make, open_repo, alice, carol):
    for _ in range(3):
        make.pull(open_repo, by=alice)
    url = paths.pulls(open_repo)
    page = api(carol).get(f"{url}?per_page=2").gives()
    assert [row["number"] for row in page["results"]] == [3, 2]
    assert page["results"][0] == api(carol).get(f"{url}/3").gives()
    last = api(carol).get(page["next"]).gives()
    assert ([row["number"] for row in last["results"]], last["next"]) == ([1], None)


def test_the_list_is_filtered_and_ordered(api, make, team_repo, alice, bob, carol):
    MemberFactory.create(team=team_repo.owner, user=carol, viewer=True)
    make.pull(team_repo, by=carol, title="Widen the gate")
    second = make.pull(team_repo, by=alice, title="Add an arch")
    make.pull(team_repo, by=carol, title="Paint")
    make.pull(team_repo, by=alice, title="Oil", body="Much needed.")
    api(bob).put(f"{paths.pull(second)}/status", status=PullStatus.CLOSED).gives()
    caller, url = api(alice), paths.pulls(team_repo)
    results = {query: caller.get(f"{url}?{query}").gives()["results"] for query in FOUND}
    assert {query: [row["number"] for row in rows] for query, rows in results.items()} == FOUND


def test_a_filter_that_is_none_is_refused(api, team_repo, alice):
    for query in ("status=new", "ordering=title", "created_by=%00", "page=0"):
        api(alice).get(f"{paths.pulls(team_repo)}?{query}").fails(422, "validation_failed")

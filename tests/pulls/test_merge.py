"""…/pulls/{number}/merge"""

from __future__ import annotations

import pytest

from apps.accounts.actions import sign_up
from apps.accounts.principal import ANONYMOUS
from apps.events.models import Event
from apps.git import run
from apps.repos.models import PushJournal
from apps.site.models import SiteSettings
from tests.factories import UserFactory
from tests.gitclient import Clone
from tests.pulls import paths, push_hook

STRATEGIES = ["merge", "squash", "rebase", "fast_forward"]
AS_SHOWN = "--format=%s|%an <%ae>|%cn <%ce>|%P"


def merge_url(pull, head=""):
    return f"{paths.pull(pull)}/merge" + (f"?expected_head_sha={head}" if head else "")


def log(clone, *options):
    """The subject, author, committer and parents of each commit of main, newest first."""
    return [line.split("|") for line in clone.server("log", AS_SHOWN, *options).splitlines()]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_merge_answers_what_it_has_done(api, pull, alice, events, strategy):
    before = api(alice).get(paths.pull(pull)).gives()
    with events("branch-pushed", "pull-merged") as recorded:
        answer = api(alice).post(merge_url(pull), merge_strategy=strategy).gives()
    after = answer.pop("pull")
    assert answer.pop("source_branch_deletion") is None
    assert after == api(alice).get(paths.pull(pull)).gives()
    assert answer == {"merged": True, "target_sha_before": before["base_sha"]} | {
        name: after[name] for name in answer if name not in {"merged", "target_sha_before"}
    }
    how = (after["status"], after["merge_strategy"], after["merged_by_username"])
    assert how == ("merged", strategy, "alice")
    assert after["head_sha"] == before["head_sha"]
    assert recorded[0].data["after"] == after["merge_commit_sha"] == pull.repo.branch_sha("main")
    assert (recorded[1].actor, recorded[1].number, recorded[1].title) == (alice, 1, "Add an arch")
    assert pull.repo.git.ref("refs/heads/main") == after["merge_commit_sha"]


def test_merge_makes_a_commit_with_two_parents(api, pull, clone, alice):
    before, head = pull.base_sha, pull.head_sha
    api(alice).send("POST", merge_url(pull)).fails(400, "malformed_request")
    api(alice).post(merge_url(pull)).gives()
    us = "alice <alice@users.noreply.localhost>"
    newest = log(clone, "-1", "main")
    assert newest == [["Merge pull #1: Add an arch", us, us, f"{before} {head}"]]


def test_squash_makes_one_commit_by_the_author_with_the_others_named(
    api, make, clone, alice, sam, settings
):
    settings.BASE_URL = "https://code.example.org:8443"
    carla = UserFactory.create(username="carla", email="Carla@example.org")
    carla.display_name = "Carla Cook"
    carla.save()
    clone.commit("feature", {"a": "1"}, onto="main", email="carla@example.org")
    clone.push_commit("feature", {"b": "2"}, email="dan@example.org")
    pull = make.pull(clone.repo, by=carla, title="Two\nthings  at once")
    api(sam).post(merge_url(pull), merge_strategy="squash").gives()
    ours = "sam <sam@users.noreply.code.example.org>"
    title = "Two things at once (#1)"
    [[*shown, parent]] = log(clone, "-1", "main")
    assert shown == [title, "Carla Cook <Carla@example.org>", ours]
    assert parent == pull.base_sha
    said = clone.server("log", "-1", "--format=%B", "main")
    assert said == f"{title}\n\nCo-authored-by: dan <dan@example.org>"


def test_an_address_that_is_in_no_commit_stays_private(api, make, clone, alice):
    carla = UserFactory.create(username="carla", email="carla@example.org")
    clone.push_commit("feature", {"a": "1"}, onto="main")
    pull = make.pull(clone.repo, by=carla)
    api(alice).post(merge_url(pull), merge_strategy="squash").gives()
    assert log(clone, "-1", "main")[0][1] == "carla <carla@users.noreply.localhost>"


def test_an_address_that_is_not_confirmed_is_no_author(api, make, clone, alice):
    """A sign-up with another person's address cannot author commits in that person's name."""
    SiteSettings.load()
    SiteSettings.objects.update(signups_require_invite=False)
    wanted = {"username": "mallory", "email": "dan@example.org", "password": "first horse battery"}
    mallory = sign_up(principal=ANONYMOUS, invite=None, **wanted)
    clone.push_commit("feature", {"a": "1"}, onto="main", email="dan@example.org")
    pull = make.pull(clone.repo, by=mallory)
    api(alice).post(merge_url(pull), merge_strategy="squash").gives()
    assert log(clone, "-1", "main")[0][1] == "mallory <mallory@users.noreply.localhost>"


def test_rebase_replays_each_commit_and_keeps_its_author(api, make, clone, alice, sam):
    clone.commit("feature", {"a": "1"}, onto="main", message="one", email="dan@example.org")
    clone.commit("feature", {"b": "2"}, message="two", email="eve@example.org")
    clone.commit("main", {"c": "3"}, message="meanwhile")
    clone.push("main", "feature")
    api(sam).post(merge_url(make.pull(clone.repo, by=alice)), merge_strategy="rebase").gives()
    sams = "sam <sam@users.noreply.localhost>"
    two, one, meanwhile = log(clone, "-3", "main")
    assert two[:3] == ["two", "eve <eve@example.org>", sams]
    assert one[:3] == ["one", "dan <dan@example.org>", sams]
    assert (meanwhile[0], " " in two[3] + one[3]) == ("meanwhile", False)


def test_fast_forward_makes_no_commit_and_needs_a_linear_history(api, make, clone, alice):
    clone.push_commit("feature", {"a": "1"}, onto="main")
    pull = make.pull(clone.repo, by=alice)
    clone.push_commit("main", {"b": "2"})
    forward = {"merge_strategy": "fast_forward"}
    api(alice).post(merge_url(pull), **forward).fails(409, "fast_forward_impossible")
    head = clone.push_commit("feature", {"a": "1"}, onto="main")
    assert api(alice).post(merge_url(pull), **forward).gives()["merge_commit_sha"] == head


def test_a_conflict_names_its_paths_and_leaves_nothing_behind(api, pull, clone, alice, events):
    clone.commit("main", {"arch": "shut\n", "gate": "shut\n", "fine": "x"})
    clone.commit("feature", {"gate": "open\n"})
    clone.push("main", "feature")
    for strategy in ("merge", "squash", "rebase"):
        with events():
            answer = api(alice).post(merge_url(pull), merge_strategy=strategy)
        answer.fails(409, "merge_conflict")
        assert answer.json["conflict_paths"] == ["arch", "gate"], strategy
    assert api(alice).get(paths.pull(pull)).gives()["status"] == "open"
    assert pull.repo.git.ref("refs/heads/main") == pull.repo.branch_sha("main") == clone.sha("main")
    assert not pull.repo.journal.exists()
    assert not type(pull).objects.filter(attempt__isnull=False).exists()


def test_unrelated_histories_conflict_without_paths(api, make, clone, alice):
    clone.push_commit("island", {"a": "1"})
    pull = make.pull(clone.repo, by=alice, source="island")
    answer = api(alice).post(merge_url(pull), merge_strategy="merge")
    answer.fails(409, "merge_conflict")
    assert answer.json["conflict_paths"] == []


def test_there_may_be_nothing_to_merge(api, make, clone, alice):
    clone.push("main:feature")
    pull = make.pull(clone.repo, by=alice)
    for strategy in STRATEGIES:
        api(alice).post(merge_url(pull), merge_strategy=strategy).fails(409, "nothing_to_merge")


def test_a_head_that_has_moved_is_not_merged_unseen(api, pull, clone, alice):
    seen = pull.head_sha
    head = clone.push_commit("feature", {"window": "1"})
    api(alice).post(merge_url(pull, "abc")).fails(422, "validation_failed")
    refused = api(alice).post(merge_url(pull, seen)).fails(409, "head_changed")
    assert head in refused
    assert api(alice).post(merge_url(pull, head.upper())).gives()["head_sha"] == head


def test_a_pull_is_merged_once(api, pull, clone, alice):
    api(alice).post(merge_url(pull)).gives()
    api(alice).post(merge_url(pull)).fails(409, "pull_already_merged")
    assert len(log(clone, "main")) == 3


def test_the_first_blocker_is_the_error_and_all_are_told(api, make, pull, clone, alice, carol):
    branchless = make.pull(clone.repo, by=alice, source="later")
    url = f"{paths.pull(branchless)}/status"
    said = api(alice).post(merge_url(branchless)).fails(409, "branch_missing")
    assert said == "There is no branch later."
    api(alice).put(url, status="draft").gives()
    said = api(alice).post(merge_url(branchless)).fails(409, "pull_is_draft")
    assert "branch_missing: There is no branch later." in said
    clone.push_commit("main", {"arch": "shut\n"})
    api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives()
    closed = api(alice).post(merge_url(pull))
    assert "merge_conflict: " in closed.fails(409, "pull_closed")
    assert "conflict_paths" not in closed.json


def test_a_missing_target_is_named(api, make, clone, alice):
    clone.push("main:feature")
    pull = make.pull(clone.repo, by=alice, target="release")
    said = api(alice).post(merge_url(pull)).fails(409, "branch_missing")
    assert said == "There is no branch release."


def test_a_pull_in_a_persons_repository_is_merged(api, make, alice, carol, tmp_path):
    repo = make.repo(alice, "api", by=alice, visibility="internal")
    clone = Clone(tmp_path / "clone", repo, alice)
    clone.commit("main", {"a": "1"})
    clone.commit("feature", {"b": "2"}, onto="main")
    clone.push("main", "feature")
    pull = make.pull(repo, by=carol)
    merged = api(alice).post(merge_url(pull)).gives()
    assert merged["pull"]["source_repo_path"] == "users/alice/api"


def test_a_body_that_is_none_is_refused(api, pull, alice):
    octopus, unknown = {"merge_strategy": "octopus"}, {"strategy": "merge"}
    api(alice).send("POST", merge_url(pull), octopus).fails(422, "validation_failed")
    api(alice).send("POST", merge_url(pull), unknown).fails(422, "unknown_field")


def test_what_was_asked_before_the_lock_is_not_asked_again(api, pull, alice, settings):
    """No git starts under the lock: `update-ref` waits for its input before the facts are read."""
    settings.AFTER_PUSH = ["apps.pulls.pushes", "tests.pulls.push_hook"]
    before: list[int] = []
    push_hook.preparing.append(lambda: before.append(run.spawned))
    api(alice).post(merge_url(pull)).gives()
    assert before == [run.spawned]


# A disk that shows an older value of a ref


@pytest.fixture
def disk_is_behind(clone, pull):
    """The last push of main was acknowledged, but the disk shows the old value; both values."""
    before = clone.head("main")
    clone.push_commit("main", {"gate": "1"})
    last = clone.head("main")
    clone.server("update-ref", "refs/heads/main", before)
    return before, last


@pytest.mark.parametrize("strategy", ["merge", "squash", "rebase"])
def test_a_merge_on_a_disk_that_lies_takes_no_commit_from_the_target(
    api, pull, clone, disk_is_behind, alice, strategy
):
    before, last = disk_is_behind
    events, url = Event.objects.count(), f"{paths.pull(pull)}/merge"
    api(alice).post(url, merge_strategy=strategy).fails(503, "unavailable")
    assert clone.repo.git.ref("refs/heads/main") == before
    assert clone.repo.branch_sha("main") == last
    assert (Event.objects.count(), PushJournal.objects.count()) == (events, 0)
    clone.server("update-ref", "refs/heads/main", last)
    api(alice).post(url, merge_strategy=strategy).gives()
    assert clone.repo.git.is_ancestor(last, clone.repo.branch_sha("main"))

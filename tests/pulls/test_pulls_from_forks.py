"""Pulls whose source is in a fork."""

from __future__ import annotations

import pytest

from apps.git import batch, run
from apps.pulls.models import Pull
from apps.repos import jobs
from apps.repos.commits import find_next_commits
from apps.repos.models import BRANCHES, NamedCommit, Repo
from apps.repos.pushes import open_journal, settle
from apps.repos.rules import ZERO
from apps.teams.models import Team
from tests.factories import MemberFactory, TeamFactory
from tests.gitclient import Clone
from tests.pulls import push_hook
from tests.pulls.forks import body, opened
from tests.races import Aside
from tests.server import PATIENCE

pytestmark = pytest.mark.usefixtures("upstream")


@pytest.mark.parametrize("source", ["carol:topic", "users/carol:topic", "Carol:topic"])
def test_a_fork_is_named_by_its_owner(api, upstream, clone, carol, source):
    made, _ = opened(api, upstream, carol, source)
    assert (made["source_branch"], made["source_repo_path"]) == ("topic", "users/carol/api")
    assert made["head_sha"] == clone.git("rev-parse", "topic")
    assert (made["commit_count"], made["additions"], made["changed_files"]) == (1, 1, 1)
    number = made["number"]
    assert upstream.git.ref(f"refs/pull/{number}/head") in (None, made["head_sha"])


def test_a_fork_of_a_team_is_named_by_its_path(api, upstream, bob, carol):
    MemberFactory.create(team=TeamFactory.create(slug="guild", owner=carol), user=bob, viewer=True)
    api(carol).post(f"{upstream.api_path}/forks?team_slug=guild").gives(201)
    jobs.make_next_fork()
    made, _ = opened(api, upstream, carol, "teams/guild:main")
    assert made["source_repo_path"] == "teams/guild/api"
    refused = api(bob).post(f"{upstream.api_path}/pulls", **body("teams/guild:topic"))
    refused.fails(403, "role_required")


def test_what_is_absent_and_what_is_hidden_is_refused_alike(api, upstream, fork, bob, carol):
    Repo.objects.filter(pk=fork.pk).update(visibility="private")
    texts = set()
    for source in ("carol:topic", "users/carol:topic", "nobody:topic", "teams/nobody:topic"):
        refused = api(bob).post(f"{upstream.api_path}/pulls", **body(source))
        texts.add(refused.fails(422, "source_not_found").replace(source, ""))
    assert len(texts) == 1


def test_a_branch_of_a_fork_may_have_the_name_of_its_target(api, upstream, clone, carol):
    head = clone.push_commit("main", {"more": "yes\n"})
    made, _ = opened(api, upstream, carol, "carol:main")
    expected = ("main", "main", head)
    assert (made["source_branch"], made["target_branch"], made["head_sha"]) == expected
    same = api(carol).post(f"{upstream.api_path}/pulls", **body("teams/acme:main"))
    same.fails(422, "same_branch")


def test_a_second_pull_of_the_same_branch_of_the_same_fork_is_refused(
    api, upstream, clone, pull, alice, carol, tmp_path
):
    again = api(carol).post(f"{upstream.api_path}/pulls", **body("users/carol:topic"))
    again.fails(409, "pull_already_exists")
    own = Clone(tmp_path / "own", upstream, alice)
    own.push_commit("topic", {"x": "y\n"})
    api(carol).post(f"{upstream.api_path}/pulls", **body("topic")).gives(201)


def test_a_pull_follows_the_pushes_to_the_fork(api, upstream, clone, pull, carol, events):
    made, address = pull
    with events("branch-pushed", "pull-pushed") as recorded:
        head = clone.push_commit("topic", {"arch": "wide open\n"})
    now = api(carol).get(address).gives()
    assert (now["head_sha"], now["commit_count"]) == (head, 2)
    assert recorded[0].repo_id == clone.repo.pk
    assert recorded[1].repo_id == upstream.pk and recorded[1].actor == carol
    assert recorded[1].data == {
        "before": made["head_sha"],
        "after": head,
        "head_sha": head,
        "source_branch": "topic",
        "target_branch": made["target_branch"],
        "version": 2,
        "comments_outdated": 0,
    }


def test_a_pull_may_be_opened_before_its_branch_is_pushed_to_the_fork(
    api, upstream, fork, carol, tmp_path, events
):
    made, address = opened(api, upstream, carol, "carol:later")
    assert made["head_sha"] is None
    clone = Clone(tmp_path / "fork", fork, carol)
    clone.git("fetch", "--quiet", str(fork.git.path), "main:refs/seen/base")
    with events("branch-created", "pull-pushed"):
        head = clone.push_commit("later", {"a": "b\n"}, onto="refs/seen/base")
    assert api(carol).get(address).gives()["head_sha"] == head


@pytest.mark.parametrize("strategy", ["merge", "squash", "rebase", "fast_forward"])
def test_a_pull_from_a_fork_is_merged(api, upstream, clone, pull, alice, carol, events, strategy):
    made, address = pull
    api(carol).post(f"{address}/merge").fails(403, "role_required")
    with events("branch-pushed", "pull-merged"):
        merged = api(alice).post(f"{address}/merge", merge_strategy=strategy).gives()
    assert merged["head_sha"] == made["head_sha"]
    assert upstream.branch_sha("main") == merged["merge_commit_sha"]
    assert upstream.git.ref("refs/heads/main") == merged["merge_commit_sha"]
    assert merged["pull"]["source_repo_path"] == "users/carol/api"


def test_pushing_the_commits_of_the_fork_merges_the_pull(
    api, upstream, clone, pull, alice, carol, events, tmp_path
):
    _, address = pull
    own = Clone(tmp_path / "own", upstream, alice)
    own.git("fetch", "--quiet", str(clone.repo.git.path), "topic:refs/seen/topic")
    own.git("checkout", "--quiet", "-B", "main", "refs/seen/topic")
    with events("branch-pushed", "pull-merged"):
        own.push("main")
    assert api(carol).get(address).gives()["status"] == "merged"


def test_a_fork_is_pushed_to_while_its_upstreams_store_is_away_and_merging_brings_the_rest(
    api, upstream, clone, pull, alice, carol
):
    _, address = pull
    head = clone.commit("topic", {"arch": "wide open\n"})
    objects = upstream.git.path / "objects"
    away = objects.rename(objects.with_name("away"))
    clone.push("topic")
    away.rename(objects)
    assert api(carol).get(address).gives()["head_sha"] == head
    assert not upstream.git.has_commit(head)
    assert api(alice).post(f"{address}/merge").gives()["head_sha"] == head


def test_a_push_that_git_refuses_leaves_the_kept_head(api, upstream, clone, pull, carol):
    """Otherwise people would fetch and review another commit than the pull shows."""
    made, _ = pull
    other = clone.push_commit("other", {"trap": "set\n"}, onto="topic")
    kept = f"refs/pull/{made['number']}/head"
    upstream.git.update_ref(kept, made["head_sha"], upstream.git.ref(kept) or ZERO)
    stale = (f"{BRANCHES}topic", "1" * 40, other)
    push = open_journal(actor=carol, repo=clone.repo, moves=[stale])
    settle(repo=clone.repo, push=push)
    assert upstream.git.ref(kept) == made["head_sha"]


def test_a_deleted_branch_of_the_fork_leaves_the_head(api, upstream, clone, pull, alice, carol):
    made, address = pull
    clone.push(":topic")
    assert api(carol).get(address).gives()["head_sha"] == made["head_sha"]
    api(alice).post(f"{address}/merge").fails(409, "branch_missing")


def test_a_pull_outlives_its_fork(
    api, upstream, clone, alice, carol, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        made, address = opened(api, upstream, carol)
    assert upstream.git.ref(f"refs/pull/{made['number']}/head") == made["head_sha"]
    Repo.objects.filter(pk=clone.repo.pk).delete()
    kept = api(carol).get(address).gives()
    assert (kept["source_repo_path"], kept["head_sha"]) == (None, made["head_sha"])
    assert api(carol).get(f"{address}/protection").gives()["is_mergeable"] is True
    merged = api(alice).post(f"{address}/merge").gives()
    assert merged["head_sha"] == made["head_sha"]


def test_a_pull_brings_the_commits_that_texts_name(
    make, upstream, clone, alice, carol, api, django_capture_on_commit_callbacks
):
    head = clone.repo.branch_sha("topic")
    make.thread(upstream, by=alice, body=head[:9])
    find_next_commits()
    assert not find_next_commits()
    with django_capture_on_commit_callbacks(execute=True):
        opened(api, upstream, carol)
    assert find_next_commits()
    assert NamedCommit.objects.get().sha == head


def test_the_fork_is_named_only_to_those_who_may_read_it(
    api, upstream, clone, pull, bob, carol, sam
):
    Repo.objects.filter(pk=clone.repo.pk).update(visibility="private")

    def paths(person):
        results = api(person).get(f"{upstream.api_path}/pulls").gives()["results"]
        single = api(person).get(f"{upstream.api_path}/pulls/{results[0]['number']}").gives()
        assert single["source_repo_path"] == results[0]["source_repo_path"]
        return single["source_repo_path"]

    assert [paths(person) for person in (bob, carol, sam)] == [
        None,
        "users/carol/api",
        "users/carol/api",
    ]


def test_a_closed_pull_follows_nothing_and_stands_at_its_branch_when_reopened(
    api, upstream, clone, pull, carol
):
    made, address = pull
    api(carol).put(f"{address}/status", status="closed").gives()
    head = clone.push_commit("topic", {"arch": "ajar\n"})
    assert api(carol).get(address).gives()["head_sha"] == made["head_sha"]
    assert api(carol).put(f"{address}/status", status="open").gives()["head_sha"] == head
    assert Pull.objects.get().head_pushed_by == carol


def test_who_pushed_a_head_to_the_upstream_does_not_approve_its_copy(
    api, make, upstream, alice, bob, carol, tmp_path
):
    """Otherwise people could approve their own work through a fork in between."""
    bobs = Clone(tmp_path / "bobs", upstream, bob)
    bobs.git("fetch", "--quiet", str(upstream.git.path), "main:refs/seen/base")
    bobs.push_commit("arch", {"arch": "open\n"}, onto="refs/seen/base")
    api(carol).post(f"{upstream.api_path}/forks").gives(201)
    jobs.make_next_fork()
    _, address = opened(api, upstream, carol, "carol:arch")
    make.protection(upstream, by=alice, approver=bob)
    review = api(bob).post(f"{address}/reviews", status="approved").gives(201)
    assert (review["is_eligible"], review["reason"]) == (False, "Pushed the current head.")


def test_an_approval_is_of_what_the_fork_changes_now(
    api, make, upstream, clone, pull, alice, bob, carol
):
    _, address = pull
    make.protection(upstream, by=alice, approver=bob)
    api(bob).post(f"{address}/reviews", status="approved").gives(201)
    clone.checkout("topic")
    clone.git("commit", "--quiet", "--amend", "--message", "better said")
    clone.push("topic")
    record = api(alice).get(f"{address}/protection").gives()
    assert (record["approval_count"], record["blocked_reasons"]) == (1, [])
    clone.push_commit("topic", {"window": "1\n"})
    api(alice).post(f"{address}/merge").fails(409, "approval_required")


@pytest.mark.django_db(transaction=True)
def test_a_push_to_the_fork_at_the_last_moment_needs_another_approval(
    api, make, upstream, clone, pull, alice, bob, carol, settings
):
    _, address = pull
    make.protection(upstream, by=alice, approver=bob)
    api(bob).post(f"{address}/reviews", status="approved").gives(201)
    clone.commit("topic", {"window": "1\n"})
    settings.AFTER_PUSH = ["tests.pulls.push_hook", *settings.AFTER_PUSH]
    push_hook.preparing.append(lambda: clone.push("topic"))
    before = upstream.branch_sha("main")
    api(alice).post(f"{address}/merge").fails(409, "approval_required")
    assert not push_hook.preparing
    assert upstream.git.ref("refs/heads/main") == upstream.branch_sha("main") == before


def test_a_push_to_a_fork_asks_git_no_more_for_many_pulls_than_for_one(api, upstream, clone, carol):
    spent = []
    for branch, pulls in (("one", 1), ("many", 5)):
        for _ in range(pulls):
            opened(api, upstream, carol, f"carol:{branch}")
        clone.commit(branch, {branch: "1\n"}, onto="main")
        batch.end_idle()
        before = run.spawned
        clone.push(branch)
        spent.append(run.spawned - before)
    assert spent[0] == spent[1]
    assert {pull.head_sha for pull in Pull.objects.filter(source_branch="many")} == {
        clone.git("rev-parse", "many")
    }


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("reopens", [False, True])
def test_a_pull_that_is_opened_while_its_fork_is_pushed_to_has_the_new_head(
    api, upstream, clone, carol, settings, reopens
):
    opening = Aside(lambda: opened(api, upstream, carol))
    if reopens:
        _, address = opened(api, upstream, carol)
        api(carol).put(f"{address}/status", status="closed").gives()
        opening = Aside(lambda: api(carol).put(f"{address}/status", status="open").gives())
    head = clone.commit("topic", {"arch": "wide open\n"})
    settings.AFTER_PUSH = [*settings.AFTER_PUSH, "tests.pulls.push_hook"]
    push_hook.applying.append(opening.begin)
    clone.push("topic")
    opening.join(timeout=PATIENCE)
    assert Pull.objects.get().head_sha == head


@pytest.mark.parametrize("closed", ["archived", "of an inactive team"])
def test_a_push_to_a_fork_changes_no_repository_that_takes_no_changes(
    api, upstream, clone, pull, alice, carol, events, closed
):
    made, address = pull
    MemberFactory.create(team=upstream.owner_team, user=carol, viewer=True)
    set_open(upstream, closed, False)
    with events("branch-pushed"):
        tip = clone.push_commit("topic", {"arch": "wide\n"})
    kept = api(alice).get(address).gives()
    assert (kept["head_sha"], kept["source_moved"]) == (made["head_sha"], True)
    assert not upstream.git.has_commit(tip)
    set_open(upstream, closed, True)
    further = clone.push_commit("topic", {"arch": "wider\n"})
    moved = api(alice).get(address).gives()
    assert (moved["head_sha"], moved["source_moved"]) == (further, False)


def set_open(upstream, closed, is_open):
    if closed == "archived":
        Repo.objects.filter(pk=upstream.pk).update(is_archived=not is_open)
    else:
        Team.objects.filter(pk=upstream.owner_team_id).update(is_active=is_open)


def test_a_reopened_pull_takes_nothing_from_a_deleted_fork(api, upstream, fork, clone, pull, alice):
    """A commit that was pushed while it was closed is gone with the fork."""
    made, path = pull
    api(alice).put(f"{path}/status", status="closed").gives()
    secret = clone.push_commit("topic", {"key": "secret\n"})
    api(fork.owner_user).delete(f"{fork.api_path}?confirm={fork.full_name}").gives(202)
    api(alice).put(f"{path}/status", status="open").gives()
    assert api(alice).get(path).gives()["head_sha"] == made["head_sha"]
    assert not upstream.git.has_commit(secret)

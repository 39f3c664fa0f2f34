"""Pulls follow their branches."""

from __future__ import annotations

import pytest

from apps.git import run
from apps.pulls.models import Pull
from tests.pulls import paths


def fresh(pull):
    return Pull.objects.select_related("thread").get(pk=pull.pk)


def test_the_push_that_creates_the_branch_fills_the_pull_in(make, clone, alice, bob, events):
    pull = make.pull(clone.repo, by=alice)
    with events("branch-created", "pull-pushed") as recorded:
        head = clone.push_commit("feature", {"a": "1"}, onto="main", by=bob)
    after = fresh(pull)
    assert (after.head_sha, after.base_sha) == (head, clone.repo.branch_sha("main"))
    assert (after.commit_count, after.changed_files, after.head_pushed_by) == (1, 1, bob)
    assert (recorded[1].actor, recorded[1].number) == (bob, pull.number)
    branches = {"source_branch": "feature", "target_branch": "main"}
    heads = {"before": None, "after": head, "head_sha": head, "version": 1}
    assert recorded[1].data == {**heads, **branches, "comments_outdated": 0}


def test_a_push_moves_every_pull_of_the_branch_by_number(make, pull, clone, alice, bob, events):
    other = make.pull(clone.repo, by=bob, target="release")
    draft = make.pull(clone.repo, by=bob, target="next")
    Pull.objects.filter(pk=draft.pk).update(status="draft")
    with events("branch-pushed", *["pull-pushed"] * 3) as recorded:
        head = clone.push_commit("feature", {"window": "1"}, by=bob)
    assert [event.number for event in recorded[1:]] == [1, 2, 3]
    assert [fresh(row).head_sha for row in (pull, other, draft)] == [head] * 3
    assert fresh(pull).updated_at > pull.updated_at
    assert (fresh(pull).commit_count, fresh(other).base_sha) == (2, None)


def test_a_target_that_moves_is_followed_in_silence(pull, clone, events):
    with events("branch-pushed"):
        base = clone.push_commit("main", {"gate": "1"})
    after = fresh(pull)
    assert (after.base_sha, after.head_sha) == (base, pull.head_sha)
    assert (after.status, after.updated_at) == ("open", pull.updated_at)


def test_a_push_of_both_branches_moves_both(pull, clone, events):
    base = clone.commit("main", {"gate": "1"})
    head = clone.commit("feature", {"window": "1"})
    with events("branch-pushed", "branch-pushed", "pull-pushed"):
        clone.push("main", "feature")
    after = fresh(pull)
    assert (after.head_sha, after.base_sha, after.commit_count) == (head, base, 2)


BROUGHT = [("feature", "main"), ("main", "main"), ("aside", "main")]
BROUGHT += [("main", "main~3:main"), ("island", "main")]
"""The branch that is merged into main, with a commit on top, and the push; one of the pushes
rewinds main.
"""


@pytest.mark.slow
def test_figures_stay_true_whatever_the_target_brings(make, pull, clone, alice):
    """Commits of another pull, of the own base, unrelated ones, and a rewritten history."""
    clone.commit("stacked", {"roof": "1"}, onto="feature")
    clone.commit("aside", {"garden": "1"}, onto="main")
    clone.commit("crossed", {"garden": "2"}, onto="aside")
    clone.checkout("crossed")
    clone.git("merge", "--quiet", "--no-edit", "feature")
    clone.commit("island", {"a": "1"})
    branches = ["stacked", "aside", "crossed", "island"]
    clone.push(*branches)
    pulls = [pull, *(make.pull(clone.repo, by=alice, source=name) for name in branches)]
    for target, pushed in BROUGHT:
        clone.checkout("main")
        clone.git("merge", "--quiet", "--no-edit", "--allow-unrelated-histories", target)
        clone.commit("main", {"gate": target})
        clone.push(pushed)
        for row in map(fresh, pulls):
            stat = clone.repo.git.diff_stat(row.base_sha, row.head_sha)
            statistics = (row.commit_count, row.additions, row.deletions, row.changed_files)
            wanted = (stat.commit_count, stat.additions, stat.deletions, stat.changed_files)
            assert statistics == wanted, row
            assert row.status == "merged" or row.base_sha == clone.repo.branch_sha("main")
    assert [fresh(pull).status for pull in pulls] == ["merged", "open", "merged", "open", "merged"]


@pytest.mark.slow
def test_a_busy_target_asks_git_no_more_often(make, clone, alice):
    spent = []
    for number in range(6):
        clone.push_commit(f"topic-{number}", {f"file-{number}": "x"}, onto="main~0")
        make.pull(clone.repo, by=alice, source=f"topic-{number}")
        clone.commit("main", {"gate": str(number)})
        before = run.spawned
        clone.push("main")
        spent.append(run.spawned - before)
    assert len(set(spent)) == 1
    assert set(Pull.objects.values_list("base_sha", flat=True)) == {clone.repo.branch_sha("main")}


def test_a_head_outlives_its_branch(
    api, pull, clone, alice, events, django_capture_on_commit_callbacks
):
    with events("branch-deleted"), django_capture_on_commit_callbacks(execute=True):
        clone.push(":feature")
    assert fresh(pull).head_sha == pull.head_sha
    assert clone.repo.git.ref("refs/pull/1/head") == pull.head_sha
    said = api(alice).post(f"{paths.pull(pull)}/merge").fails(409, "branch_missing")
    assert said == "There is no branch feature."
    with events("branch-created"):
        clone.push("feature")
    assert api(alice).post(f"{paths.pull(pull)}/merge").gives()["head_sha"] == pull.head_sha


def test_a_target_that_goes_takes_the_base_with_it(make, pull, clone, alice):
    clone.push("main:release")
    release = make.pull(clone.repo, by=alice, target="release")
    assert release.base_sha is not None
    clone.push(":release")
    after = fresh(release)
    assert (after.base_sha, after.head_sha, after.commit_count) == (None, pull.head_sha, 0)


def test_the_head_is_kept_in_a_ref_of_the_pull(
    make, clone, alice, django_capture_on_commit_callbacks
):
    clone.push_commit("feature", {"a": "1"}, onto="main")
    with django_capture_on_commit_callbacks(execute=True):
        pull = make.pull(clone.repo, by=alice)
    assert clone.repo.git.ref("refs/pull/1/head") == pull.head_sha
    with django_capture_on_commit_callbacks(execute=True):
        head = clone.push_commit("feature", {"a": "2"}, onto="main")
    assert clone.repo.git.ref("refs/pull/1/head") == head
    assert "refs/pull/1/head" not in clone.repo.git.refs()


@pytest.mark.django_db(transaction=True)
def test_a_ref_that_git_cannot_write_after_the_commit_is_told_of_in_the_log(
    make, clone, alice, caplog
):
    """The pull has been created, and the response must say so."""
    clone.push_commit("feature", {"a": "1"}, onto="main")
    lock = clone.repo.git.path / "refs/pull/1/head.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    pull = make.pull(clone.repo, by=alice)
    assert pull.head_sha and clone.repo.git.ref("refs/pull/1/head") is None
    assert "update_refs_on_commit" in caplog.text
    lock.unlink()
    head = clone.push_commit("feature", {"a": "2"}, onto="main")
    assert clone.repo.git.ref("refs/pull/1/head") == head


@pytest.mark.parametrize("status", ["open", "draft"])
def test_a_push_that_brings_the_head_into_the_target_merges(pull, clone, bob, events, status):
    Pull.objects.update(status=status)
    clone.commit("main", {"gate": "1"})
    clone.checkout("main")
    clone.git("merge", "--quiet", "--no-edit", "feature", "--no-ff")
    tip = clone.git("rev-parse", "main")
    before = fresh(pull).base_sha
    with events("branch-pushed", "pull-merged") as recorded:
        clone.push("main", by=bob)
    after = fresh(pull)
    assert (after.status, after.thread.status, after.merged_by) == ("merged", "resolved", bob)
    assert (after.merge_commit_sha, after.merge_strategy, after.base_sha) == (tip, None, before)
    assert recorded[1].actor == bob
    assert recorded[1].data == {
        "head_sha": pull.head_sha,
        "merge_commit_sha": tip,
        "merge_strategy": None,
        "target_branch": "main",
    }


@pytest.mark.parametrize("order", [("main", "feature"), ("feature", "main")])
def test_a_head_that_comes_with_the_target_is_merged_whatever_the_order(pull, clone, events, order):
    head = clone.commit("feature", {"window": "1"})
    clone.git("branch", "--force", "main", "feature")
    with events("branch-pushed", "branch-pushed", "pull-pushed", "pull-merged"):
        clone.push(*order)
    assert (fresh(pull).status, fresh(pull).head_sha) == ("merged", head)


def test_a_branch_that_is_merged_and_deleted_in_one_push_is_merged(pull, clone, events):
    with events("branch-deleted", "branch-pushed", "pull-merged"):
        clone.push(":feature", "feature:main")
    assert fresh(pull).head_sha == fresh(pull).merge_commit_sha == pull.head_sha


def test_a_head_that_goes_back_into_the_target_is_not_merged(pull, clone, events):
    """The head moved, and the target gained no commits."""
    with events("branch-pushed", "pull-pushed"):
        clone.push("main:feature")
    assert (fresh(pull).status, fresh(pull).commit_count) == ("open", 0)
    with events("branch-pushed"):
        clone.push_commit("main", {"gate": "1"})
    assert fresh(pull).status == "open"


def test_a_target_that_is_made_with_the_head_in_it_merges_nothing(make, pull, clone, alice, events):
    release = make.pull(clone.repo, by=alice, target="release")
    with events("branch-created"):
        clone.push("feature:release")
    assert (fresh(release).status, fresh(release).base_sha) == ("open", pull.head_sha)


def test_a_closed_pull_follows_nothing(api, pull, clone, alice, events):
    api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives()
    clone.commit("feature", {"window": "1"})
    with events("branch-pushed", "branch-pushed"):
        clone.push("feature", "feature:main")
    assert (fresh(pull).status, fresh(pull).head_sha) == ("closed", pull.head_sha)


def test_a_merge_moves_the_pulls_from_and_into_its_target(api, make, pull, clone, alice, events):
    clone.push("feature:other", "main:release")
    into = make.pull(clone.repo, by=alice, source="other")
    out = make.pull(clone.repo, by=alice, source="main", target="release")
    with events("branch-pushed", "pull-merged", "pull-merged", "pull-pushed") as recorded:
        tip = api(alice).post(f"{paths.pull(pull)}/merge").gives()["merge_commit_sha"]
    assert [event.number for event in recorded] == [None, pull.number, into.number, out.number]
    assert [fresh(row).status for row in (pull, into, out)] == ["merged", "merged", "open"]
    assert (fresh(out).head_sha, fresh(out).head_pushed_by) == (tip, alice)
    assert fresh(into).merge_strategy is None


def test_pulls_of_other_repositories_stay_as_they_are(make, pull, clone, acme, alice):
    other = make.pull(make.repo(acme, "web", by=alice), by=alice)
    clone.push_commit("feature", {"window": "1"})
    assert fresh(other).head_sha is None


def test_a_pull_has_a_scope_of_its_own(api, make, pull, clone, bob, carol):
    make.reply(pull.thread, by=bob)
    make.pull(clone.repo, by=bob, target="release")
    thread = make.thread(clone.repo, by=bob)
    clone.push_commit("feature", {"window": "1"})
    scope = f"pull:teams/acme/api/{pull.number}"
    results = api(carol).get(f"/events?scope={scope}").gives()["results"]
    assert [row["kind"] for row in results] == ["pull-pushed", "reply-created", "pull-created"]
    assert all(scope in row["scopes"] for row in results)
    for number in (thread.number, 99):
        api(carol).get(f"/events?scope=pull:teams/acme/api/{number}").fails(404, "not_found")
    api(carol).get("/events?scope=pull:teams/acme/api/x").fails(422, "invalid_scope")

"""`GET …/pulls/{number}/versions`: each head that a pull has had, and the refs that keep them."""

from __future__ import annotations

import pytest

from apps.git.repo import version_ref
from apps.pulls import jobs
from apps.pulls.models import Pull, PullVersion, VersionContents
from tests.migrations import as_of
from tests.pulls import paths


def versions(api, pull, by):
    return api(by).get(f"{paths.pull(pull)}/versions").gives()["results"]


def heads(api, pull, by):
    return [(version["version"], version["head_sha"]) for version in versions(api, pull, by)]


def pushed(clone, text, **options):
    """Push a new head of `feature`; return it."""
    head = clone.push_commit("feature", {"arch": text}, **options)
    return head


def test_a_pull_begins_with_version_one(api, pull, clone, alice):
    [record] = versions(api, pull, alice)
    base = clone.repo.branch_sha("main")
    assert record.pop("created_at")
    assert record == {
        "version": 1,
        "head_sha": pull.head_sha,
        "base_sha": base,
        "merge_base_sha": base,
        "pushed_by_uuid": str(alice.uuid),
        "pushed_by_username": "alice",
        "is_forced": False,
        "commit_count": 1,
        "additions": 1,
        "deletions": 0,
        "changed_files": 1,
    }


def test_each_push_is_a_version_and_a_forced_one_says_so(api, pull, clone, alice, bob, events):
    first = pull.head_sha
    with events("branch-pushed", "pull-pushed") as recorded:
        second = clone.push_commit("feature", {"window": "1\n"}, by=bob)
    assert recorded[1].data["version"] == 2
    clone.git("branch", "--force", "feature", first)
    clone.push("feature")
    clone.git("branch", "--force", "feature", second)
    clone.push("feature")
    records = versions(api, pull, alice)
    assert [row["head_sha"] for row in records] == [first, second, first, second]
    assert [row["is_forced"] for row in records] == [False, False, True, False]
    assert [row["pushed_by_username"] for row in records] == ["alice", "bob", "alice", "alice"]
    assert [row["commit_count"] for row in records] == [1, 2, 1, 2]


def test_a_target_that_moves_makes_no_version(api, pull, clone, alice):
    before = versions(api, pull, alice)
    clone.push_commit("main", {"gate": "1\n"})
    clone.push_commit("main", {"gate": "2\n"}, onto="feature~1")
    assert Pull.objects.get().base_sha == clone.repo.branch_sha("main")
    assert versions(api, pull, alice) == before


def test_a_branch_that_is_deleted_and_made_again_makes_one_only_if_it_is_elsewhere(
    api, pull, clone, alice
):
    clone.push(":feature")
    clone.push("feature")
    assert heads(api, pull, alice) == [(1, pull.head_sha)]
    clone.push(":feature")
    other = pushed(clone, "shut\n", onto="main")
    assert heads(api, pull, alice) == [(1, pull.head_sha), (2, other)]
    assert versions(api, pull, alice)[1]["is_forced"] is True


def test_a_pull_without_a_head_has_none_until_its_branch_comes(api, make, clone, alice):
    pull = make.pull(clone.repo, by=alice, source="later")
    assert heads(api, pull, alice) == []
    head = clone.push_commit("later", {"arch": "open\n"}, onto="main")
    assert heads(api, pull, alice) == [(1, head)]


def test_a_pull_that_is_reopened_with_another_head_has_a_version_of_it(api, pull, clone, alice):
    url = f"{paths.pull(pull)}/status"
    for _ in range(2):
        api(alice).put(url, status="closed").gives()
        api(alice).put(url, status="open").gives()
    assert heads(api, pull, alice) == [(1, pull.head_sha)]
    api(alice).put(url, status="closed").gives()
    pushed(clone, "1\n")
    head = pushed(clone, "2\n")
    assert heads(api, pull, alice) == [(1, pull.head_sha)]
    api(alice).put(url, status="open").gives()
    assert heads(api, pull, alice) == [(1, pull.head_sha), (2, head)]


@pytest.mark.parametrize("order", [("main", "feature"), ("feature", "main")])
def test_a_push_that_merges_makes_a_version_of_the_head_that_it_merged(
    api, pull, clone, alice, order
):
    base, head = clone.repo.branch_sha("main"), clone.commit("feature", {"window": "1\n"})
    clone.git("branch", "--force", "main", "feature")
    clone.push(*order)
    last = versions(api, pull, alice)[-1]
    assert (last["version"], last["head_sha"], last["base_sha"]) == (2, head, base)
    assert (last["merge_base_sha"], last["commit_count"]) == (base, 2)


def test_a_merge_makes_no_version_and_changes_none(api, pull, clone, alice):
    before = versions(api, pull, alice)
    api(alice).post(f"{paths.pull(pull)}/merge", merge_strategy="squash").gives()
    assert versions(api, pull, alice) == before


def test_the_version_of_a_pull_whose_target_comes_later_gets_its_base_then(
    api, make, pull, clone, alice
):
    waiting = make.pull(clone.repo, by=alice, target="later")
    [record] = versions(api, waiting, alice)
    assert {record[name] for name in ("base_sha", "merge_base_sha", "changed_files")} == {None}
    files = f"{paths.pull(waiting)}/files"
    assert api(alice).get(files).gives()["results"] == []
    clone.push("main:later")
    assert [row["path"] for row in api(alice).get(files).gives()["results"]] == ["arch"]
    [record] = versions(api, waiting, alice)
    assert (record["base_sha"], record["changed_files"]) == (clone.repo.branch_sha("later"), 1)


def test_of_unrelated_histories_all_that_the_head_has_is_its_own(api, make, clone, alice):
    empty = clone.store("tree", b"")
    root = clone.git("commit-tree", empty, "-m", "another beginning")
    clone.git("branch", "--force", "island", root)
    clone.push_commit("island", {"palm": "tall\n"})
    pull = make.pull(clone.repo, by=alice, source="island")
    [record] = versions(api, pull, alice)
    sizes = (record["commit_count"], record["changed_files"])
    assert (record["merge_base_sha"], sizes) == (None, (2, 1))


# Refs


@pytest.mark.django_db(transaction=True)
def test_a_ref_of_its_own_keeps_the_commits_of_each_version(pull, clone):
    first, git = pull.head_sha, clone.repo.git
    for text in ("1\n", "2\n"):
        pushed(clone, text, onto="main")
    assert not PullVersion.objects.exclude(due_at=None).exists()
    assert [git.ref(version_ref(1, n)) for n in (1, 2, 3)] == [
        row.head_sha for row in PullVersion.objects.order_by("version")
    ]
    clone.push(":feature")
    clone.server("-c", "gc.pruneExpire=now", "gc", "--prune=now", "--quiet")
    assert git.has_commit(first)


@pytest.mark.parametrize("protocol", ["0", "2"])
@pytest.mark.django_db(transaction=True)
def test_nobody_is_shown_the_refs_that_keep_versions(pull, clone, protocol):
    head = pushed(clone, "1\n", onto="main")
    git, remote = clone.repo.git, ("-c", f"protocol.version={protocol}")
    at = str(git.path)
    lines = clone.git(*remote, "ls-remote", at).splitlines()
    branches = {"refs/heads/main", "refs/heads/feature"}
    assert {line.split()[1] for line in lines} == {"HEAD", *branches, "refs/pull/1/head"}
    clone.git(*remote, "fetch", "--quiet", at, "refs/pull/1/head")
    with pytest.raises(AssertionError, match="couldn't find remote ref"):
        clone.git(*remote, "fetch", "--quiet", at, version_ref(1, 1))
    assert git.ref(version_ref(1, 2)) == head


@pytest.mark.django_db(transaction=True)
def test_what_dies_before_the_ref_is_made_is_made_up_for_by_the_worker(pull, clone, caplog):
    git = clone.repo.git
    lock = git.path / f"{version_ref(1, 2)}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    head = pushed(clone, "1\n")
    assert git.ref(version_ref(1, 2)) is None
    assert Pull.objects.get().head_sha == head
    lock.unlink()
    assert not jobs.complete_next_version(), "it waits a minute for whoever pushed"
    PullVersion.objects.exclude(due_at=None).update(due_at="2020-01-01T00:00:00Z")
    assert jobs.complete_next_version()
    assert not jobs.complete_next_version()
    assert git.ref(version_ref(1, 2)) == head
    assert not PullVersion.objects.exclude(due_at=None).exists()


@pytest.mark.django_db(transaction=True)
def test_a_version_that_cannot_be_completed_is_put_off_and_holds_up_no_other(pull, clone):
    lost = PullVersion.objects.create(
        pull=pull, version=9, head_sha="1" * 40, base_sha="2" * 40, due_at="2020-01-01T00:00:00Z"
    )
    PullVersion.objects.filter(version=1).update(due_at="2020-01-02T00:00:00Z")
    assert jobs.complete_next_version()
    lost.refresh_from_db()
    assert (lost.tries, lost.is_known) == (1, False)
    assert jobs.complete_next_version()
    assert not jobs.complete_next_version()
    assert PullVersion.objects.get(version=1).due_at is None


def test_what_a_repository_has_of_them_goes_with_it(pull, clone):
    assert VersionContents.objects.exists()
    clone.repo.delete()
    assert not VersionContents.objects.exists()
    assert not PullVersion.objects.exists()


# Pulls from before versions existed


@pytest.mark.django_db(transaction=True)
def test_older_pulls_have_their_present_head_as_version_one(make, pull, clone, api, alice):
    merged = make.pull(clone.repo, by=alice, source="other")
    clone.push_commit("other", {"other": "1\n"}, onto="main")
    api(alice).post(f"{paths.pull(merged)}/merge").gives()
    waiting = make.pull(clone.repo, by=alice, source="later")
    expected = versions(api, pull, alice), versions(api, merged, alice)
    with as_of("pulls", "0011_activity"):
        pass
    assert PullVersion.objects.filter(due_at=None).count() == 0
    done = 0
    while jobs.complete_next_version():
        done += 1
    assert done == 2
    actual = versions(api, pull, alice), versions(api, merged, alice)
    for [old], [new] in zip(expected, actual, strict=True):
        # The base of an open pull's version is the current tip of the target.
        assert new["base_sha"] in (old["base_sha"], clone.repo.branch_sha("main"))
        changing = {"created_at": "", "base_sha": ""}
        assert new | changing == old | changing
    assert versions(api, waiting, alice) == []
    assert Pull.objects.get(pk=waiting.pk).last_version == 0
    head = pushed(clone, "1\n")
    assert heads(api, pull, alice) == [(1, pull.head_sha), (2, head)]
    assert clone.repo.git.ref(version_ref(merged.number, 1)) == expected[1][0]["head_sha"]

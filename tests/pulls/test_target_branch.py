"""`target_branch` of PUT …/pulls/{number}: another target for an open pull or a draft."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from apps.core.errors import ApiError
from apps.events.models import Ping
from apps.pulls import actions
from apps.pulls.actions import merging
from apps.pulls.jobs import complete_next_version, try_next_auto_merge
from apps.pulls.models import MergeAttempt, Pull
from apps.repos.models import PushJournal
from tests.gitclient import Clone
from tests.principals import access_of
from tests.pulls import paths
from tests.races import at_once

CHANGED = "pull-target-changed"


@pytest.fixture
def release(clone, pull):
    """A branch `release`, one commit ahead of `main`."""
    return clone.push_commit("release", {"NEWS": "none\n"}, onto="main")


@pytest.fixture
def url(pull):
    return paths.pull(pull)


def files(api, person, url, **query) -> list[str]:
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return [row["path"] for row in api(person).get(f"{url}/files?{text}").gives()["results"]]


def test_the_pull_is_compared_with_the_new_target(api, pull, url, clone, alice, events):
    clone.push_commit("feature", {"gate": "open\n"})
    release = clone.push_commit("release", {"arch": "open\n"}, onto="main")
    assert files(api, alice, url) == ["arch", "gate"]
    with events(CHANGED) as recorded:
        record = api(alice).put(url, target_branch="release").gives()
    branches = {"source_branch": "feature", "target_branch": "release", "after": "release"}
    head = {"head_sha": record["head_sha"], "before": "main"}
    assert recorded[0].data == branches | head
    assert (record["target_branch"], record["base_sha"]) == ("release", release)
    assert record == api(alice).get(url).gives()
    clone.push_commit("release", {"arch": "open\n", "NEWS": "x\n"}, onto="feature~1")
    record = api(alice).get(url).gives()
    assert (record["commit_count"], record["changed_files"]) == (1, 1)
    api(alice).put(url, target_branch="main").gives()
    record = api(alice).get(url).gives()
    assert (record["commit_count"], record["changed_files"]) == (2, 2)
    api(alice).post(f"{url}/merge").gives()
    assert pull.repo.branch_sha("main") != pull.repo.branch_sha("release")


def test_a_version_with_the_same_head_and_the_new_base_is_added(
    api, pull, url, release, alice, django_capture_on_commit_callbacks
):
    before = api(alice).get(f"{url}/versions").gives()["results"]
    with django_capture_on_commit_callbacks(execute=True):
        api(alice).put(url, target_branch="release").gives()
    [first, second] = api(alice).get(f"{url}/versions").gives()["results"]
    assert [first] == before
    assert second["head_sha"] == first["head_sha"] and second["base_sha"] == release
    assert (second["version"], second["is_forced"]) == (2, False)
    assert second["commit_count"] == 1
    assert files(api, alice, url) == ["arch"]
    answer = api(alice).get(f"{url}/files?from=1&version=2").gives()
    assert (answer["results"], answer["is_rebased"]) == ([], False)
    assert pull.versions.get(version=2).due_at is None
    assert pull.repo.git.ref(f"refs/versions/{pull.number}/2") == first["head_sha"]


def test_a_version_without_a_base_gets_that_of_the_new_target(api, make, clone, alice, release):
    pull = make.pull(clone.repo, by=alice, source="feature", target="nowhere")
    url = paths.pull(pull)
    api(alice).put(url, target_branch="release").gives()
    [version] = api(alice).get(f"{url}/versions").gives()["results"]
    assert version["base_sha"] == release
    complete_next_version()
    assert files(api, alice, url) == ["arch"]


def test_a_pull_without_a_source_takes_a_target_too(api, make, clone, carol):
    url = paths.pull(make.pull(clone.repo, by=carol, source="later"))
    clone.push("main:other")
    record = api(carol).put(url, target_branch="other").gives()
    assert record["target_branch"] == "other"


def test_what_is_no_target_is_refused(api, make, pull, url, release, alice, bob, events):
    other = make.pull(pull.repo, by=bob, source="feature", target="release")
    with events():
        api(alice).put(url, target_branch="nowhere").fails(422, "validation_failed")
        api(alice).put(url, target_branch="a..b").fails(422, "validation_failed")
        api(alice).put(url, target_branch="feature").fails(422, "same_branch")
        refused = api(alice).put(url, target_branch="release").fails(409, "pull_already_exists")
        assert f"Pull {other.number} already" in refused
        api(alice).put(url, target_branch="main").gives()
        api(alice).put(f"{url}/status", target_branch="release").fails(422, "unknown_field")
    api(bob).put(f"{paths.pull(other)}/status", status="closed").gives()
    api(alice).put(url, target_branch="release").gives()
    api(bob).put(f"{paths.pull(other)}/status", status="open").fails(409, "pull_already_exists")


def test_a_pull_that_has_ended_keeps_its_target(api, pull, url, release, alice, events):
    api(alice).put(f"{url}/status", status="closed").gives()
    with events():
        api(alice).put(url, target_branch="release").fails(409, "pull_closed")
        api(alice).put(url, target_branch="release", status="open").fails(409, "pull_closed")
    api(alice).put(f"{url}/status", status="open").gives()
    api(alice).post(f"{url}/merge").gives()
    with events():
        api(alice).put(url, target_branch="release").fails(409, "pull_already_merged")
        api(alice).put(url, target_branch="main").gives()


def test_a_draft_and_other_fields_may_change_with_it(api, pull, url, release, alice, events):
    with events(CHANGED, "pull-drafted") as recorded:
        api(alice).put(url, target_branch="release", status="draft", title="Arch").gives()
    assert recorded[1].data["changed"] == ["title", "status"]
    with events(CHANGED):
        api(alice).patch(url, target_branch="main").gives()


def test_its_author_and_writers_may_change_it(api, make, clone, carol, bob, sam):
    url = paths.pull(make.pull(clone.repo, by=carol, source="later"))
    clone.push("main:other")
    api(carol).put(url, target_branch="other").gives()
    api(bob).put(url, target_branch="main").gives()
    api(sam).put(url, target_branch="other").gives()


def test_others_may_not(api, pull, url, release, carol, events):
    with events():
        api(carol).put(url, target_branch="release").fails(403, "role_required")


def test_approvals_for_the_former_target_do_not_count(
    api, make, pull, url, release, alice, bob, sam
):
    make.protection(pull.repo, "release", by=alice, approver=bob)
    make.review(pull, by=bob)
    make.review(pull, by=sam, status="changes_requested")
    assert api(alice).get(f"{url}/protection").gives()["approval_count"] == 1
    api(alice).put(url, target_branch="release").gives()
    record = api(alice).get(f"{url}/protection").gives()
    assert (record["approval_count"], record["approvals_missing"]) == (0, 1)
    assert [one["is_stale"] for one in record["approvals"]] == [True]
    assert record["pending_approvers"] == ["bob"]
    [approval, _] = api(alice).get(f"{url}/reviews").gives()["results"]
    assert approval["is_stale"]
    api(alice).post(f"{url}/merge").fails(409, "approval_required")
    assert [*Ping.objects.values_list("user__username", "kind")] == [("bob", "review_requested")]
    waiting = api(bob).get("/pulls?awaiting_review_from=self").gives()["results"]
    assert [row["number"] for row in waiting] == [pull.number]
    api(alice).put(url, target_branch="main").gives()
    assert api(alice).get(f"{url}/protection").gives()["approval_count"] == 0
    api(alice).put(url, target_branch="release").gives()
    api(bob).put(f"{url}/reviews/{approval['uuid']}", status="approved").gives()
    assert api(alice).get(f"{url}/protection").gives()["approval_count"] == 1


def test_it_ends_the_auto_merge(api, pull, url, release, protection, alice, bob, events):
    api(alice).put(f"{url}/auto-merge").gives()
    with events(CHANGED, "auto-merge-ended") as recorded:
        api(bob).put(url, target_branch="release").gives()
    assert recorded[1].data["reason"] == "target_changed"
    assert [*Ping.objects.values_list("user__username", "kind")] == [("alice", "auto_merge_ended")]
    assert not try_next_auto_merge()


def test_a_pull_from_a_fork_keeps_its_head(api, upstream, pull, tmp_path, alice):
    record, url = pull
    Clone(tmp_path / "again", upstream, alice).push_commit("release", {"NEWS": "none\n"})
    Pull.objects.update(source_moved=True)
    changed = api(alice).put(url, target_branch="release").gives()
    assert changed["head_sha"] == record["head_sha"]
    assert (changed["target_branch"], changed["source_moved"]) == ("release", True)


def test_people_merge_and_review_into_the_branch_that_they_have_seen(
    api, make, pull, url, release, alice, bob, events
):
    review = make.review(pull, by=bob)
    api(alice).put(url, target_branch="release").gives()
    stale = {"expected_target_branch": "main"}
    query = "?expected_target_branch=main"
    one = f"{url}/reviews/{review.uuid}"
    with events():
        api(bob).post(f"{url}/reviews{query}", status="approved").fails(409, "target_changed")
        api(bob).put(f"{one}{query}", status="approved").fails(409, "target_changed")
        api(alice).put(f"{url}/auto-merge", **stale).fails(409, "target_changed")
        api(alice).post(f"{url}/merge{query}").fails(409, "target_changed")
    query = "?expected_target_branch=release"
    api(bob).put(f"{one}{query}", status="approved").gives()
    api(alice).post(f"{url}/merge{query}").gives()


# At once


@pytest.mark.django_db(transaction=True)
def test_two_people_at_once_leave_one_target_and_a_full_history(
    api, make, pull, url, release, clone, alice, bob, events
):
    clone.push("main:stable")
    api(alice), api(bob)
    calls = [
        lambda: api(alice).put(url, target_branch="release"),
        lambda: api(bob).put(url, target_branch="stable"),
    ]
    with events(CHANGED, CHANGED) as recorded:
        assert at_once(*calls) == {(200, None): 2}
    first, second = (event.data for event in recorded)
    assert (first["before"], second["before"]) == ("main", first["after"])
    pull.refresh_from_db()
    assert pull.target_branch == second["after"]
    assert pull.base_sha == pull.repo.branch_sha(pull.target_branch)
    versions = api(alice).get(f"{url}/versions").gives()["results"]
    assert [row["version"] for row in versions] == [1, 2, 3]
    assert versions[-1]["base_sha"] == pull.base_sha


@pytest.mark.django_db(transaction=True)
def test_two_pulls_do_not_get_the_same_branches_at_once(
    api, make, pull, url, release, clone, alice, bob
):
    clone.push("main:stable")
    other = make.pull(pull.repo, by=bob, source="feature", target="stable")
    calls = [
        lambda: api(alice).put(url, target_branch="release"),
        lambda: api(bob).put(paths.pull(other), target_branch="release"),
    ]
    assert at_once(*calls) == {(200, None): 1, (409, "pull_already_exists"): 1}


def test_the_target_stays_during_a_merge_and_until_its_rows_are_written(
    api, pull, url, release, alice, events
):
    now = timezone.now()
    attempt = MergeAttempt.objects.create(
        pull=pull, actor=alice, strategy="merge", leased_until=now + dt.timedelta(seconds=9)
    )
    with events():
        api(alice).put(url, target_branch="release").fails(409, "merge_in_progress")
        attempt.leased_until, attempt.push = now, pull.uuid
        attempt.save()
        assert not PushJournal.objects.exists()
        api(alice).put(url, target_branch="release").fails(409, "merge_in_progress")
    attempt.push = None
    attempt.save()
    api(alice).put(url, target_branch="release").gives()
    assert not MergeAttempt.objects.exists(), "its position was in the queue of another target"


def test_a_merge_into_the_former_target_is_refused(
    api, pull, url, release, alice, bob, monkeypatch, events
):
    """Somebody changes the target between the checks of a merge and its lease."""
    take_lease = merging._take_lease

    def change_before(merge):
        other = Pull.objects.get(pk=pull.pk)
        actions.update_pull(access=access_of(bob, pull.repo), pull=other, target_branch="release")
        return take_lease(merge)

    monkeypatch.setattr(merging, "_take_lease", change_before)
    with events(CHANGED), pytest.raises(ApiError) as refusal:
        actions.merge_pull(access=access_of(alice, pull.repo), pull=pull)
    assert refusal.value.code == "target_changed"
    assert not MergeAttempt.objects.exists()

"""…/pulls/{number}/update-branch and …/source-branch: pushes to the source of a pull."""

from __future__ import annotations

from itertools import count

import pytest
from django.utils import timezone

from apps.events.models import Event
from apps.idempotency.models import KeyedRequest
from apps.pulls.models import MergeAttempt, Pull
from apps.pulls.queries import get_pull
from apps.repos.actions import create_protection, update_repo
from apps.repos.models import PushJournal
from apps.repos.pushes import reconcile
from tests.dying import dying_at
from tests.gitclient import Clone
from tests.principals import access_of
from tests.pulls import paths
from tests.pulls.test_auto_merge import work
from tests.races import at_once

PUSHED = ("branch-pushed", "pull-pushed")


def update_url(pull):
    return f"{paths.pull(pull)}/update-branch"


def source_url(pull, head=""):
    query = f"?expected_head_sha={head}" if head else ""
    return f"{paths.pull(pull)}/source-branch{query}"


@pytest.fixture
def behind(pull, clone):
    """`main` has a commit that the pull lacks; returns it."""
    return clone.push_commit("main", {"gate": "1"}, message="meanwhile")


def reread(pull):
    return get_pull(pull.repo, pull.number)


# update-branch


def test_the_target_is_merged_into_the_source_by_the_caller(api, pull, clone, bob, behind, events):
    head = pull.head_sha
    api(bob).put(update_url(pull), expected_head_sha=behind).fails(409, "head_changed")
    with events(*PUSHED) as recorded:
        record = api(bob).put(update_url(pull), expected_head_sha=head).gives()
    new = record["head_sha"]
    assert record == api(bob).get(paths.pull(pull)).gives()
    fields = clone.server("log", "-1", "--format=%s|%an|%ce|%P", "feature").split("|")
    who = ["bob", "bob@users.noreply.localhost"]
    assert fields == ["Merge branch 'main' into feature", *who, f"{head} {behind}"]
    assert new == clone.server("rev-parse", "feature") == pull.repo.branch_sha("feature")
    assert recorded[0].data == {
        "before": head,
        "after": new,
        "forced": False,
        "commit_count": 2,
    }
    assert (recorded[1].data["version"], recorded[1].actor) == (2, bob)
    assert (record["commit_count"], record["changed_files"]) == (2, 1)
    assert not PushJournal.objects.exists()
    with events():
        api(bob).put(update_url(pull)).fails(409, "nothing_to_update")


def test_a_conflict_names_its_paths_and_changes_nothing(api, pull, clone, alice, events):
    clone.push_commit("main", {"arch": "closed\n"})
    with events():
        refused = api(alice).put(update_url(pull))
    refused.fails(409, "merge_conflict")
    assert refused.json["conflict_paths"] == ["arch"]
    assert pull.repo.branch_sha("feature") == pull.head_sha


@pytest.mark.parametrize("status", ["closed", "merged"])
def test_only_an_open_pull_is_updated(api, pull, alice, behind, status, events):
    if status == "merged":
        api(alice).post(f"{paths.pull(pull)}/merge").gives()
    else:
        api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives()
    code = {"closed": "pull_closed", "merged": "pull_already_merged"}[status]
    with events():
        api(alice).put(update_url(pull)).fails(409, code)


def test_a_draft_is_updated(api, pull, alice, behind):
    api(alice).put(f"{paths.pull(pull)}/status", status="draft").gives()
    assert api(alice).put(update_url(pull)).gives()["status"] == "draft"


@pytest.mark.parametrize("branch", ["main", "feature"])
def test_both_branches_must_exist(api, pull, clone, alice, behind, branch):
    clone.push(f":{branch}")
    api(alice).put(update_url(pull)).fails(409, "branch_missing")


def test_a_protected_source_and_an_archived_repository_refuse_it(api, pull, alice, behind, events):
    access = access_of(alice, pull.repo)
    create_protection(access=access, branch="feat*")
    detail = api(alice).put(update_url(pull)).fails(409, "branch_protected")
    assert "feature is protected" in detail
    update_repo(access=access, is_archived=True)
    with events():
        api(alice).put(update_url(pull)).fails(409, "repo_archived")


def test_readers_cannot_update_a_branch(api, pull, alice, carol, behind, events):
    with events():
        api(carol).put(update_url(pull)).fails(403, "role_required")
        api(None).put(update_url(pull)).fails(401, "not_authenticated")
        api(alice).put(update_url(pull), expected_head_sha="main").fails(422, "validation_failed")


def test_an_update_keeps_approvals_and_asks_for_new_statuses(
    api, make, pull, alice, bob, sam, behind, protection
):
    make.review(pull, by=bob)
    sent = {"context": "ci", "state": "success"}
    api(sam).post(f"{pull.repo.api_path}/commits/{pull.head_sha}/statuses", **sent).gives(201)
    api(sam).put(f"{paths.pull(pull)}/auto-merge").gives()
    record = api(alice).put(update_url(pull)).gives()
    assert (record["checks"]["state"], record["auto_merge"]) == ("none", None)
    assert api(alice).get(f"{paths.pull(pull)}/protection").gives()["approval_count"] == 1
    ended = Event.objects.get(kind="auto-merge-ended")
    assert (ended.data["reason"], ended.actor) == ("pushed", alice)


@pytest.mark.django_db(transaction=True)
def test_of_two_updates_at_once_one_is_made(api, pull, clone, alice, bob, behind):
    calls = [lambda by=by: api(by).put(update_url(pull)) for by in (alice, bob)]
    outcome = at_once(*calls)
    assert outcome[200, None] == 1
    assert {code for status, code in outcome if status != 200} <= {
        "head_changed",
        "nothing_to_update",
        "unavailable",
    }
    assert clone.server("rev-list", "--count", f"{pull.head_sha}..feature") == "2"
    assert Event.objects.filter(kind="pull-pushed").count() == 1
    assert not PushJournal.objects.exists()


@pytest.mark.slow
def test_wherever_the_process_dies_branch_rows_and_events_agree(api, pull, clone, alice, behind):
    for deaths in count(1):
        clone.push_commit("main", {"gate": str(deaths)})
        before = pull.repo.git.ref("refs/heads/feature")
        events_before = Event.objects.filter(kind="pull-pushed").count()
        with dying_at(deaths) as death:
            api(alice).put(update_url(pull))
        reconcile(repo=pull.repo)
        head = pull.repo.git.ref("refs/heads/feature")
        assert pull.repo.branch_sha("feature") == reread(pull).head_sha == head
        gained = Event.objects.filter(kind="pull-pushed").count() - events_before
        assert gained == (head != before), f"it died at statement {deaths}"
        if not death.came:
            break
        PushJournal.objects.all().delete()  # as an hour later
    assert deaths > 20
    assert head != before


def test_a_fork_takes_the_commits_of_its_upstream(api, pull, clone, upstream, alice, carol, events):
    _, address = pull
    url = f"{address}/update-branch"
    api(carol).put(url).fails(409, "nothing_to_update")
    alices = Clone(clone.folder.parent / "again", upstream, alice)
    alices.git("fetch", "--quiet", str(upstream.git.path), "main:refs/heads/main")
    target = alices.push_commit("main", {"gate": "1"})
    api(alice).put(url).fails(403, "role_required")
    with events(*PUSHED) as recorded:
        record = api(carol).put(url).gives()
    assert [event.repo_id for event in recorded] == [clone.repo.pk, upstream.pk]
    assert clone.server("rev-parse", "topic") == record["head_sha"]
    assert clone.server("rev-parse", "topic^2") == target
    assert upstream.git.has_commit(record["head_sha"])


def test_a_branch_of_a_fork_that_the_pull_does_not_show_is_not_updated(
    api, pull, clone, upstream, carol
):
    record, address = pull
    Pull.objects.update(head_sha=record["base_sha"], source_moved=True)
    detail = api(carol).put(f"{address}/update-branch").fails(409, "head_changed")
    assert "does not show" in detail


def test_a_fork_that_is_private_or_deleted_is_not_named(api, pull, upstream, clone, alice, bob):
    _, address = pull
    clone.repo.visibility = "private"
    clone.repo.save()
    detail = api(bob).put(f"{address}/update-branch").fails(403, "forbidden")
    assert "carol" not in detail
    Pull.objects.update(source_repo=None)
    api(alice).put(f"{address}/update-branch").fails(409, "branch_missing")


# source-branch


@pytest.fixture
def merged(api, pull, alice):
    api(alice).post(f"{paths.pull(pull)}/merge").gives()
    return reread(pull)


def test_the_source_of_a_merged_pull_is_deleted_and_restored(api, merged, clone, bob, events):
    head = merged.head_sha
    api(bob).put(source_url(merged)).fails(409, "branch_exists")
    with events("branch-deleted") as recorded:
        api(bob).delete(source_url(merged, head)).gives(204)
    assert (recorded[0].actor, recorded[0].data["before"]) == (bob, head)
    assert merged.repo.branch_sha("feature") is None
    assert merged.repo.git.ref("refs/heads/feature") is None
    api(bob).delete(source_url(merged)).fails(404, "not_found")
    with events("branch-created"):
        record = api(bob).put(source_url(merged)).gives()
    assert (record["status"], record["head_sha"]) == ("merged", head)
    assert merged.repo.git.ref("refs/heads/feature") == head == merged.repo.branch_sha("feature")
    assert not PushJournal.objects.exists()


def test_commits_that_came_after_the_merge_are_not_deleted_unknowingly(
    api, merged, clone, alice, events
):
    new = clone.push_commit("feature", {"window": "1"})
    with events():
        api(alice).delete(source_url(merged)).fails(409, "head_changed")
        api(alice).delete(source_url(merged, merged.head_sha)).fails(409, "head_changed")
    api(alice).delete(source_url(merged, new)).gives(204)


def test_a_branch_in_use_is_not_deleted(api, make, pull, clone, alice, events):
    with events():
        detail = api(alice).delete(source_url(pull)).fails(409, "branch_in_use")
    assert "Pull 1 from feature is open" in detail
    api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives()
    clone.push_commit("other", {"window": "1"}, onto="feature")
    second = make.pull(clone.repo, by=alice, source="other", target="feature")
    detail = api(alice).delete(source_url(pull)).fails(409, "branch_in_use")
    assert f"Pull {second.number} into feature is open" in detail
    api(alice).put(f"{paths.pull(second)}/status", status="closed").gives()
    api(alice).delete(source_url(pull)).gives(204)


def test_default_and_protected_branches_are_not_deleted(api, make, clone, pull, alice):
    clone.push("main:release")
    back = make.pull(clone.repo, by=alice, source="main", target="feature")
    api(alice).put(f"{paths.pull(back)}/status", status="closed").gives()
    api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives()
    api(alice).delete(source_url(back)).fails(409, "default_branch")
    create_protection(access=access_of(alice, pull.repo), branch="feature")
    api(alice).delete(source_url(pull)).fails(409, "branch_protected")


def test_readers_can_neither_delete_nor_restore(api, merged, carol, events):
    with events():
        api(carol).delete(source_url(merged)).fails(403, "role_required")
        api(carol).put(source_url(merged)).fails(403, "role_required")


@pytest.mark.parametrize(
    ("ref", "text"), [("heads/feature/a", "beside feature/a"), ("tags/feature", "A tag")]
)
def test_a_name_that_is_taken_is_not_restored(api, merged, clone, alice, ref, text):
    api(alice).delete(source_url(merged)).gives(204)
    clone.server("update-ref", f"refs/{ref}", clone.sha("main"))
    reconcile(repo=merged.repo)
    assert text in api(alice).put(source_url(merged)).fails(409, "branch_exists")


def test_a_pull_whose_commit_is_gone_is_not_restored(api, bare_pull, alice):
    detail = api(alice).put(source_url(bare_pull)).fails(404, "not_found")
    assert "no commit to restore" in detail


def test_the_source_of_an_open_pull_is_restored_too(api, pull, clone, alice):
    clone.push(":feature")
    api(alice).put(source_url(pull)).gives()
    assert (
        "branch_missing"
        not in api(alice).get(f"{paths.pull(pull)}/protection").gives()["blocked_reasons"]
    )


def test_a_branch_of_a_fork_is_deleted_and_restored_by_its_writers(
    api, pull, clone, upstream, alice, carol, events
):
    record, address = pull
    api(alice).post(f"{address}/merge").gives()
    api(alice).delete(f"{address}/source-branch").fails(403, "role_required")
    with events("branch-deleted"):
        api(carol).delete(f"{address}/source-branch").gives(204)
    clone.server("prune", "--expire=now")
    with events("branch-created"):
        api(carol).put(f"{address}/source-branch").gives()
    assert clone.server("rev-parse", "topic") == record["head_sha"]


def test_an_open_pull_of_the_upstream_uses_the_branch_of_a_fork(
    api, make, pull, clone, upstream, carol
):
    own = make.pull(clone.repo, by=carol, source="topic")
    api(carol).put(f"{paths.pull(own)}/status", status="closed").gives()
    detail = api(carol).delete(source_url(own)).fails(409, "branch_in_use")
    assert detail == "An open pull of another repository is from topic."


# with a merge


def merge_url(pull):
    return f"{paths.pull(pull)}/merge"


def test_a_merge_deletes_the_source_if_it_is_asked_to(api, pull, clone, alice, events):
    with events("branch-pushed", "pull-merged", "branch-deleted"):
        answer = api(alice).post(merge_url(pull), delete_source_branch=True).gives()
    assert answer["source_branch_deletion"] == {"deleted": True, "error": None, "detail": None}
    assert pull.repo.git.ref("refs/heads/feature") is None
    assert pull.repo.branch_sha("feature") is None


def test_a_merge_stands_although_the_source_cannot_be_deleted(api, make, pull, clone, alice):
    clone.push("main:release")
    other = make.pull(clone.repo, by=alice, target="release")
    answer = api(alice).post(merge_url(pull), delete_source_branch=True).gives()
    outcome = answer["source_branch_deletion"]
    assert (outcome["deleted"], outcome["error"]) == (False, "branch_in_use")
    assert f"Pull {other.number}" in outcome["detail"]
    assert answer["pull"]["status"] == "merged"
    assert api(alice).post(merge_url(other)).gives()["source_branch_deletion"] is None


def test_a_merge_deletes_the_branch_of_a_fork_only_for_its_writers(
    api, pull, clone, upstream, alice, carol
):
    _, address = pull
    answer = api(alice).post(f"{address}/merge", delete_source_branch=True).gives()
    outcome = answer["source_branch_deletion"]
    assert (outcome["deleted"], outcome["error"]) == (False, "role_required")
    assert clone.repo.branch_sha("topic") == answer["head_sha"]


@pytest.mark.slow
def test_wherever_the_process_dies_a_repeated_merge_deletes_the_source(api, make, clone, alice):
    for number in count(1):
        clone.push_commit(f"f{number}", {f"arch-{number}": "open\n"}, onto="main")
        pull = make.pull(clone.repo, by=alice, source=f"f{number}")
        sent, key = {"delete_source_branch": True}, f"key-{number}"
        with dying_at(number) as death:
            api(alice).post_once(key, merge_url(pull), **sent)
        KeyedRequest.objects.update(leased_until=timezone.now())
        MergeAttempt.objects.update(leased_until=timezone.now())
        answer = api(alice).post_once(key, merge_url(pull), **sent)
        merged = answer.gives()
        assert merged["source_branch_deletion"]["deleted"], f"it died at statement {number}"
        reconcile(repo=pull.repo)
        assert pull.repo.git.ref(f"refs/heads/f{number}") is None
        assert pull.repo.branch_sha(f"f{number}") is None
        for kind in ("pull-merged", "branch-deleted"):
            told = Event.objects.filter(kind=kind)
            assert told.count() == number, f"it died at statement {number}"
        again = api(alice).post_once(key, merge_url(pull), **sent)
        assert again.response.content == answer.response.content
        PushJournal.objects.all().delete()
        if not death.came:
            break
    assert number > 40


def test_an_auto_merge_has_a_message_and_deletes_the_source(api, pull, clone, alice, sam):
    url = f"{paths.pull(pull)}/auto-merge"
    api(alice).put(url, strategy="rebase", message="Arch").fails(422, "validation_failed")
    sent = {"strategy": "squash", "message": "Arch\n\nAt last.", "delete_source_branch": True}
    record = api(alice).put(url, **sent).gives()["auto_merge"]
    assert {name: record[name] for name in sent} == sent
    work()
    made = clone.server("log", "-1", "--format=%B", "main")
    assert made.startswith("Arch\n\nAt last.\n\nCo-authored-by: ")
    assert pull.repo.branch_sha("feature") is None


@pytest.mark.parametrize("strategy", ["merge", "squash"])
def test_the_message_of_a_merge_can_be_given(api, pull, clone, alice, strategy):
    for bad in ("", " \n", "a\0b", "a" * 65_537, 7):
        api(alice).post(merge_url(pull), message=bad).fails(422, "validation_failed")
    text = "Add an arch\r\n\r\nIt is the first."
    api(alice).post(merge_url(pull), merge_strategy=strategy, message=text).gives()
    made = clone.server("log", "-1", "--format=%B", "main").partition("\n\nCo-authored-by")[0]
    assert made == text.replace("\r", "")


def test_null_is_the_default_message(api, pull, clone, alice):
    api(alice).post(merge_url(pull), message=None).gives()
    assert clone.server("log", "-1", "--format=%B", "main") == "Merge pull #1: Add an arch"


@pytest.mark.parametrize("strategy", ["rebase", "fast_forward"])
def test_a_strategy_without_a_commit_of_its_own_takes_no_message(
    api, pull, alice, strategy, events
):
    with events():
        refused = api(alice).post(merge_url(pull), merge_strategy=strategy, message="Arch")
        detail = refused.fails(422, "validation_failed")
    assert detail.startswith("message: ")


def test_a_squash_with_a_message_names_its_co_authors(api, make, clone, alice):
    clone.push_commit("feature", {"a": "1"}, onto="main", email="dan@example.org")
    pull = make.pull(clone.repo, by=alice)
    api(alice).post(merge_url(pull), merge_strategy="squash", message="One").gives()
    said = clone.server("log", "-1", "--format=%B", "main")
    assert said == "One\n\nCo-authored-by: dan <dan@example.org>"

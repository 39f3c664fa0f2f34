"""…/pulls/{number}/auto-merge, and the worker that merges pulls once they are ready."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db import transaction
from django.utils import timezone

from apps.accounts.models import ApiToken
from apps.core.locks import lock
from apps.events.models import Event, Ping
from apps.pulls import jobs
from apps.pulls.actions import merge_pull, merging
from apps.pulls.auto_merge import wake
from apps.pulls.jobs import check_next_conflict, try_next_auto_merge
from apps.pulls.models import MergeAttempt, Pull
from apps.repos.models import Protection
from apps.statuses.actions import create_status
from apps.teams.models import Member, Role
from tests.api import Api
from tests.principals import access_of
from tests.pulls import paths
from tests.races import Aside
from tests.repos import paths as repo_paths

ENDED = "auto-merge-ended"


def work():
    """Run the worker's jobs of conflicts and auto-merges until none is due."""
    while check_next_conflict() or try_next_auto_merge():
        pass


def reload(pull):
    pull.refresh_from_db()
    return pull


@pytest.fixture
def required(api, pull, alice):
    """`main` requires the status `ci`, and no approval."""
    settings = {"required_statuses": ["ci"], "required_approvals": 0}
    api(alice).post(repo_paths.protections(pull.repo), branch="main", **settings).gives(201)
    return Protection.objects.get()


@pytest.fixture
def report(bob):
    """`report(pull)` reports `ci` of its head as a success."""

    def send(pull, state="success", by=bob):
        access = access_of(by, pull.repo)
        create_status(access=access, sha=pull.head_sha, context="ci", state=state)

    return send


@pytest.fixture
def set_by(api):
    """`set_by(sam, pull)` sets the auto-merge of the current head."""

    def send(person, pull, **values):
        url = f"{paths.pull(pull)}/auto-merge"
        return api(person).put(url, expected_head_sha=reload(pull).head_sha, **values)

    return send


def test_a_pull_is_merged_once_its_status_is_green(
    api, pull, required, report, set_by, sam, events
):
    assert api(sam).get(paths.pull(pull)).gives()["auto_merge"] is None
    with events("auto-merge-set") as recorded:
        record = set_by(sam, pull, strategy="squash").gives()["auto_merge"]
    assert record == {
        "strategy": "squash",
        "message": None,
        "delete_source_branch": False,
        "expected_head_sha": pull.head_sha,
        "set_by_uuid": str(sam.uuid),
        "set_by_username": "sam",
        "set_by_is_bot": False,
        "created_at": record["created_at"],
    }
    data = {"username": "sam", "strategy": "squash", "head_sha": pull.head_sha}
    assert (recorded[0].data, recorded[0].actor) == (data, sam)
    assert api(sam).get(paths.pulls(pull.repo)).gives()["results"][0]["auto_merge"] == record
    report(pull, "pending")
    work()
    assert reload(pull).status == "open"
    with events("status-created", "branch-pushed", "pull-merged") as recorded:
        report(pull)
        work()
    merged = api(sam).get(paths.pull(pull)).gives()
    assert (merged["status"], merged["merge_strategy"]) == ("merged", "squash")
    assert (merged["merged_by_username"], merged["auto_merge"]) == ("sam", None)
    assert recorded[-1].actor == sam
    assert not Ping.objects.filter(kind="auto_merge_ended").exists()


def test_a_pull_that_can_be_merged_is_merged_at_once(pull, set_by, alice):
    set_by(alice, pull).gives()
    assert try_next_auto_merge()
    assert (reload(pull).status, pull.merged_by) == ("merged", alice)
    assert not try_next_auto_merge()


def test_people_who_could_not_merge_cannot_set_it(set_by, pull, required, carol, make, alice, api):
    set_by(carol, pull).fails(403, "role_required")
    url = f"{paths.pull(pull)}/auto-merge"
    sent = {"expected_head_sha": pull.head_sha}
    reading = Api(make.scoped_token(alice, permission="read"))
    reading.put(url, **sent).fails(403, "token_scope")
    reading.delete(url).fails(403, "token_scope")
    elsewhere = make.repo(alice, "elsewhere", by=alice)
    Api(make.scoped_token(alice, elsewhere)).put(url, **sent).fails(403, "token_scope")
    assert reload(pull).auto_merge is None


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"expected_head_sha": "main"}, "validation_failed"),
        ({"expected_head_sha": "A" * 40}, "validation_failed"),
        ({"expected_head_sha": "a" * 40, "strategy": "octopus"}, "validation_failed"),
        ({"expected_head_sha": "a" * 40, "force": True}, "unknown_field"),
    ],
)
def test_invalid_requests_are_refused(api, pull, alice, sent, code):
    api(alice).put(f"{paths.pull(pull)}/auto-merge", **sent).fails(422, code)


def test_only_the_current_head_of_an_open_or_draft_pull_can_be_set(
    api, pull, clone, set_by, alice, events
):
    url = f"{paths.pull(pull)}/auto-merge"
    api(alice).put(url, expected_head_sha="0" * 40).fails(409, "head_changed")
    api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives()
    set_by(alice, pull).fails(409, "pull_closed")
    api(alice).put(f"{paths.pull(pull)}/status", status="open").gives()
    clone.push(":feature")
    set_by(alice, pull).fails(409, "branch_missing")
    clone.push(f"{pull.head_sha}:feature")
    with events("auto-merge-set"):
        set_by(alice, pull).gives()
        set_by(alice, pull).gives()
    work()
    set_by(alice, pull).fails(409, "pull_already_merged")


def test_a_draft_waits_until_it_is_ready(api, pull, set_by, alice):
    api(alice).put(f"{paths.pull(pull)}/status", status="draft").gives()
    set_by(alice, pull).gives()
    work()
    assert reload(pull).status == "draft"
    api(alice).put(f"{paths.pull(pull)}/status", status="open").gives()
    work()
    assert reload(pull).status == "merged"


def test_an_approval_lets_it_merge(make, pull, protection, set_by, sam, bob):
    set_by(sam, pull).gives()
    work()
    assert reload(pull).status == "open"
    make.review(pull, by=bob)
    work()
    assert (reload(pull).status, pull.merged_by) == ("merged", sam)


def test_another_auto_merge_replaces_it(api, pull, required, set_by, bob, sam, events):
    set_by(sam, pull).gives()
    with events(ENDED, "auto-merge-set") as recorded:
        set_by(bob, pull, strategy="rebase").gives()
    check_end(recorded[0], "replaced", actor=bob, person=sam)
    api(bob).delete(f"{paths.pull(pull)}/auto-merge").gives(204)
    api(bob).delete(f"{paths.pull(pull)}/auto-merge").fails(404, "not_found")


def check_end(event, reason, *, actor, person):
    """The event has this reason and actor, and pings the person."""
    assert (event.kind, event.data["reason"]) == (ENDED, reason)
    assert (event.actor, event.data["username"]) == (actor, person.username)
    assert [(ping.user, ping.kind) for ping in event.pings.all()] == [(person, "auto_merge_ended")]


def cancel(api, pull, **_):
    api(pull.thread.created_by).delete(f"{paths.pull(pull)}/auto-merge").gives(204)


def close(api, pull, **_):
    api(pull.thread.created_by).put(f"{paths.pull(pull)}/status", status="closed").gives()


def push(clone, **_):
    clone.push_commit("feature", {"arch": "shut\n"})


def delete_target(clone, required, **_):
    clone.push(":main")


def request_changes(make, pull, bob, **_):
    make.review(pull, by=bob, status="changes_requested")


def protect(make, pull, alice, **_):
    make.protection(pull.repo, "m*", by=alice)


def protection_url(pull, required):
    return f"{repo_paths.protections(pull.repo)}/{required.uuid}"


def change_rule(api, pull, alice, required, **_):
    api(alice).put(protection_url(pull, required), required_statuses=[]).gives()


def move_rule(api, pull, alice, required, **_):
    api(alice).put(protection_url(pull, required), branch="other").gives()


def delete_rule(api, pull, alice, required, **_):
    api(alice).delete(protection_url(pull, required)).gives(204)


def add_approver(make, required, bob, **_):
    make.approver(required, bob)


ENDS = {
    cancel: "cancelled",
    close: "pull_closed",
    push: "pushed",
    delete_target: "target_deleted",
    request_changes: "changes_requested",
    protect: "protection_changed",
    change_rule: "protection_changed",
    move_rule: "protection_changed",
    delete_rule: "protection_changed",
    add_approver: "protection_changed",
}


@pytest.mark.parametrize("change", ENDS, ids=lambda change: change.__name__)
def test_a_change_ends_it_in_the_same_transaction(
    api, make, pull, clone, required, report, set_by, alice, bob, sam, change
):
    pull.repo.default_branch = "feature"  # git deletes any other branch
    pull.repo.save()
    pull.repo.git.set_head_branch("feature")
    set_by(sam, pull).gives()
    before = Event.objects.order_by("-id")[0].pk
    change(**{"api": api, "make": make, "pull": pull, "clone": clone, "required": required}
           | {"alice": alice, "bob": bob})  # fmt: skip
    event = Event.objects.filter(id__gt=before).order_by("id").last()
    check_end(event, ENDS[change], actor=bob if change is request_changes else alice, person=sam)
    assert reload(pull).auto_merge is None and pull.auto_merge_due_at is None
    report(pull)
    work()
    assert reload(pull).status != "merged"


def test_other_changes_end_nothing(api, make, clone, pull, required, set_by, carol, alice, sam):
    set_by(sam, pull).gives()
    make.review(pull, by=carol, status="changes_requested")  # her reviews do not count
    make.review(pull, by=sam, status="commented")
    make.protection(pull.repo, "release/*", by=alice)
    clone.push_commit("main", {"gate": "open\n"}, onto="main")
    clone.push(":feature")
    work()
    assert reload(pull).auto_merge is not None


def remove_member(person, **_):
    Member.objects.filter(user=person).delete()


def deactivate(person, **_):
    person.is_active = False
    person.save()


def make_reader(person, pull, **_):
    Member.objects.filter(user=person).update(role=Role.VIEWER)


def archive(pull, **_):
    pull.repo.is_archived = True
    pull.repo.save()


@pytest.mark.parametrize(
    ("change", "reason", "is_pinged"),
    [
        (remove_member, "access_lost", True),
        (make_reader, "access_lost", True),
        (deactivate, "access_lost", False),
        (archive, "repo_archived", True),
    ],
)
def test_nothing_is_merged_without_the_rights_of_that_moment(
    pull, required, report, set_by, bob, sam, change, reason, is_pinged
):
    set_by(bob, pull).gives()
    report(pull, by=sam)
    change(person=bob, pull=pull)
    work()
    assert reload(pull).status == "open" and pull.auto_merge is None
    event = Event.objects.get(kind=ENDED)
    assert (event.data["reason"], event.actor) == (reason, None)
    assert event.pings.exists() == is_pinged


def test_a_revoked_token_does_not_end_it(api, make, pull, required, report, sam):
    """The token counts when the auto-merge is set; after that, the rights of the person do."""
    token = make.scoped_token(sam, pull.repo, permission="write")
    url = f"{paths.pull(pull)}/auto-merge"
    Api(token).put(url, expected_head_sha=pull.head_sha).gives()
    ApiToken.objects.filter(user=sam).delete()
    report(pull)
    work()
    assert (reload(pull).status, pull.merged_by) == ("merged", sam)


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [("merge", "merge_conflict"), ("fast_forward", "fast_forward_impossible")],
)
def test_a_conflict_with_the_moved_target_ends_it(
    pull, clone, required, set_by, sam, strategy, reason
):
    """Only a push could make the pull mergeable again, and that would end it too."""
    set_by(sam, pull, strategy=strategy).gives()
    work()
    file = {"arch": "closed\n"} if strategy == "merge" else {"gate": "open\n"}
    clone.push_commit("main", file, onto="main")
    work()
    check_end(Event.objects.get(kind=ENDED), reason, actor=None, person=sam)


def test_a_merge_by_hand_ends_it_without_an_event(api, pull, set_by, alice, sam, events):
    set_by(sam, pull).gives()
    with events("branch-pushed", "pull-merged"):
        answer = api(alice).post(f"{paths.pull(pull)}/merge").gives()
    assert answer["pull"]["auto_merge"] is None
    assert not try_next_auto_merge()


@pytest.mark.django_db(transaction=True)
def test_an_auto_merge_that_ends_while_it_is_merged_merges_nothing(
    api, pull, set_by, sam, last_moment
):
    set_by(sam, pull).gives()
    last_moment(lambda: cancel(api, pull))
    assert try_next_auto_merge()
    assert reload(pull).status == "open"
    assert pull.repo.branch_sha("main") == pull.base_sha


def test_a_blocked_pull_is_tried_again_after_a_while(pull, required, set_by, sam):
    """Nothing is forgotten, even if a change was made in a way that wakes nobody."""
    set_by(sam, pull).gives()
    work()
    soon = reload(pull).auto_merge_due_at - timezone.now()
    assert dt.timedelta(0) < soon <= dt.timedelta(seconds=5)
    early = timezone.now() - dt.timedelta(hours=1)
    Pull.objects.update(auto_merge_set_at=early, auto_merge_due_at=early)
    work()
    later = reload(pull).auto_merge_due_at - timezone.now()
    assert dt.timedelta(minutes=9) < later <= dt.timedelta(minutes=10)
    Protection.objects.all().delete()
    Pull.objects.update(auto_merge_due_at=timezone.now())
    work()
    assert reload(pull).status == "merged"


def test_a_worker_that_died_is_replaced_after_a_minute(pull, set_by, sam, monkeypatch):
    class Died(BaseException):
        pass

    def die(**_):
        raise Died

    set_by(sam, pull).gives()
    with monkeypatch.context() as patched:
        patched.setattr("apps.pulls.jobs.merge_pull", die)
        with pytest.raises(Died):
            try_next_auto_merge()
    assert not try_next_auto_merge()
    left = reload(pull).auto_merge_due_at - timezone.now()
    assert dt.timedelta(seconds=50) < left <= dt.timedelta(seconds=60)
    Pull.objects.update(auto_merge_due_at=timezone.now())
    work()
    assert reload(pull).status == "merged"


@pytest.mark.django_db(transaction=True)
def test_a_status_of_two_pulls_and_a_change_of_both_cause_no_deadlock(
    make, pull, clone, set_by, sam
):
    clone.push("main:old")
    second = make.pull(pull.repo, by=sam, target="old")
    for one in (second, pull):  # PostgreSQL reads the row that is written last after the other
        set_by(sam, one).gives()
    early = timezone.now() - dt.timedelta(hours=1)
    Pull.objects.filter(pk=second.pk).update(auto_merge_due_at=early)
    Pull.objects.filter(pk=pull.pk).update(auto_merge_due_at=early + dt.timedelta(minutes=1))
    pulls = [reload(second), reload(pull)]
    waking = Aside(transaction.atomic(lambda: wake(pulls)))
    with transaction.atomic():
        lock(pull)
        waking.begin()
        lock(second)
    waking.join(60)
    assert not waking.is_alive()
    assert all(reload(one).auto_merge_due_at > early + dt.timedelta(minutes=30) for one in pulls)


def test_a_wake_up_during_an_attempt_is_not_lost(pull, required, report, set_by, sam, monkeypatch):
    real = merge_pull

    def refused_then_green(**values):
        try:
            real(**values)
        finally:
            report(pull)

    set_by(sam, pull).gives()
    monkeypatch.setattr(jobs, "merge_pull", refused_then_green)
    assert try_next_auto_merge()
    assert reload(pull).status == "open"
    monkeypatch.undo()
    assert try_next_auto_merge()
    assert reload(pull).status == "merged"


def test_auto_merges_into_one_branch_are_merged_one_after_the_other(
    api, make, pull, second, required, report, set_by, sam, bob
):
    for one, person in ((pull, sam), (second, bob)):
        set_by(person, one).gives()
        report(one)
    work()
    assert (reload(pull).status, reload(second).status) == ("merged", "merged")
    assert second.base_sha == pull.merge_commit_sha
    assert (pull.merged_by, second.merged_by) == (sam, bob)


def test_an_auto_merge_waits_for_its_turn_and_keeps_its_place(
    pull, second, set_by, alice, sam, monkeypatch
):
    until = timezone.now() + dt.timedelta(minutes=1)
    ahead = {"actor": alice, "strategy": "merge", "leased_until": until}
    attempt = MergeAttempt.objects.create(pull=pull, queued_at=timezone.now(), **ahead)
    monkeypatch.setattr(merging, "MERGE_SECONDS", 0)
    set_by(sam, second).gives()
    assert try_next_auto_merge()
    assert reload(second).status == "open"
    soon = second.auto_merge_due_at - timezone.now()
    assert soon <= dt.timedelta(seconds=merging.RETRY_AFTER_MAX)
    assert MergeAttempt.objects.get(pull=second).queued_at is not None
    attempt.delete()
    Pull.objects.filter(pk=second.pk).update(auto_merge_due_at=timezone.now())
    assert try_next_auto_merge()
    assert (reload(second).status, second.merged_by) == ("merged", sam)

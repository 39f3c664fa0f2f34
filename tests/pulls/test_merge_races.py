"""Concurrent merges, pushes and openings of the same pull."""

from __future__ import annotations

from threading import Event

import pytest

from apps.events.models import Event as Recorded
from apps.git.run import run_git
from apps.pulls.actions import create_review, update_review
from apps.pulls.models import MergeAttempt, Pull
from apps.repos.actions import remove_approver
from apps.repos.models import Approver, PushJournal
from tests.principals import access_of
from tests.pulls import paths
from tests.races import codes, together

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def commits(repo):
    """The number of commits of main."""
    return int(run_git(repo.git.path, "rev-list", "--count", "refs/heads/main").word)


def check_settled(repo):
    """No merge is in progress, and the rows agree with git."""
    assert not PushJournal.objects.exists()
    assert not MergeAttempt.objects.exists()
    stored = dict(repo.refs.values_list("full_name", "sha"))
    assert stored == repo.git.refs()


@pytest.mark.parametrize("strategy", ["merge", "squash", "fast_forward"])
def test_of_two_merges_of_a_pull_one_wins_and_one_commit_is_made(
    api, pull, alice, bob, sam, strategy
):
    url, callers = f"{paths.pull(pull)}/merge", [api(alice), api(bob), api(sam)]
    answers = together(
        *(lambda c=caller: c.post(url, merge_strategy=strategy) for caller in callers)
    )
    counts = codes(answers)
    assert counts.pop((200, None)) == 1
    assert set(counts) <= {(409, "merge_in_progress"), (409, "pull_already_merged")}
    assert commits(pull.repo) == (3 if strategy == "merge" else 2)
    assert Recorded.objects.filter(kind="pull-merged").count() == 1
    check_settled(pull.repo)


def test_pulls_into_one_target_are_merged_side_by_side(api, make, clone, alice):
    pulls = []
    for number in range(3):
        clone.push_commit(f"topic-{number}", {f"file-{number}": "x"}, onto="main")
        pulls.append(make.pull(clone.repo, by=alice, source=f"topic-{number}"))
    urls, caller = [f"{paths.pull(pull)}/merge" for pull in pulls], api(alice)
    answers = together(*(lambda u=url: caller.post(u) for url in urls))
    assert codes(answers) == {(200, None): 3}
    assert commits(clone.repo) == 1 + 3 + 3
    assert set(Pull.objects.values_list("status", flat=True)) == {"merged"}
    check_settled(clone.repo)


def test_a_pull_is_opened_once_by_two_together(api, clone, alice, bob):
    clone.push("main:feature")
    body = {"title": "x", "body": "", "source_branch": "feature", "target_branch": "main"}
    url, callers = paths.pulls(clone.repo), [api(alice), api(bob)]
    answers = together(*(lambda c=caller: c.post(url, **body) for caller in callers))
    assert codes(answers) == {(201, None): 1, (409, "pull_already_exists"): 1}
    assert list(clone.repo.pulls.values_list("number", flat=True)) == [1]


def test_a_merge_and_a_push_to_its_target_both_get_there(api, pull, clone, alice, bob):
    """The push names the old value of the ref, and git refuses it if the merge was first."""
    tip = clone.commit("main", {"gate": "1"})
    caller = api(alice)

    def push():
        try:
            clone.push("main", by=bob)
        except AssertionError as refused:
            return str(refused)
        return ""

    merged, refused = together(lambda: caller.post(f"{paths.pull(pull)}/merge"), push)
    merged.gives(200)
    log = run_git(pull.repo.git.path, "rev-list", "refs/heads/main").out.decode().split()
    assert (tip in log) or refused
    check_settled(pull.repo)


def test_a_pull_is_merged_or_closed_but_never_both(api, pull, alice, bob):
    one, two, url = api(alice), api(bob), paths.pull(pull)
    merged, closed = together(
        lambda: one.post(f"{url}/merge"), lambda: two.put(f"{url}/status", status="closed")
    )
    assert sorted([merged.status, closed.status]) == [200, 409]
    status = Pull.objects.get().status
    assert status == ("merged" if merged.status == 200 else "closed")
    assert commits(pull.repo) == (3 if status == "merged" else 1)
    check_settled(pull.repo)


def test_pushes_and_changes_of_their_pull_never_wait_for_each_other(api, pull, clone, alice, bob):
    """All code locks rows before the event lock; otherwise these requests would deadlock."""
    caller, url, pushed = api(alice), paths.pull(pull), Event()
    replies = f"{pull.repo.api_path}/threads/{pull.number}/replies"

    def pushes():
        try:
            for number in range(4):
                clone.push_commit("feature", {"window": str(number)}, by=bob)
        finally:
            pushed.set()

    def until_pushed(change):
        answers = [change(0)]
        while not pushed.is_set():
            answers.append(change(len(answers)))
        return answers

    _, changed, replied = together(
        pushes,
        lambda: until_pushed(lambda number: caller.put(url, title=f"Title {number}")),
        lambda: until_pushed(lambda _: caller.post(replies, kind="comment", body="x")),
    )
    assert set(codes(changed)) == {(200, None)}
    assert set(codes(replied)) == {(201, None)}
    check_settled(pull.repo)


def by_dismissal(pull, review, alice, bob):
    update_review(access=access_of(alice, pull.repo), review=review, status="dismissed")


def by_removal(pull, review, alice, bob):
    approver = Approver.objects.select_related("protection__repo").get(user=bob)
    remove_approver(access=access_of(alice, approver.protection.repo), approver=approver)


def by_another_word(pull, review, alice, bob):
    create_review(access=access_of(bob, pull.repo), pull=pull, status="changes_requested")


@pytest.mark.parametrize("withdrawn", [by_dismissal, by_removal, by_another_word])
def test_a_merge_is_before_the_loss_of_its_approval_or_is_refused(
    api, make, pull, alice, bob, sam, withdrawn
):
    protection = make.protection(pull.repo, by=alice, approver=bob)
    make.approver(protection, sam)
    review = make.review(pull, by=bob)
    caller, url = api(alice), f"{paths.pull(pull)}/merge"
    again = Pull.objects.select_related("repo").get()
    merged, _ = together(lambda: caller.post(url), lambda: withdrawn(again, review, alice, bob))
    kinds = list(Recorded.objects.order_by("id").values_list("kind", flat=True)[6:])
    lost = next(place for place, kind in enumerate(kinds) if kind in LOSSES)
    if merged.status == 200:
        assert kinds.index("pull-merged") < lost
    else:
        merged.fails(409, merged.json["error"])
        assert merged.json["error"] in {"approval_required", "changes_requested"}
        assert "pull-merged" not in kinds
    assert commits(pull.repo) == (3 if merged.status == 200 else 1)
    check_settled(pull.repo)


LOSSES = {"review-dismissed", "approver-removed", "review-created"}


def test_a_merge_is_before_the_protection_of_its_target_or_is_refused(api, pull, alice, sam):
    one, two = api(alice), api(sam)
    merged, protected = together(
        lambda: one.post(f"{paths.pull(pull)}/merge"),
        lambda: two.post(f"{pull.repo.api_path}/protections", branch="main"),
    )
    protected.gives(201)
    newest = list(Recorded.objects.order_by("-id").values_list("kind", flat=True)[:1])
    if merged.status == 200:
        assert newest == ["protection-created"]
    else:
        merged.fails(409, "approval_required")
    check_settled(pull.repo)

"""Comments on lines that protections require to be resolved (docs/protections.md)."""

from __future__ import annotations

import pytest

from apps.pulls.jobs import check_next_conflict, try_next_auto_merge
from apps.pulls.queries import own_pulls
from apps.threads.models import Reply
from tests.principals import principal_of
from tests.pulls import paths
from tests.repos import paths as repo_paths


@pytest.fixture
def protect(api, pull, alice):
    """`protect(True)` requires resolved comments on `main`, and no approval."""

    def send(is_on, branch="main"):
        url, sent = repo_paths.protections(pull.repo), {"resolved_required": is_on}
        return api(alice).post(url, branch=branch, required_approvals=0, **sent).gives(201)

    return send


@pytest.fixture
def comment(api, pull, carol):
    """`comment()` makes carol, a reader, comment on a line; returns the path of the reply."""

    def send():
        place = {"commit_sha": pull.head_sha, "path": "arch", "line": 1}
        made = api(carol).post(f"{paths.pull(pull)}/comments", body="Why?", **place).gives(201)
        return f"{pull.repo.api_path}/threads/{pull.number}/replies/{made['number']}"

    return send


@pytest.fixture
def merge(api, pull, alice):
    return lambda: api(alice).post(f"{paths.pull(pull)}/merge")


@pytest.fixture
def read(api, pull, alice):
    """The answer of `…/protection`."""
    return lambda: api(alice).get(f"{paths.pull(pull)}/protection").gives()


@pytest.mark.parametrize("status", ["resolved", "accepted", "rejected"])
def test_a_merge_waits_until_all_comments_are_resolved(
    api, protect, comment, merge, read, alice, carol, status
):
    made = protect(True)
    assert made["resolved_required"] is True
    assert (read()["comments"], read()["blocked_reasons"]) == ({"total": 0, "unresolved": 0}, [])
    first, second = comment(), comment()
    assert read()["comments"] == {"total": 2, "unresolved": 2}
    assert read()["blocked_reasons"] == ["comments_unresolved"]
    api(alice).patch(first, status=status).gives()
    assert merge().fails(409, "comments_unresolved") == "1 of 2 comments on lines resolved."
    api(carol).patch(second, status=status).gives()
    api(carol).patch(second, status="open").gives()
    merge().fails(409, "comments_unresolved")
    api(carol).delete(second).gives(204)
    assert read()["comments"] == {"total": 1, "unresolved": 0}
    merge().gives()


def test_answers_and_other_replies_do_not_count(
    api, make, protect, comment, merge, read, pull, bob
):
    protect(True)
    path = comment()
    number = Reply.objects.get().number
    make.reply(pull.thread, by=bob)
    url = f"{pull.repo.api_path}/threads/{pull.number}/replies"
    api(bob).post(url, kind="answer", body="So.", parent_reply_number=number).gives(201)
    assert read()["comments"] == {"total": 1, "unresolved": 1}
    api(bob).patch(path, status="resolved").gives()
    merge().gives()


def test_without_the_setting_comments_block_nothing(protect, comment, merge, read):
    assert protect(False)["resolved_required"] is False
    comment()
    assert (read()["comments"], read()["blocked_reasons"]) == ({"total": 1, "unresolved": 1}, [])
    merge().gives()


def test_one_protection_of_several_is_enough(api, protect, comment, merge, pull, alice):
    protect(False)
    made = protect(True, "m*")
    path = comment()
    merge().fails(409, "comments_unresolved")
    url = f"{repo_paths.protections(pull.repo)}/{made['uuid']}"
    assert api(alice).put(url, resolved_required=False).gives()["resolved_required"] is False
    api(alice).put(url, resolved_required="yes").fails(422, "validation_failed")
    merge().gives()
    assert path


def test_it_comes_last_among_the_blockers(api, make, protect, comment, pull, read, alice, bob):
    both = {"required_approvals": 1, "required_statuses": ["ci"]}
    api(alice).post(repo_paths.protections(pull.repo), branch="*", **both).gives(201)
    protect(True)
    comment()
    make.review(pull, by=bob, status="changes_requested")
    codes = ["changes_requested", "approval_required", "statuses_required", "comments_unresolved"]
    assert read()["blocked_reasons"] == codes


def test_an_auto_merge_waits_for_them(
    api, protect, comment, pull, alice, django_capture_on_commit_callbacks
):
    protect(True)
    path = comment()
    api(alice).put(f"{paths.pull(pull)}/auto-merge").gives()
    while check_next_conflict() or try_next_auto_merge():
        pass
    pull.refresh_from_db()
    assert pull.status == "open" and pull.auto_merge is not None
    with django_capture_on_commit_callbacks(execute=True):
        api(alice).patch(path, status="resolved").gives()
    assert try_next_auto_merge()
    pull.refresh_from_db()
    assert pull.status == "merged"


def test_home_says_how_many_are_left(protect, comment, alice):
    assert own_pulls(principal_of(alice), 9)[0].unresolved == 0
    comment()
    assert own_pulls(principal_of(alice), 9)[0].unresolved == 0
    protect(True)
    assert own_pulls(principal_of(alice), 9)[0].unresolved == 1

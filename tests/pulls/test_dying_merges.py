"""A merge with an `Idempotency-Key` fails, or its process dies at each statement in turn. When the
request is sent again, the pull has been merged once, and the response says so.
"""

from __future__ import annotations

from itertools import count

import pytest
from django.db import OperationalError
from django.utils import timezone

from apps.events.models import Event
from apps.idempotency.models import KeyedRequest
from apps.pulls.models import MergeAttempt
from apps.repos.models import PushJournal
from tests.dying import dying_at
from tests.pulls import paths, push_hook
from tests.pulls.test_merge_races import commits

pytestmark = pytest.mark.slow
KEY = "8e03978e-40d5-43dd-bc93-6894a57f9324"


def time_passes():
    """Let all leases expire."""
    KeyedRequest.objects.update(leased_until=timezone.now())
    MergeAttempt.objects.update(leased_until=timezone.now())


def merge_url(pull):
    return f"{paths.pull(pull)}/merge"


@pytest.mark.parametrize("strategy", ["merge", pytest.param("rebase", marks=pytest.mark.once)])
def test_wherever_its_process_dies_it_merges_once(api, make, clone, alice, strategy):
    clone.git("branch", "base", "main")
    for number in count(1):
        head = clone.push_commit(f"feature-{number}", {f"arch-{number}": "open\n"}, onto="base")
        pull = make.pull(clone.repo, by=alice, source=f"feature-{number}")
        before, wanted = commits(clone.repo), {"merge_strategy": strategy}
        with dying_at(number) as death:
            api(alice).post_once(KEY, merge_url(pull), **wanted)
        api(alice).post_once(KEY, merge_url(pull), **wanted)
        time_passes()
        answer = api(alice).post_once(KEY, merge_url(pull), **wanted)
        merged = answer.gives()
        told = (merged["merge_strategy"], merged["head_sha"], merged["merged_by_username"])
        assert told == (strategy, head, "alice"), f"it died at statement {number}"
        gained = 2 if strategy == "merge" else 1
        assert commits(clone.repo) == before + gained, f"it died at statement {number}"
        assert merged["merge_commit_sha"] == clone.repo.git.ref("refs/heads/main")
        assert merged["pull"] == api(alice).get(paths.pull(pull)).gives()
        events = Event.objects.filter(kind="pull-merged", number=pull.number)
        assert events.count() == 1, f"it died at statement {number}"
        again = api(alice).post_once(KEY, merge_url(pull), **wanted)
        assert again.response.content == answer.response.content
        assert not MergeAttempt.objects.exists()
        clone.git("fetch", "--quiet", str(clone.repo.git.path), "+main:refs/heads/base")
        if not death.came:
            break
    assert number > 30


@pytest.fixture
def failing(settings):
    """The rows of the next merge cannot be written after its ref has moved, but by `settle`."""
    settings.AFTER_PUSH = ["apps.pulls.pushes", "tests.pulls.push_hook"]
    push_hook.failing.append(OperationalError("the disk is full"))
    yield
    assert not push_hook.failing


def test_a_merge_that_was_made_although_it_failed_is_found_by_its_key(api, pull, alice, failing):
    api(alice).post_once(KEY, merge_url(pull)).fails(503, "unavailable")
    merged = api(alice).post_once(KEY, merge_url(pull)).gives()
    assert merged["merge_commit_sha"] == pull.repo.git.ref("refs/heads/main")
    assert api(alice).post_once(KEY, merge_url(pull)).gives() == merged
    api(alice).post_once("another", merge_url(pull)).fails(409, "pull_already_merged")


def test_a_merge_by_somebody_else_or_in_another_way_is_not_the_one(api, pull, alice, bob):
    """The repeated request is refused, because another merge came first."""
    url = merge_url(pull)
    squash, rebase = ({"merge_strategy": word} for word in ("squash", "rebase"))
    asked = [(bob, squash), (alice, rebase), (alice, squash)]
    for person, body in asked:
        with dying_at('INSERT INTO "pulls_mergeattempt"'):
            api(person).post_once(str(body), url, **body)
    time_passes()
    api(alice).post(url, **squash).gives()
    api(bob).post_once(str(squash), url, **squash).fails(409, "pull_already_merged")
    api(alice).post_once(str(rebase), url, **rebase).fails(409, "pull_already_merged")
    api(alice).post_once(str(squash), url, **squash).gives()


def test_a_merge_that_another_is_making_is_not_refused_for_good(api, pull, alice, bob):
    with dying_at('UPDATE "pulls_mergeattempt"'):
        api(bob).post(merge_url(pull))
    busy = api(alice).post_once(KEY, merge_url(pull))
    busy.fails(409, "merge_in_progress")
    assert busy.header("Retry-After") == "1"
    time_passes()
    merged = api(alice).post_once(KEY, merge_url(pull)).gives()
    assert merged["merged_by_username"] == "alice"
    assert not PushJournal.objects.exists()


def test_what_stands_in_the_way_is_the_first_answer_until_another_key_asks(api, clone, make, alice):
    pull = make.pull(clone.repo, by=alice, source="later")
    api(alice).post_once(KEY, merge_url(pull)).fails(409, "branch_missing")
    clone.push_commit("later", {"arch": "open\n"}, onto="main")
    api(alice).post_once(KEY, merge_url(pull)).fails(409, "branch_missing")
    api(alice).post_once("another", merge_url(pull)).gives()

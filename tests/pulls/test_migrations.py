"""The migrations of pulls convert existing rows."""

from __future__ import annotations

import pytest

from apps.pulls.models import Pull, Review
from apps.threads.models import Thread
from tests.migrations import as_of


@pytest.mark.django_db(transaction=True)
def test_older_reviews_count_where_it_is_known_that_somebody_else_pushed(
    make, clone, pull, alice, bob, sam
):
    """Reviews of older heads do not count, nor reviews of a head without a known pusher."""
    make.review(pull, by=sam, body="of an older head")
    clone.push_commit("feature", {"gate": "1\n"})
    make.review(pull, by=alice, body="by the pusher")
    make.review(pull, by=bob, body="by another")
    clone.push("feature:topic")
    unknown = make.pull(clone.repo, by=alice, source="topic")
    Pull.objects.filter(pk=unknown.pk).update(head_pushed_by=None)
    make.review(unknown, by=bob, body="by nobody knows whom")
    waiting = make.pull(clone.repo, by=alice, source="later")
    make.review(waiting, by=bob, body="of no commit")
    with as_of("pulls", "0006_source_moved"):
        pass
    counting = Review.objects.filter(by_pusher=False).values_list("body", flat=True)
    assert list(counting.order_by("id")) == ["by another", "of no commit"]


@pytest.mark.django_db(transaction=True)
def test_what_pushes_and_reviews_have_done_to_older_pulls_is_their_activity(
    make, team_repo, alice, bob
):
    resting, pushed, reviewed = (
        make.pull(team_repo, by=alice, source=name) for name in ("resting", "pushed", "reviewed")
    )
    before = resting.thread.last_activity_at
    make.review(reviewed, by=bob)
    newest = make.review(reviewed, by=bob).updated_at
    later = newest.replace(year=newest.year + 1)
    Pull.objects.filter(pk=pushed.pk).update(updated_at=later)
    Thread.objects.exclude(pk=resting.thread_id).update(last_activity_at=before)
    with as_of("pulls", "0010_named_commits"):
        pass
    activity = dict(Thread.objects.values_list("pull", "last_activity_at"))
    assert activity == {resting.pk: before, pushed.pk: later, reviewed.pk: newest}

"""What the migrations of pulls do with rows that are there already."""

from __future__ import annotations

import pytest

from apps.pulls.models import Pull, Review
from tests.migrations import as_of


@pytest.mark.django_db(transaction=True)
def test_older_reviews_count_where_it_is_known_that_somebody_else_pushed(
    make, clone, pull, alice, bob, sam
):
    """Those of the head, by others than who pushed it: not of an older one, or by nobody known."""
    make.review(pull, by=sam, body="of an older head")
    clone.commit("feature", {"gate": "1\n"})
    clone.push("feature")
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

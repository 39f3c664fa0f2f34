"""The cache of git's answers."""

from __future__ import annotations

import pytest
from django.db import connection

from apps.browse import cache
from apps.browse.cache import cached
from apps.browse.models import GitCache
from apps.repos.models import Repo

pytestmark = pytest.mark.django_db


def test_many_short_answers_take_room_as_well(repo, monkeypatch):
    """Every reader can ask any number of questions with empty answers."""
    monkeypatch.setattr(cache, "BYTES_MAX", 10 * cache.ROW_BYTES)
    for number in range(30):
        assert cached(repo, ("commits", number), list) == []
    assert GitCache.objects.count() < 10
    assert cached(repo, ("commits", 29), lambda: "asked again") == []
    assert cached(repo, ("commits", 0), lambda: "asked again") == "asked again"


@pytest.mark.django_db(transaction=True)
def test_who_asked_gets_the_answer_of_a_repository_that_goes_meanwhile(repo):
    def ask():
        repo.refs.all().delete()
        Repo.objects.filter(pk=repo.pk).delete()
        return "answer"

    assert cached(repo, ("commits",), ask) == "answer"
    assert not GitCache.objects.exists()


@pytest.mark.once
@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL keeps answers elsewhere")
def test_the_room_that_is_left_is_counted_without_reading_the_answers(repo):
    rows = GitCache.objects.filter(repo=repo)
    assert "COVERING INDEX" in rows.order_by("used_at").values_list("pk", "bytes").explain()

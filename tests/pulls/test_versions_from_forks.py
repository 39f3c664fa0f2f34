"""Versions of pulls whose source is in a fork."""

from __future__ import annotations

import pytest

from tests.prepared_data import given
from tests.pulls import forks

upstream = given("upstream")


@pytest.fixture
def builds():
    return forks.BUILDS


def versions(api, address, by):
    return api(by).get(f"{address}/versions").gives()["results"]


def test_a_push_to_the_fork_is_a_version(api, clone, pull, alice):
    made, address = pull
    head = clone.push_commit("topic", {"arch": "wide\n"}, onto="main")
    first, second = versions(api, address, alice)
    assert (first["head_sha"], second["head_sha"]) == (made["head_sha"], head)
    assert (second["is_forced"], second["pushed_by_username"]) == (True, "carol")
    assert second["commit_count"] == second["changed_files"] == 1


def test_what_nobody_may_move_is_no_version(api, upstream, clone, pull, alice):
    _, address = pull
    body = {"name": "Api", "slug": "api", "visibility": "private"}
    api(alice).put(upstream.api_path, **body).gives()
    clone.push_commit("topic", {"trap": "set\n"})
    assert len(versions(api, address, alice)) == 1


def test_versions_outlive_a_fork_that_becomes_private_and_goes(api, clone, pull, alice, carol):
    """The pull's readers could always read them, and still can."""
    _, address = pull
    before = api(alice).get(f"{address}/files?patch=true").gives()["results"]
    assert before[0]["patch"]
    fork = {"name": "Api", "slug": clone.repo.slug, "visibility": "private"}
    api(carol).put(clone.repo.api_path, **fork).gives()
    assert api(alice).get(f"{address}/files?patch=true").gives()["results"] == before
    clone.repo.delete()
    assert api(alice).get(f"{address}/files?patch=true").gives()["results"] == before
    assert len(versions(api, address, alice)) == 1

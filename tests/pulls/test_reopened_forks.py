"""Commits of a fork enter the upstream if their pusher may write to the fork, or if they are no
secret.
"""

from __future__ import annotations

import pytest

from apps.pulls.models import Pull
from apps.repos.models import Repo
from apps.repos.pushes import reconcile
from tests.factories import MemberFactory, TeamFactory
from tests.prepared_data import given
from tests.pulls import forks

upstream = given("upstream")


@pytest.fixture
def builds():
    return forks.BUILDS


def hide(api, carol, fork):
    body = {"name": "Api", "slug": "api", "visibility": "private"}
    api(carol).put(fork.api_path, **body).gives()


def set_status(api, person, address, *statuses):
    for status in statuses:
        api(person).put(f"{address}/status", status=status).gives()


def shown(api, person, address):
    pull = api(person).get(address).gives()
    return pull["head_sha"], pull["source_moved"]


def test_who_may_not_read_a_private_fork_does_not_show_it_by_reopening_a_pull(
    api, upstream, clone, pull, alice, carol
):
    made, address = pull
    set_status(api, alice, address, "closed")
    hide(api, carol, clone.repo)
    secret = clone.push_commit("topic", {"secret": "1\n"})
    set_status(api, alice, address, "open")
    assert shown(api, alice, address) == (made["head_sha"], True)
    assert not upstream.git.has_commit(secret)
    assert secret not in upstream.git.refs(pulls=True).values()
    assert api(alice).post(f"{address}/merge").gives()["head_sha"] == made["head_sha"]


def test_who_may_only_read_a_private_fork_does_not_show_it_either(
    api, upstream, clone, pull, alice, bob, carol
):
    guild = TeamFactory.create(slug="guild", owner=carol)
    Repo.objects.filter(pk=clone.repo.pk).update(owner_team=guild, owner_user=None)
    MemberFactory.create(team=guild, user=bob, viewer=True)
    fork = Repo.objects.get(pk=clone.repo.pk)
    made, address = pull
    set_status(api, bob, address, "closed")
    hide(api, carol, fork)
    secret = clone.push_commit("topic", {"secret": "1\n"})
    assert api(bob).get(fork.api_path).gives()["visibility"] == "private"
    set_status(api, bob, address, "open")
    assert shown(api, bob, address) == (made["head_sha"], True)
    assert not upstream.git.has_commit(secret)


def test_who_may_write_to_a_private_fork_shows_it_by_reopening_the_pull(
    api, upstream, clone, pull, alice, carol
):
    _, address = pull
    hide(api, carol, clone.repo)
    set_status(api, alice, address, "closed")
    tip = clone.push_commit("topic", {"arch": "wide\n"})
    set_status(api, alice, address, "open")
    assert shown(api, alice, address)[1] is True
    set_status(api, carol, address, "closed", "open")
    assert shown(api, alice, address) == (tip, False)
    assert Pull.objects.get().head_pushed_by == carol


def test_a_push_to_a_fork_that_has_become_private_is_shown_by_who_pushes(
    api, upstream, clone, pull, alice, carol, events
):
    """carol owns the fork and the pull, and publishes her commits by the push."""
    made, address = pull
    hide(api, carol, clone.repo)
    with events("branch-pushed", "pull-pushed") as recorded:
        tip = clone.push_commit("topic", {"arch": "wide\n"})
    assert (recorded[1].data["before"], recorded[1].data["after"]) == (made["head_sha"], tip)
    assert shown(api, alice, address) == (tip, False)
    assert upstream.git.has_commit(tip)


def test_a_move_of_a_private_fork_by_nobody_known_shows_nothing(
    api, upstream, clone, pull, alice, carol
):
    """It updates the pull if everybody can read the fork, whose commits are then no secret."""
    _, address = pull
    tip = clone.commit("topic", {"arch": "wide\n"})
    move_unseen(clone, tip)
    assert shown(api, alice, address) == (tip, False)
    hide(api, carol, clone.repo)
    secret = clone.commit("topic", {"secret": "1\n"})
    move_unseen(clone, secret)
    assert shown(api, alice, address) == (tip, True)
    assert not upstream.git.has_commit(secret)


def move_unseen(clone, tip):
    """git has moved the branch, and the journal names no person."""
    clone.server("update-ref", "refs/heads/topic", tip)
    reconcile(repo=Repo.objects.get(pk=clone.repo.pk))


def test_anybody_who_may_reopens_a_pull_of_a_fork_that_all_may_read(
    api, upstream, clone, pull, alice
):
    _, address = pull
    set_status(api, alice, address, "closed")
    tip = clone.push_commit("topic", {"arch": "wide\n"})
    set_status(api, alice, address, "open")
    assert shown(api, alice, address) == (tip, False)


@pytest.mark.parametrize(("upstream_is", "takes"), [("internal", True), ("public", False)])
def test_a_fork_is_no_secret_while_all_readers_of_the_upstream_may_read_it(
    api, upstream, clone, pull, alice, upstream_is, takes
):
    Repo.objects.filter(pk=upstream.pk).update(visibility=upstream_is)
    Repo.objects.filter(pk=clone.repo.pk).update(visibility="internal")
    made, address = pull
    set_status(api, alice, address, "closed")
    tip = clone.push_commit("topic", {"arch": "wide\n"})
    set_status(api, alice, address, "open")
    assert shown(api, alice, address) == ((tip, False) if takes else (made["head_sha"], True))

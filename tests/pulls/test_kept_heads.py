"""A pull keeps its head if somebody who may not read the target pushes to its fork, and a merge
merges this head.
"""

from __future__ import annotations

import pytest

from apps.pulls.models import Pull
from tests.factories import MemberFactory
from tests.gitclient import Clone
from tests.prepared_data import given
from tests.pulls import forks, push_hook

upstream = given("upstream")


@pytest.fixture
def builds():
    return forks.BUILDS


def close(api, upstream, alice):
    """Make the upstream private: carol, who has a pull, can no longer read it."""
    body = {"name": "Api", "slug": "api", "visibility": "private"}
    api(alice).put(upstream.api_path, **body).gives()


def shown(api, person, address):
    """The head and `source_moved`, the same in the pull, the list and the protection record."""
    pull = api(person).get(address).gives()
    [listed] = api(person).get(address.rpartition("/")[0]).gives()["results"]
    said = api(person).get(f"{address}/protection").gives()
    assert listed == pull
    assert [said[name] for name in ("head_sha", "source_moved")] == [
        pull[name] for name in ("head_sha", "source_moved")
    ]
    return pull["head_sha"], pull["source_moved"]


def test_a_push_by_who_may_not_read_the_upstream_leaves_the_pull_as_it_is(
    api, upstream, clone, pull, alice, events
):
    made, address = pull
    assert made["source_moved"] is False
    close(api, upstream, alice)
    before = api(alice).get(address).gives()
    with events("branch-pushed") as recorded:
        unseen = clone.push_commit("topic", {"trap": "set\n"})
    assert recorded[0].repo_id == clone.repo.pk
    assert api(alice).get(address).gives() == before | {"source_moved": True}
    assert shown(api, alice, address) == (made["head_sha"], True)
    assert not upstream.git.has_commit(unseen)
    assert unseen not in upstream.git.refs().values()


@pytest.mark.parametrize("strategy", ["merge", "squash", "rebase", "fast_forward"])
def test_what_is_merged_is_the_head_that_the_pull_shows(
    api, upstream, clone, pull, alice, events, strategy
):
    made, address = pull
    close(api, upstream, alice)
    unseen = clone.push_commit("topic", {"trap": "set\n"})
    seen = f"?expected_head_sha={made['head_sha']}"
    with events("branch-pushed", "pull-merged"):
        merged = api(alice).post(f"{address}/merge{seen}", merge_strategy=strategy).gives()
    assert merged["head_sha"] == merged["pull"]["head_sha"] == made["head_sha"]
    assert not upstream.git.has_commit(unseen)


def test_the_branch_of_a_pull_whose_source_has_moved_may_be_deleted(
    api, upstream, clone, pull, alice
):
    """Otherwise a stranger could prevent the merge by deleting the branch."""
    made, address = pull
    close(api, upstream, alice)
    clone.push(":topic")
    assert shown(api, alice, address) == (made["head_sha"], True)
    assert api(alice).post(f"{address}/merge").gives()["head_sha"] == made["head_sha"]


def test_who_pushes_the_head_that_the_pull_shows_has_moved_nothing(
    api, upstream, clone, pull, alice
):
    made, address = pull
    close(api, upstream, alice)
    clone.push_commit("topic", {"trap": "set\n"})
    clone.git("checkout", "--quiet", "-B", "topic", made["head_sha"])
    clone.push("topic")
    assert shown(api, alice, address) == (made["head_sha"], False)


def test_the_next_push_by_who_may_read_the_upstream_moves_the_head_to_the_tip(
    api, upstream, clone, pull, alice, acme, carol, events
):
    made, address = pull
    close(api, upstream, alice)
    clone.push_commit("topic", {"trap": "set\n"})
    MemberFactory.create(team=acme, user=carol, viewer=True)
    assert shown(api, alice, address) == (made["head_sha"], True)
    with events("branch-pushed", "pull-pushed") as recorded:
        tip = clone.push_commit("topic", {"trap": "gone\n"})
    assert (recorded[1].data["before"], recorded[1].data["after"]) == (made["head_sha"], tip)
    assert shown(api, alice, address) == (tip, False)
    assert upstream.git.has_commit(tip)


def test_a_reopened_pull_has_the_tip_once_who_pushed_it_may_read_the_upstream_again(
    api, upstream, clone, pull, alice, acme, carol
):
    made, address = pull
    close(api, upstream, alice)
    tip = clone.commit("topic", {"trap": "set\n"})

    def reopen(by=alice):
        for status in ("closed", "open"):
            api(by).put(f"{address}/status", status=status).gives()

    clone.push("topic")
    reopen()
    assert shown(api, alice, address) == (made["head_sha"], True)
    assert not upstream.git.has_commit(tip)
    MemberFactory.create(team=acme, user=carol, viewer=True)
    reopen(by=carol)
    assert shown(api, alice, address) == (tip, False)
    assert Pull.objects.get().head_pushed_by == carol


def test_a_pull_that_was_closed_meanwhile_keeps_its_head_when_it_is_reopened(
    api, upstream, clone, pull, alice
):
    made, address = pull
    close(api, upstream, alice)
    api(alice).put(f"{address}/status", status="closed").gives()
    clone.push_commit("topic", {"trap": "set\n"})
    api(alice).put(f"{address}/status", status="open").gives()
    assert shown(api, alice, address) == (made["head_sha"], True)


def test_a_branch_that_a_stranger_makes_does_not_become_the_head_of_a_pull_that_waits_for_it(
    api, upstream, clone, alice, carol
):
    _, address = forks.opened(api, upstream, carol, "carol:later")
    close(api, upstream, alice)
    clone.push_commit("later", {"trap": "set\n"}, onto="main")
    assert shown(api, alice, address) == (None, True)
    api(alice).post(f"{address}/merge").fails(409, "branch_missing")


@pytest.mark.django_db(transaction=True)
def test_a_push_that_waits_while_the_upstream_is_closed_moves_nothing(
    api, upstream, clone, pull, alice, settings
):
    """`apply` checks again, under the lock of the upstream, who may read it."""
    made, address = pull
    clone.commit("topic", {"trap": "set\n"})
    settings.AFTER_PUSH = [*settings.AFTER_PUSH, "tests.pulls.push_hook"]
    push_hook.preparing.append(lambda: close(api, upstream, alice))
    clone.push("topic")
    assert shown(api, alice, address) == (made["head_sha"], True)


def test_a_push_here_whose_rows_are_not_written_yet_is_not_merged(
    api, upstream, alice, tmp_path, clone
):
    """git has moved the branch but the rows are not written yet: the pull's head is merged."""
    own = Clone(tmp_path / "own", upstream, alice)
    own.git("fetch", "--quiet", str(upstream.git.path), "main:refs/seen/base")
    head = own.push_commit("feature", {"a": "1\n"}, onto="refs/seen/base")
    made, address = forks.opened(api, upstream, alice, "feature")
    later = own.commit("feature", {"a": "2\n"})
    own.git("push", "--quiet", str(upstream.git.path), "feature")
    assert upstream.git.ref("refs/heads/feature") == later
    merged = api(alice).post(f"{address}/merge").gives()
    assert merged["head_sha"] == made["head_sha"] == head
    assert not upstream.git.is_ancestor(later, merged["merge_commit_sha"])

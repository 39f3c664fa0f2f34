"""A pull keeps its head if somebody who may not read the target pushes to its fork, and a merge
merges this head. Commits of a fork enter the upstream if their pusher may write to the fork, or if
they are no secret.
"""

from __future__ import annotations

import pytest

from apps.pulls.models import Pull
from apps.repos.models import Repo
from apps.repos.pushes import reconcile
from tests.factories import MemberFactory, TeamFactory
from tests.gitclient import Clone
from tests.pulls import forks, push_hook

pytestmark = pytest.mark.usefixtures("upstream")


def close(api, repo, owner):
    """Make a repository private. If it is the upstream, carol, who has a pull, cannot read it."""
    body = {"name": "Api", "slug": "api", "visibility": "private"}
    api(owner).put(repo.api_path, **body).gives()


def set_status(api, person, address, *statuses):
    for status in statuses:
        api(person).put(f"{address}/status", status=status).gives()


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

    clone.push("topic")
    set_status(api, alice, address, "closed", "open")
    assert shown(api, alice, address) == (made["head_sha"], True)
    assert not upstream.git.has_commit(tip)
    MemberFactory.create(team=acme, user=carol, viewer=True)
    set_status(api, carol, address, "closed", "open")
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


# Forks that are private, or of which a pull is reopened


def test_who_may_not_read_a_private_fork_does_not_show_it_by_reopening_a_pull(
    api, upstream, clone, pull, alice, carol
):
    made, address = pull
    set_status(api, alice, address, "closed")
    close(api, clone.repo, carol)
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
    close(api, fork, carol)
    secret = clone.push_commit("topic", {"secret": "1\n"})
    assert api(bob).get(fork.api_path).gives()["visibility"] == "private"
    set_status(api, bob, address, "open")
    assert shown(api, bob, address) == (made["head_sha"], True)
    assert not upstream.git.has_commit(secret)


def test_who_may_write_to_a_private_fork_shows_it_by_reopening_the_pull(
    api, upstream, clone, pull, alice, carol
):
    _, address = pull
    close(api, clone.repo, carol)
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
    close(api, clone.repo, carol)
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
    close(api, clone.repo, carol)
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


# Versions


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
    close(api, upstream, alice)
    clone.push_commit("topic", {"trap": "set\n"})
    assert len(versions(api, address, alice)) == 1


def test_versions_outlive_a_fork_that_becomes_private_and_goes(api, clone, pull, alice, carol):
    """The pull's readers could always read them, and still can."""
    _, address = pull
    before = api(alice).get(f"{address}/files?patch=true").gives()["results"]
    assert before[0]["patch"]
    close(api, clone.repo, carol)
    assert api(alice).get(f"{address}/files?patch=true").gives()["results"] == before
    clone.repo.delete()
    assert api(alice).get(f"{address}/files?patch=true").gives()["results"] == before
    assert len(versions(api, address, alice)) == 1

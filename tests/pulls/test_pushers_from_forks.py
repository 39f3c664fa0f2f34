"""The pusher of a commit that came to a repository from another one."""

from __future__ import annotations

import pytest

from apps.browse.pushers import pushers_of, read_all_pushes, read_pushes
from apps.git.merge import Strategy
from apps.pulls.actions import merge_pull
from apps.pulls.models import Pull
from apps.repos import jobs
from apps.repos.actions import create_fork
from apps.repos.models import CommitPush, Fork, Ref, Repo
from tests.gitclient import Clone
from tests.principals import access_of, space_access_of
from tests.pulls.forks import opened

pytestmark = pytest.mark.usefixtures("upstream")


def pushers(repo, *shas):
    pushers = pushers_of(Repo.objects.get(pk=repo.pk), shas)
    return [pushers[sha].username if sha in pushers else None for sha in shas]


def merged(upstream, alice, strategy=Strategy.MERGE):
    pull = Pull.objects.get(repo=upstream)
    merge_pull(access=access_of(alice, upstream), pull=pull, merge_strategy=strategy)
    return upstream.branch_sha("main")


def test_a_fork_has_the_pushers_of_its_upstream(upstream, fork, bob):
    begin = upstream.branch_sha("main")
    read_all_pushes()
    assert pushers(fork, begin) == ["alice"]
    assert not CommitPush.objects.filter(repo=fork)
    create_fork(access=access_of(bob, fork), into=space_access_of(bob, bob))
    jobs.make_next_fork()
    again = Fork.objects.latest("id").repo
    read_all_pushes()
    assert pushers(again, begin) == ["alice"]


def test_a_push_of_upstreams_commits_to_a_fork_takes_none_of_them(upstream, clone, carol, alice):
    """Nobody who has a fork can put their name to the history of its upstream."""
    begin = upstream.branch_sha("main")
    head = clone.head("topic")
    read_all_pushes()
    CommitPush.objects.filter(sha=begin).delete()  # as if nobody had been known
    fork = clone.repo
    clone.push(":topic", ":main")
    read_all_pushes()
    clone.push("main:old", "topic")
    read_all_pushes()
    assert pushers(fork, begin, head) == [None, "carol"]


def test_a_merged_pull_keeps_who_pushed_its_commits_to_the_fork(api, upstream, clone, carol, alice):
    opened(api, upstream, carol)
    head = clone.head("topic")
    read_all_pushes()
    assert pushers(upstream, head) == ["carol"]
    merge = merged(upstream, alice)
    read_all_pushes()
    assert pushers(upstream, head, merge) == ["carol", "alice"]
    assert CommitPush.objects.get(repo=upstream, sha=head).pushed_by == carol
    Pull.objects.update(source_repo=None)  # as when the fork is deleted
    assert pushers(upstream, head) == ["carol"]


def test_a_fork_is_read_before_the_repository_that_its_commits_were_merged_into(
    api, upstream, clone, carol, alice
):
    opened(api, upstream, carol)
    merged(upstream, alice)
    read_all_pushes()
    head = clone.head("topic")
    assert CommitPush.objects.get(repo=upstream, sha=head).pushed_by == carol


def test_the_earliest_push_counts_also_where_it_is_read_last(api, upstream, clone, carol, alice):
    opened(api, upstream, carol)
    merged(upstream, alice)
    read_pushes(Repo.objects.get(pk=upstream.pk))
    head = clone.head("topic")
    assert pushers(upstream, head) == ["alice"]
    read_all_pushes()
    assert pushers(upstream, head) == ["carol"]


def test_other_repositories_tell_nothing(api, upstream, clone, carol, bob, make, tmp_path):
    head = clone.head("topic")
    read_all_pushes()
    assert pushers(upstream, head) == [None]  # no pull comes from the fork
    other = make.repo(bob, "copy", by=bob)
    apart = Clone(tmp_path / "copy", other, bob)
    apart.git("fetch", "--quiet", str(clone.repo.git.path), "topic:topic")
    apart.push("topic")
    read_all_pushes()
    assert (pushers(other, head), pushers(clone.repo, head)) == (["bob"], ["carol"])
    opened(api, upstream, carol)
    assert (pushers(other, head), pushers(upstream, head)) == (["bob"], ["carol"])


def test_a_squashed_pull_is_its_authors_and_pushed_by_who_merged_it(
    api, upstream, clone, carol, alice
):
    opened(api, upstream, carol)
    squashed = merged(upstream, alice, Strategy.SQUASH)
    listed = api(carol).get(f"{upstream.api_path}/commits").gives()["results"]
    assert listed[0]["author"]["name"] == "carol"
    assert listed[0]["pushed_by_username"] == "alice"
    read_all_pushes()
    assert pushers(upstream, squashed) == ["alice"]
    [only] = api(alice).get(f"{upstream.api_path}/pulls/1/commits").gives()["results"]
    assert only["pushed_by_username"] == "carol"
    assert Ref.objects.get(repo=upstream).pushed_by == alice

"""Forks are at most as visible as their upstream, also when it is hidden later."""

from __future__ import annotations

from threading import Thread

import pytest
from django.db import connection, transaction

from apps.repos import actions, jobs
from apps.repos.actions import create_fork
from apps.repos.models import Repo
from tests.factories import ForkFactory, TeamFactory
from tests.gitclient import Clone
from tests.principals import access_of, space_access_of
from tests.pulls import push_hook
from tests.races import Aside, Outcome, at_once
from tests.server import PATIENCE


def show(caller, repo, visibility):
    """Change the visibility of a repository."""
    return caller.put(repo.api_path, name="Api", slug=repo.slug, visibility=visibility)


def a_fork(upstream, owner, visibility="public"):
    """The rows of a fork, without a copy on disk."""
    uuid = ForkFactory.create(upstream=upstream, owner=owner).repo_uuid
    repo = Repo.objects.get(fork__repo_uuid=uuid)
    repo.visibility = visibility
    repo.save(update_fields=["visibility"])
    return repo


def visibilities(*repos):
    return [Repo.objects.get(pk=repo.pk).visibility for repo in repos]


@pytest.fixture
def tree(make, alice, bob, carol):
    """alice's public repository, carol's fork of it, bob's fork of that fork, and a private fork in
    carol's team.
    """
    upstream = make.repo(alice, "api", by=alice, visibility="public")
    fork = a_fork(upstream, carol)
    deeper = a_fork(fork, bob)
    hidden = a_fork(upstream, TeamFactory.create(owner=carol), "private")
    return upstream, fork, deeper, hidden


def test_forks_are_hidden_with_their_upstream_down_the_whole_tree(api, tree, alice, bob, events):
    upstream, fork, deeper, _ = tree
    api().get(deeper.api_path).fails(401, "not_authenticated")
    with events(*["repo-updated"] * 3) as recorded:
        show(api(alice), upstream, "internal").gives()
    assert visibilities(*tree) == ["internal", "internal", "internal", "private"]
    assert {event.repo_id for event in recorded} == {upstream.pk, fork.pk, deeper.pk}
    assert {event.actor for event in recorded} == {alice}
    before, after = {"visibility": "public"}, {"visibility": "internal"}
    data = {"changed": ["visibility"], "before": before, "after": after}
    assert [event.data for event in recorded] == [data] * 3
    with events(*["repo-updated"] * 3):
        show(api(alice), upstream, "private").gives()
    assert visibilities(*tree) == ["private"] * 4
    api(bob).get(fork.api_path).fails(403, "forbidden")


def test_a_fork_that_is_hidden_hides_those_below_it_only(api, tree, carol, events):
    with events(*["repo-updated"] * 2):
        show(api(carol), tree[1], "private").gives()
    assert visibilities(*tree) == ["public", "private", "private", "private"]


def test_forks_stay_as_they_are_when_their_upstream_is_shown_to_more(api, tree, alice, events):
    show(api(alice), tree[0], "private").gives()
    with events("repo-updated"):
        show(api(alice), tree[0], "public").gives()
    assert visibilities(*tree) == ["public", "private", "private", "private"]


def test_archived_forks_are_hidden_too(api, tree, alice):
    Repo.objects.filter(pk=tree[1].pk).update(is_archived=True)
    show(api(alice), tree[0], "private").gives()
    assert visibilities(*tree) == ["private"] * 4


def test_a_hidden_fork_may_be_shown_again_when_its_upstream_is(api, tree, alice, carol):
    show(api(alice), tree[0], "private").gives()
    show(api(carol), tree[1], "public").fails(422, "validation_failed")
    show(api(alice), tree[0], "public").gives()
    show(api(carol), tree[1], "public").gives()


def test_all_are_hidden_or_none(api, tree, alice, monkeypatch, events):
    """A process that dies in between changes nothing."""
    seen = []

    def dies(*args, **kwargs):
        seen.append(kwargs["about"])
        if len(seen) == 3:
            raise SystemExit

    monkeypatch.setattr(actions, "record", dies)
    with pytest.raises(SystemExit), events():
        actions.update_repo(
            access=access_of(alice, tree[0]), name="Api", slug="api", visibility="private"
        )
    assert visibilities(*tree) == ["public", "public", "public", "private"]


def with_waiting_fork(make, alice, carol):
    upstream = make.repo(alice, "api", by=alice, visibility="public")
    create_fork(access=access_of(carol, upstream), into=space_access_of(carol, carol))
    return upstream


@pytest.mark.django_db(transaction=True)
def test_a_fork_that_is_made_at_the_same_time_is_as_hidden_or_is_not_made(api, make, alice, carol):
    upstream, caller = with_waiting_fork(make, alice, carol), api(alice)
    at_once(lambda: Outcome(jobs.make_next_fork), lambda: show(caller, upstream, "private"))
    assert {repo.visibility for repo in Repo.objects.all()} == {"private"}


@pytest.mark.django_db(transaction=True)
def test_a_fork_that_is_made_after_the_look_for_forks_is_hidden_too(
    make, alice, carol, monkeypatch
):
    """The repository's lock is released, so that the forks are locked first."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    upstream = with_waiting_fork(make, alice, carol)
    a_fork(upstream, TeamFactory.create(owner=carol))
    give_back, made = transaction.savepoint_rollback, []

    def make_fork():
        made.append(jobs.make_next_fork())
        connection.close()

    def and_then(point):
        give_back(point)
        worker = Thread(target=make_fork)
        worker.start()
        worker.join(timeout=60)

    monkeypatch.setattr(transaction, "savepoint_rollback", and_then)
    actions.update_repo(
        access=access_of(alice, upstream), name="Api", slug="api", visibility="private"
    )
    assert made == [True, False]
    assert [repo.visibility for repo in Repo.objects.all()] == ["private"] * 3


@pytest.mark.django_db(transaction=True)
def test_of_a_fork_that_is_shown_while_its_upstream_is_hidden_nothing_is_left_to_see(
    api, make, alice, carol
):
    upstream = make.repo(alice, "api", by=alice, visibility="public")
    fork = a_fork(upstream, carol, "private")
    first, second = api(alice), api(carol)
    answers = at_once(
        lambda: show(first, upstream, "private"), lambda: show(second, fork, "public")
    )
    assert answers[200, None] + answers[422, "validation_failed"] == 2
    assert visibilities(upstream, fork) == ["private", "private"]


@pytest.mark.django_db(transaction=True)
def test_a_fork_is_pushed_to_while_its_upstream_is_hidden(
    api, make, alice, carol, tmp_path, settings
):
    """Both lock the fork before the upstream, so that there is no deadlock."""
    upstream = with_waiting_fork(make, alice, carol)
    clone = Clone(tmp_path / "upstream", upstream, alice)
    clone.commit("main", {"README": "one\n"})
    clone.push("main")
    jobs.make_next_fork()
    clone.repo, clone.by = Repo.objects.get(upstream=upstream), carol
    clone.commit("topic", {"a": "1\n"}, onto="main")
    clone.push("topic")
    body = {"title": "t", "body": "", "source_branch": "carol:topic", "target_branch": "main"}
    pull = api(carol).post(f"{upstream.api_path}/pulls", **body).gives(201)
    head, caller = clone.commit("topic", {"a": "2\n"}), api(alice)
    hiding = Aside(lambda: show(caller, upstream, "private").gives())
    settings.AFTER_PUSH = ["tests.pulls.push_hook", *settings.AFTER_PUSH]
    push_hook.applying.append(hiding.begin)  # the push holds the fork's lock now
    clone.push("topic")
    hiding.join(timeout=PATIENCE)
    assert visibilities(upstream, clone.repo) == ["private", "private"]
    now = api(alice).get(f"{upstream.api_path}/pulls/{pull['number']}").gives()
    assert (now["head_sha"], now["source_moved"]) == (head, False)

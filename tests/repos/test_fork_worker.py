"""The worker that makes forks: failures, and leftovers of a dead worker."""

from __future__ import annotations

import shutil
import uuid
from threading import Event, Thread

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.core.errors import ApiError
from apps.git.repo import GitRepo
from apps.jobs import worker
from apps.jobs.leases import LEASE
from apps.repos import actions, jobs
from apps.repos.models import Fork, Repo
from apps.repos.pushes import open_journal
from apps.teams.models import Member, Role, Team
from tests import prepared_data
from tests.gitclient import Clone
from tests.prepared_data import given, with_people
from tests.principals import access_of, space_access_of
from tests.server import PATIENCE


def with_fork(make, folder):
    """A queued fork of alice's repository, requested by carol."""
    things = with_people(make, folder)
    alice = things["alice"]
    upstream = make.repo(alice, "api", by=alice, visibility="public")
    clone = Clone(folder / "upstream", upstream, alice)
    clone.commit("main", {"README": "one\n"})
    clone.push("main")
    fork = actions.create_fork(
        access=access_of(things["carol"], upstream),
        into=space_access_of(things["carol"], things["carol"]),
    )
    return things | {"fork": fork}


@pytest.fixture
def builds():
    return {"fork": with_fork}


things, fork = prepared_data.things, given("fork")
alice, bob, carol, acme = (given(name) for name in ("alice", "bob", "carol", "acme"))


def take(fork: Fork) -> uuid.UUID:
    """Take the lease like a worker."""
    token = fork.take(status="running", started_at=timezone.now())
    assert token is not None
    return token


def copy_of(fork: Fork, token: uuid.UUID) -> GitRepo:
    """The finished copy of a worker with this token."""
    copied = Repo(uuid=fork.repo_uuid).git.unfinished(token.hex)
    copied.create_as_copy(fork.upstream.git)
    return copied


def expire(fork: Fork) -> None:
    Fork.objects.filter(pk=fork.pk).update(lease_until=timezone.now() - LEASE)


def folders(fork: Fork) -> list[str]:
    """The names of the copy's folder and of its unfinished copies."""
    final = Repo(uuid=fork.repo_uuid).git.path
    return sorted(path.name for path in final.parent.glob(f"{final.name}*"))


def test_two_workers_never_make_the_same_fork(fork):
    other = Fork.objects.get()
    take(fork)
    assert other.take(status="running") is None
    assert jobs.make_next_fork() is False


def test_a_worker_that_read_the_fork_before_another_made_it_makes_no_second_one(fork):
    """Then no lease is held, as when the fork was read."""
    slow = Fork.objects.get()
    jobs.make_next_fork()
    assert slow.take(status="running") is None
    assert Fork.objects.get().status == "completed"


def test_a_dead_workers_fork_is_taken_over(fork, events):
    take(fork)
    dead = Repo(uuid=fork.repo_uuid).git.unfinished("dead")
    dead.create_as_copy(fork.upstream.git)
    assert jobs.make_next_fork() is False
    expire(fork)
    with events("fork-created"):
        assert jobs.make_next_fork() is True
    fork.refresh_from_db()
    assert (fork.status, fork.attempts) == ("completed", 2)
    assert not dead.exists()
    assert folders(fork) == [f"{fork.repo_uuid}.git"]


def test_a_copy_whose_rows_were_lost_is_made_anew(fork, alice, tmp_path):
    """The worker died after it had renamed the copy and before the commit."""
    copied = copy_of(fork, take(fork))
    copied.path.rename(Repo(uuid=fork.repo_uuid).git.path)
    expire(fork)
    clone = Clone(tmp_path / "more", fork.upstream, alice)
    clone.commit("later", {"a": "b\n"})
    clone.push("later")
    jobs.make_next_fork()
    made = Repo.objects.get(fork=fork)
    assert made.git.refs() == fork.upstream.git.refs()
    assert dict(made.refs.values_list("full_name", "sha")) == made.git.refs()


def test_a_worker_that_was_thought_dead_changes_nothing(fork, carol, events):
    late = Fork.objects.get()
    token = take(late)
    copied = copy_of(late, token)
    expire(late)
    jobs.make_next_fork()
    with events():
        done = actions.complete_fork(actor=carol, fork=late, token=token, copied=copied)
        actions.fail_fork(actor=carol, fork=late, token=token, reason="late")
    assert done is False
    assert Fork.objects.get().status == "completed"
    assert not late.extend(token)


def test_a_worker_that_lost_its_locks_cannot_replace_what_another_has_finished(fork):
    """Its connection broke after it had checked its lease."""
    late = Fork.objects.get()
    copied = Repo(uuid=late.repo_uuid).git.unfinished(take(late).hex)
    expire(late)
    jobs.make_next_fork()
    made = Repo.objects.get(fork=fork).git
    (made.path / "pushed-since").touch()
    copied.create_as_copy(late.upstream.git)
    copied.path.rename(Repo(uuid=late.repo_uuid).git.path)
    assert (made.path / "pushed-since").exists()


@pytest.mark.django_db(transaction=True)
def test_a_journal_that_cannot_be_settled_holds_up_no_fork(fork, alice):
    open_journal(actor=alice, repo=fork.upstream, moves=[("refs/heads/x", "no sha", "1" * 40)])
    stop, done = Event(), Event()
    thread = Thread(target=worker.run, args=[stop], kwargs={"on_done": lambda _: done.set()})
    thread.start()
    try:
        assert done.wait(PATIENCE)
    finally:
        stop.set()
        thread.join()
    fork.refresh_from_db()
    assert fork.status == "completed"


def test_after_three_attempts_a_fork_fails_with_a_reason_for_people(api, fork, carol, events):
    for _ in range(3):
        take(fork)
        expire(fork)
        fork.refresh_from_db()
    with events("fork-failed") as recorded:
        jobs.make_next_fork()
    record = api(carol).get(f"/forks/{fork.uuid}").gives()
    assert (record["status"], record["repo_path"]) == ("failed", None)
    assert "Fork again" in record["error"] and recorded[0].data == {"error": record["error"]}
    assert recorded[0].private_to == carol.pk
    assert jobs.make_next_fork() is False
    api(carol).post(f"{fork.upstream.api_path}/forks").gives(201)


def test_what_git_cannot_do_is_tried_again_later(fork, caplog):
    shutil.rmtree(fork.upstream.git.path / "objects")
    assert jobs.make_next_fork() is True
    fork.refresh_from_db()
    assert (fork.status, fork.attempts) == ("running", 1)
    assert fork.lease_until > timezone.now()
    assert jobs.make_next_fork() is False
    assert folders(fork) == []
    assert "Attempt 1" in caplog.text


def test_who_lost_access_meanwhile_gets_no_copy(fork, carol, events):
    Repo.objects.filter(pk=fork.upstream_id).update(visibility="private")
    with events("fork-failed"):
        jobs.make_next_fork()
    fork.refresh_from_db()
    assert (fork.status, fork.error) == ("failed", "You have no access to this.")
    assert folders(fork) == []
    assert not Repo.objects.filter(owner_user=carol).exists()


def test_who_was_deactivated_meanwhile_gets_no_copy(fork, carol, events):
    carol.is_active = False
    carol.save()
    with events("fork-failed"):
        jobs.make_next_fork()
    assert not Repo.objects.filter(owner_user=carol).exists()


LOSSES = {
    "the upstream is hidden": lambda: Repo.objects.update(visibility="private"),
    "the creator's account is closed": lambda: User.objects.filter(username="bob").update(
        is_active=False
    ),
    "the creator becomes a viewer": lambda: Member.objects.filter(user__username="bob").update(
        role=Role.VIEWER
    ),
    "the team is deactivated": lambda: Team.objects.update(is_active=False),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_lost_during_the_copy_counts(fork, acme, bob, loss):
    made = actions.create_fork(
        access=access_of(bob, fork.upstream), into=space_access_of(bob, acme)
    )
    token = take(made)
    late = Fork.objects.with_paths().get(pk=made.pk)
    copied = copy_of(late, token)
    LOSSES[loss]()
    with pytest.raises(ApiError):
        actions.complete_fork(actor=bob, fork=late, token=token, copied=copied)
    assert not Repo.objects.filter(owner_team=acme).exists()

"""Limits on the disk space of a repository and of an owner; larger pushes are refused."""

from __future__ import annotations

import datetime as dt
from random import Random

import pytest
from django.utils import timezone

from apps.git.protocol import ZERO, Command
from apps.git.store import bytes_in
from apps.repos import jobs, quota
from apps.repos.http.push import receive
from apps.repos.models import Repo
from tests.git.scratch import push_body
from tests.principals import access_of
from tests.repos.conftest import push_to

MAIN, SIDE = "refs/heads/main", "refs/heads/side"
MIB = 1024 * 1024
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def push(team_repo, other, alice):
    """`push((old, new, ref), …)`: push; return git's report."""

    return lambda *moves: push_to(
        Repo.objects.get(pk=team_repo.pk), alice, other, *(Command(*move) for move in moves)
    ).encode()


def noise(size):
    return Random(7).randbytes(size)  # noqa: S311 - no secret


def test_a_push_to_a_repository_that_has_used_its_quota_is_refused_with_words(
    settings, team_repo, other, push
):
    settings.REPO_BYTES = 3 * MIB
    first, second = other.commit({"a": b"1"}), other.commit({"a": b"2"})
    assert b"ok " in push((ZERO, first, MAIN), (ZERO, first, SIDE))
    Repo.objects.filter(pk=team_repo.pk).update(disk_bytes=3 * MIB)
    words = b"storage quota used up: this repository may take 3 MiB"
    assert b"ng refs/heads/main " + words in push((first, second, MAIN))
    assert team_repo.git.ref(MAIN) == first
    assert b"ok refs/heads/side" in push((first, ZERO, SIDE)), "deletions make room"


def test_a_push_to_an_owner_whose_repositories_have_used_their_quota_is_refused(
    settings, make, team_repo, other, push, acme, alice
):
    settings.OWNER_BYTES = 5 * 1024 * MIB
    beside = make.repo(acme, "beside", by=alice)
    elsewhere = make.repo(alice, "elsewhere", by=alice)
    Repo.objects.filter(pk=elsewhere.pk).update(disk_bytes=settings.OWNER_BYTES)
    first, second = other.commit({"a": b"1"}), other.commit({"a": b"2"})
    assert b"ok " in push((ZERO, first, MAIN)), "what others have is not counted"
    Repo.objects.filter(pk=beside.pk).update(disk_bytes=settings.OWNER_BYTES)
    words = b"storage quota used up: all repositories of teams/acme may take 5 GiB"
    assert words in push((first, second, MAIN))


def test_a_push_larger_than_what_is_left_is_refused_while_it_comes_and_leaves_nothing(
    settings, team_repo, other, push
):
    settings.REPO_BYTES = 100_000
    report = push((ZERO, other.commit({"a": noise(200_000)}), MAIN))
    assert b"pack exceeds maximum allowed size" in report
    assert b"ng refs/heads/main" in report and team_repo.git.refs() == {}
    assert not list(team_repo.git.path.glob("objects/tmp_objdir-*"))


def test_a_large_push_counts_at_once_and_the_worker_measures_later(team_repo, other, push):
    size = quota.COUNTED_AT_ONCE
    assert b"ok " in push((ZERO, other.commit({"a": noise(size)}), MAIN))
    pushed = Repo.objects.get(pk=team_repo.pk).disk_bytes
    assert size <= pushed < 2 * size
    Repo.objects.update(created_at=timezone.now() - dt.timedelta(minutes=2), disk_bytes=7)
    assert jobs.tidy_next_repo()
    assert Repo.objects.get(pk=team_repo.pk).disk_bytes == bytes_in(team_repo.git.path)


def test_a_large_push_that_git_refuses_is_not_counted(settings, team_repo, other, alice):
    """Repeated, it would use up the quota of an owner whose repositories are small."""
    settings.REPO_BYTES = 2 * MIB
    whole = push_body(other, [Command(ZERO, other.commit({"a": noise(4 * MIB)}), MAIN)])
    pieces = (whole[start : start + 4096] for start in range(0, len(whole), 4096))
    report = receive(access=access_of(alice, team_repo), body=pieces)
    assert b"pack exceeds maximum allowed size" in report
    assert Repo.objects.get(pk=team_repo.pk).disk_bytes == 0


def test_the_worker_measures_repositories_that_nobody_pushes_to(team_repo):
    (team_repo.git.path / "objects" / "pack" / "large").write_bytes(bytes(MIB))
    jobs.sweep_folders(jobs.ignore)
    assert Repo.objects.get(pk=team_repo.pk).disk_bytes >= MIB


def test_a_fork_for_which_its_owner_has_no_room_is_refused(
    settings, api, team_repo, other, push, bob
):
    assert b"ok " in push((ZERO, other.commit({"a": b"1"}), MAIN))
    Repo.objects.filter(pk=team_repo.pk).update(disk_bytes=2 * MIB)
    settings.OWNER_BYTES = 3 * MIB - 1
    repo = Repo(owner_user=bob, name="x", slug="x", disk_bytes=MIB)
    repo.save()
    forks = f"{team_repo.api_path}/forks"
    words = api(bob).post(forks).fails(409, "quota_reached")
    assert words == "There is no room for a copy: all repositories of users/bob may take 2 MiB."
    settings.OWNER_BYTES = 3 * MIB
    fork = api(bob).post(forks).gives(201)
    repo.disk_bytes = 2 * MIB
    repo.save()
    assert jobs.make_next_fork()
    ended = api(bob).get(f"/forks/{fork['uuid']}").gives()
    assert ended["status"] == "failed" and "no room" in ended["error"]
    repo.disk_bytes = 0
    repo.save()
    api(bob).post(forks).gives(201)
    assert jobs.make_next_fork()
    assert bob.repos.exclude(pk=repo.pk).get().disk_bytes > 0

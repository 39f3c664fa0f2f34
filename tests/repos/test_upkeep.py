"""Upkeep of repositories: packing after pushes, `check_repos` and `reconcile`."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from io import StringIO
from uuid import uuid4

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from apps.events.models import Event
from apps.git.repo import GitRepo
from apps.repos import jobs
from apps.repos.actions import create_fork, update_repo
from apps.repos.models import PushJournal, Ref, Repo
from apps.repos.pushes import open_journal
from apps.repos.rules import ZERO
from tests import prepared_data
from tests.gitclient import Clone
from tests.prepared_data import given
from tests.principals import access_of, space_access_of
from tests.repos.test_many_refs import with_clone


@pytest.fixture
def builds():
    return {"clone": with_clone}


things, clone = prepared_data.things, given("clone")
alice, bob, carol, sam = map(given, ("alice", "bob", "carol", "sam"))


def told(command, *arguments):
    output = StringIO()
    call_command(command, *arguments, stdout=output)
    return output.getvalue()


def push_and_die(clone, spec, by):
    """A push whose server dies after git has moved the ref."""
    name, new = "refs/heads/" + spec, clone.git("rev-parse", spec)
    old = clone.repo.git.ref(name) or ZERO
    open_journal(actor=by, repo=clone.repo, moves=[(name, old, new)])
    clone.git("push", "--quiet", "--force", str(clone.repo.git.path), f"{new}:{name}")
    return new


def test_a_repository_is_tidied_after_pushes_once_a_minute(clone):
    """Also while pushes continue; a new repository once it is a minute old."""
    Repo.objects.update(created_at=timezone.now())  # the prepared data may be older
    assert not jobs.tidy_next_repo()
    Repo.objects.update(created_at=timezone.now() - dt.timedelta(minutes=2))
    assert jobs.tidy_next_repo()
    assert (clone.repo.git.path / "packed-refs").exists()
    assert list((clone.repo.git.path / "objects" / "info").glob("commit-graph*"))
    clone.commit("main", {"a": "2\n"})
    clone.push("main")
    assert not jobs.tidy_next_repo()
    Repo.objects.update(tidied_at=timezone.now() - dt.timedelta(minutes=2))
    assert jobs.tidy_next_repo()
    assert not jobs.tidy_next_repo()


def test_a_repository_nobody_pushed_to_is_left_alone(make, alice):
    make.repo(alice, by=alice)
    Repo.objects.update(created_at=timezone.now() - dt.timedelta(minutes=2))
    assert not jobs.tidy_next_repo()


def test_the_worker_settles_what_a_dead_push_has_left_with_its_person(clone, bob, events):
    clone.commit("main", {"a": "2\n"})
    new = push_and_die(clone, "main", bob)
    with events("branch-pushed") as recorded:
        jobs.settle_journals()
        jobs.settle_journals()
    assert recorded[0].actor == bob
    assert clone.repo.branch_sha("main") == new
    assert not PushJournal.objects.exists()


@pytest.fixture
def stuck(make, alice, tmp_path):
    """A first push, which sets the default branch, after a git with a lock on HEAD was killed."""
    made = Clone(tmp_path / "stuck", make.repo(alice, "stuck", by=alice), alice)
    made.commit("trunk", {"a": "1\n"})
    lock = made.repo.git.path / "HEAD.lock"
    lock.touch()
    os.utime(lock, (0, 0))
    push_and_die(made, "trunk", alice)
    return made


def check_settled(clone, branch):
    repo = Repo.objects.get(pk=clone.repo.pk)
    assert repo.branch_sha(branch) == clone.git("rev-parse", branch)
    assert (repo.default_branch, repo.git.head_branch()) == (branch, branch)


@pytest.mark.slow
def test_the_worker_settles_a_journal_though_a_lock_was_left(stuck):
    jobs.settle_journals()
    jobs.settle_journals()
    check_settled(stuck, "trunk")


def test_a_lock_that_was_left_keeps_nothing_from_being_mended(stuck):
    assert "temporary files" in told("check_repos", "--fix")
    check_settled(stuck, "trunk")


def test_a_journal_of_a_push_under_way_is_kept_and_an_old_one_dropped(clone, bob, events):
    open_journal(actor=bob, repo=clone.repo, moves=[("refs/heads/x", ZERO, "1" * 40)])
    with events():
        jobs.settle_journals()
        assert PushJournal.objects.count() == 1
        PushJournal.objects.update(created_at=timezone.now() - dt.timedelta(hours=3))
        jobs.settle_journals()
    assert not PushJournal.objects.exists()


def test_the_worker_removes_what_a_killed_push_left_though_nobody_pushes(clone, bob, events):
    """The journal of a push exists until the push is settled, so that the worker finds it."""
    left = clone.repo.git.path / "objects" / "tmp_objdir-incoming-killed"
    left.mkdir()
    jobs.settle_journals()
    assert left.exists(), "no push has died here"
    open_journal(actor=bob, repo=clone.repo, moves=[("refs/heads/x", ZERO, "1" * 40)])
    jobs.settle_journals()
    assert not left.exists()


def test_the_daily_sweep_removes_old_temporary_files_though_nobody_pushes(clone):
    """Also those of an earlier version without a lock."""
    objects = clone.repo.git.path / "objects"
    old, young = (objects / f"tmp_objdir-incoming-{name}" for name in ("old", "young"))
    for folder in (old, young):
        folder.mkdir()
    os.utime(old, (0, 0))
    jobs.sweep_folders(jobs.ignore)
    assert not old.exists() and young.exists()


def test_a_push_that_was_cut_off_and_sent_again_is_one_event(clone, bob, events):
    """The other step is removed when its push cannot be under way any more."""
    old, new = clone.repo.branch_sha("main"), clone.commit("main", {"a": "3\n"})
    open_journal(actor=bob, repo=clone.repo, moves=[("refs/heads/main", old, new)])
    push_and_die(clone, "main", bob)
    with events("branch-pushed"):
        jobs.settle_journals()
        PushJournal.objects.update(created_at=timezone.now() - dt.timedelta(hours=3))
        jobs.settle_journals()
    assert not PushJournal.objects.exists()


def test_steps_between_commits_that_git_has_lost_are_written_down_without_figures(
    clone, bob, events
):
    """As after a restore from a backup. Otherwise every push to the repository would fail."""
    old, new, lost = clone.repo.branch_sha("main"), clone.commit("main", {"a": "2\n"}), "1" * 40
    clone.repo.refs.update(sha=lost)
    open_journal(actor=bob, repo=clone.repo, moves=[("refs/heads/main", lost, "2" * 40)])
    open_journal(actor=bob, repo=clone.repo, moves=[("refs/heads/main", "2" * 40, old)])
    push_and_die(clone, "main", bob)
    with events(*["branch-pushed"] * 3) as recorded:
        jobs.settle_journals()
    values = [(event.actor, event.data["forced"], event.data["commit_count"]) for event in recorded]
    assert values == [(bob, None, None), (bob, None, None), (bob, False, 1)]
    assert clone.repo.branch_sha("main") == new
    assert not PushJournal.objects.exists()


def test_reconcile_writes_down_what_a_hand_has_moved(clone, events):
    path = str(clone.repo.git.path)
    clone.git("push", "--quiet", path, "main:by-hand")
    with events("branch-created") as recorded:
        assert "teams/acme/api: 1 moves" in told("reconcile")
        assert "0 moves" in told("reconcile")
    assert recorded[0].actor is None


def test_a_healthy_site_has_no_differences(clone):
    assert told("check_repos") == "1 repositories checked, 0 differences\n"


def test_differences_are_told_and_mended(clone):
    git = clone.repo.git
    clone.git("push", "--quiet", str(git.path), "main:other")
    git.set_head_branch("other")
    with pytest.raises(CommandError, match="repair with --fix"):
        told("check_repos")
    assert not Ref.objects.filter(full_name="refs/heads/other").exists()
    (git.path / "config").write_text("[core]\n\tbare = true\n")
    (git.path / "refs" / "heads" / "main.lock").touch()
    mended = told("check_repos", "--fix", "--older-than=0s")
    for words in (
        "HEAD is other",
        "heads differ from git's refs",
        "configuration",
        "temporary files",
    ):
        assert words in mended
    assert told("check_repos") == "1 repositories checked, 0 differences\n"
    assert git.head_branch() == "main"
    assert not list(git.path.rglob("*.lock"))


def test_a_missing_store_is_told_and_nothing_is_made_up(clone):
    shutil.rmtree(clone.repo.git.path)
    with pytest.raises(CommandError, match="repair with --fix"):
        told("check_repos")
    output = StringIO()
    with pytest.raises(CommandError, match="1 of 1 repositories"):
        call_command("check_repos", "--fix", stdout=output)
    assert "restore it from a backup" in output.getvalue()
    assert Event.objects.filter(kind="branch-deleted").count() == 0


@pytest.mark.parametrize("command", [["check_repos", "--fix"], ["reconcile"]])
def test_a_store_that_git_cannot_read_keeps_no_other_from_being_mended(
    make, clone, alice, tmp_path, command
):
    (clone.repo.git.path / "HEAD").write_text("nonsense")
    other = Clone(tmp_path / "other", make.repo(alice, "other", by=alice), alice)
    other.commit("main", {"a": "1\n"})
    other.git("push", "--quiet", str(other.repo.git.path), "main")
    output = StringIO()
    with pytest.raises(CommandError, match="1 of 2 repositories"):
        call_command(*command, stdout=output)
    assert "teams/acme/api: git " in output.getvalue()
    assert other.repo.branch_sha("main") == other.git("rev-parse", "main")


def test_head_follows_the_row_as_it_is_by_then(clone, sam, django_capture_on_commit_callbacks):
    stale = Repo.objects.get()
    clone.push("main:trunk")
    with django_capture_on_commit_callbacks(execute=True):
        update_repo(access=access_of(sam, clone.repo), default_branch="trunk")
    list(jobs.check(stale, fix=True, age=0))
    assert clone.repo.git.head_branch() == "trunk"


def nobodys(age: float) -> GitRepo:
    """A folder without a row, last changed `age` seconds ago."""
    name = str(uuid4())
    made = GitRepo(settings.REPOSITORIES_DIR / name[:2] / name[2:4] / f"{name}.git")
    made.create()
    then = timezone.now().timestamp() - age
    os.utime(made.path, (then, then))
    return made


def test_only_what_is_nobodys_and_old_is_swept_away(clone, make, alice, carol):
    waiting = create_fork(access=access_of(alice, clone.repo), into=space_access_of(alice, alice))
    young, old = nobodys(0), nobodys(2 * 24 * 3600)
    unfinished = GitRepo(old.path.with_name(f"{uuid4()}.git.tmp-dead"))
    unfinished.create()
    os.utime(unfinished.path, (0, 0))
    fork_git = Repo(uuid=waiting.repo_uuid).git
    fork_git.create()
    os.utime(fork_git.path, (0, 0))
    os.utime(clone.repo.git.path, (0, 0))
    assert {old.path.name, unfinished.path.name} <= set(jobs.sweep())
    assert not old.exists() and not unfinished.exists()
    assert young.exists() and fork_git.exists() and clone.repo.git.exists()


def test_sweeping_asks_the_database_once_for_many_folders(make, alice, django_assert_num_queries):
    used = [make.repo(alice, by=alice).git for _ in range(3)]
    for git in used:
        os.utime(git.path, (0, 0))
    gone = [nobodys(2 * 24 * 3600) for _ in range(3)]
    with django_assert_num_queries(2 + 2 * len(gone)):  # each is looked up again under its lock
        jobs.sweep()
    assert all(git.exists() for git in used) and not any(git.exists() for git in gone)

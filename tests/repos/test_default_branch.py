"""`default_branch` of PUT …/repos/{repo_slug}: git's HEAD follows, even if a process dies."""

from __future__ import annotations

import subprocess

import pytest
from django.db import connection

from apps.repos import actions, jobs
from apps.repos.models import Repo
from tests.dying import Killed
from tests.gitclient import Clone
from tests.principals import access_of
from tests.races import Outcome, at_once


@pytest.fixture
def pushed(team_repo, alice, tmp_path):
    """A repository with the branches main and next."""
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.commit("main", {"README": "A place.\n"})
    clone.commit("next", {"arch": "open\n"}, onto="main")
    clone.push("main", "next")
    team_repo.refresh_from_db()
    return team_repo


@pytest.fixture
def put(api, alice, django_capture_on_commit_callbacks):
    """`put(repo, "next")` as alice, with the callbacks of a commit."""

    def send(repo, branch, **sent):
        with django_capture_on_commit_callbacks(execute=True):
            body = {"name": repo.name, "slug": repo.slug, "default_branch": branch, **sent}
            return api(alice).put(repo.api_path, **body)

    return send


def heads() -> tuple[str, str, bool]:
    """The default branch, git's HEAD, and `head_due`."""
    repo = Repo.objects.get()
    return repo.default_branch, repo.git.head_branch(), repo.head_due


def test_the_default_branch_has_to_exist_and_git_follows(put, pushed, events):
    with events():
        for branch in ("nowhere", "", "../main", "refs/heads/next", "next\u202e", "x" * 256):
            put(pushed, branch).fails(422, "validation_failed")
        put(pushed, 5).fails(422, "validation_failed")
        put(pushed, "main").gives()
    assert heads() == ("main", "main", False)
    with events("repo-updated") as recorded:
        assert put(pushed, "next").gives()["default_branch"] == "next"
    before, after = {"default_branch": "main"}, {"default_branch": "next"}
    assert recorded[0].data == {"changed": ["default_branch"], "before": before, "after": after}
    assert heads() == ("next", "next", False)


def test_one_that_has_gone_meanwhile_can_be_sent_again(put, pushed, events):
    pushed.refs.filter(full_name="refs/heads/main").delete()
    with events():
        put(pushed, "main").gives()


def test_an_empty_repository_takes_any_name_and_keeps_it_when_it_is_pushed(
    put, team_repo, alice, tmp_path
):
    for wrong in ("a..b", "trunk\x07"):
        assert "default_branch" in put(team_repo, wrong).fails(422, "validation_failed")
    put(team_repo, "trunk").gives()
    assert heads() == ("trunk", "trunk", False)
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.commit("main", {"README": "A place.\n"})
    clone.push("main", "main:trunk")
    assert heads() == ("trunk", "trunk", False)


def test_a_clone_checks_it_out(put, pushed, tmp_path):
    put(pushed, "next").gives()
    target = tmp_path / "again"
    subprocess.run(["git", "clone", "--quiet", str(pushed.git.path), str(target)], check=True)
    done = subprocess.run(
        ["git", "-C", str(target), "branch", "--show-current"], check=True, capture_output=True
    )
    assert done.stdout == b"next\n"


def dying_at(*marks: str):
    """A wrapper of statements in which the process dies at the last of these texts, after the
    others in order. Later statements are dropped.
    """
    left, dead = list(marks), False

    def watch(execute, sql, *rest):
        nonlocal dead
        if dead:
            return None
        if left and sql.startswith(left[0]):
            left.pop(0)
            if not left:
                dead = True
                raise Killed
        return execute(sql, *rest)

    return watch


EVENT, AGAIN = 'INSERT INTO "events_event"', "SELECT"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("marks", "left"),
    [
        ((EVENT,), ("main", "main", False)),
        ((EVENT, AGAIN), ("next", "main", True)),
        ((EVENT, AGAIN, 'UPDATE "repos_repo"'), ("next", "next", True)),
    ],
    ids=["before the commit", "before git", "after git"],
)
def test_a_process_that_dies_leaves_what_the_worker_finishes(pushed, alice, marks, left):
    with connection.execute_wrapper(dying_at(*marks)), pytest.raises(Killed):
        actions.update_repo(access=access_of(alice, pushed), default_branch="next")
    assert heads() == left
    done: list[str] = []
    jobs.point_heads(done.append)
    assert heads() == (left[0], left[0], False)
    assert len(done) == left[2]


@pytest.mark.django_db(transaction=True)
def test_what_git_refuses_is_tried_again(pushed, alice, caplog):
    lock = pushed.git.path / "HEAD.lock"
    lock.touch()
    actions.update_repo(access=access_of(alice, pushed), default_branch="next")
    assert heads() == ("next", "main", True)
    jobs.point_heads()
    assert heads() == ("next", "main", True)
    assert "HEAD of" in caplog.text
    lock.unlink()
    jobs.point_heads()
    assert heads() == ("next", "next", False)


@pytest.mark.django_db(transaction=True)
def test_of_two_who_choose_at_once_git_has_the_one_that_is_stored(pushed, alice, sam):
    def choose(person, branch):
        by = access_of(person, Repo.objects.get(pk=pushed.pk))
        return Outcome(lambda: actions.update_repo(access=by, default_branch=branch))

    pushed.refs.create(full_name="refs/heads/third", sha=pushed.branch_sha("main"))
    answers = at_once(lambda: choose(alice, "next"), lambda: choose(sam, "third"))
    assert answers == {(200, None): 2}
    stored, head, due = heads()
    assert stored == head in {"next", "third"} and not due

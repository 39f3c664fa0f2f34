"""The account that pushed each commit: stored by the worker, and told with the commit."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.browse import pushers
from apps.browse.pushers import pushers_of, read_all_pushes
from apps.events.models import Event
from apps.git.history import commits_gained
from apps.repos.models import PUSHES_DUE, CommitPush, Repo
from tests.browse.code import push
from tests.git.scratch import git
from tests.git.stand_ins import failing_git

MAIN, TOPIC = "refs/heads/main", "refs/heads/topic"


class Killed(BaseException):
    """Raised where the process dies."""


@pytest.fixture
def line(code):
    """Five commits, oldest first, of which none is pushed."""
    shas: list[str] = []
    for number in range(5):
        shas.append(code.commit_with({b"n": b"%d" % number}, *shas[-1:], message=f"n {number}"))
    return shas


def stored(repo):
    """Commit -> username of its stored pusher."""
    rows = CommitPush.objects.filter(repo=repo).values_list("sha", "pushed_by__username")
    return dict(rows)


def fresh(repo):
    return Repo.objects.get(pk=repo.pk)


def test_each_commit_has_the_first_person_who_pushed_it(repo, line, alice, bob):
    push(repo, MAIN, line[1], by=alice)
    push(repo, MAIN, line[3], by=bob)
    push(repo, TOPIC, line[4], by=alice)
    assert stored(repo) == {}
    lines: list[str] = []
    read_all_pushes(lines.append)
    names = ["alice", "alice", "bob", "bob", "alice"]
    assert stored(repo) == dict(zip(line, names, strict=True))
    assert len(lines) == 1 and str(repo.uuid) in lines[0]
    read_all_pushes(lines.append)
    assert len(lines) == 1 and not Repo.objects.filter(PUSHES_DUE)


def test_a_branch_or_tag_of_old_commits_brings_nothing_new(repo, code, line, alice, bob):
    push(repo, MAIN, line[3], by=alice)
    read_all_pushes()
    CommitPush.objects.all().delete()  # as if nobody had been known
    push(repo, TOPIC, line[2], by=bob)
    push(repo, "refs/tags/old", line[1], by=bob)
    push(repo, "refs/tags/annotated", code.tag_of(line[3]), by=bob)
    push(repo, TOPIC, line[0], by=bob)
    read_all_pushes()
    assert stored(repo) == {}


def test_a_tag_brings_the_commits_that_only_it_reaches(repo, code, line, alice, bob):
    push(repo, MAIN, line[2], by=alice)
    push(repo, "refs/tags/next", code.tag_of(line[4]), by=bob)
    push(repo, "refs/tags/blob", code.store("blob", [b"x"], 1), by=bob)
    read_all_pushes()
    assert stored(repo) == dict.fromkeys(line[:3], "alice") | dict.fromkeys(line[3:], "bob")


def test_a_forced_push_brings_only_the_commits_that_are_new(repo, code, line, alice, bob):
    push(repo, MAIN, line[4], by=alice)
    read_all_pushes()
    rewritten = code.commit_with({b"n": b"other"}, line[2])
    push(repo, MAIN, rewritten, by=bob)
    read_all_pushes()
    assert stored(repo) == dict.fromkeys(line, "alice") | {rewritten: "bob"}


def test_of_too_many_commits_only_the_pushed_head_is_stored(repo, line, alice, bob, monkeypatch):
    monkeypatch.setattr(pushers, "COMMITS_MOST", 2)
    push(repo, MAIN, line[2], by=alice)
    push(repo, MAIN, line[4], by=bob)
    read_all_pushes()
    assert stored(repo) == {line[2]: "alice", line[3]: "bob", line[4]: "bob"}


def test_a_push_over_a_head_that_git_has_no_longer_stores_only_the_pushed_head(
    repo, code, line, alice, bob
):
    """Without the head of before, git cannot tell which commits are new."""
    lost = code.commit_with({b"n": b"lost"}, line[2])
    push(repo, MAIN, lost, by=alice)
    push(repo, MAIN, line[3], by=bob)
    push(repo, MAIN, line[4], by=alice)
    repo.git.prune(lost)
    read_all_pushes()
    assert stored(repo) == {line[3]: "bob", line[4]: "alice"}


def test_a_commit_that_was_removed_before_the_worker_came_is_not_stored(
    repo, code, line, alice, bob
):
    push(repo, MAIN, line[2], by=alice)
    push(repo, TOPIC, line[4], by=bob)
    git(repo.git.path, "update-ref", "-d", TOPIC)
    repo.git.prune(line[4])
    read_all_pushes()
    assert stored(repo) == dict.fromkeys(line[:3], "alice")


def test_a_worker_that_died_after_some_pushes_goes_on_there(repo, line, alice, bob, monkeypatch):
    push(repo, MAIN, line[1], by=alice)
    push(repo, MAIN, line[2], by=bob)
    push(repo, MAIN, line[4], by=alice)
    with monkeypatch.context() as dying:
        stores = iter([pushers._store])
        dying.setattr(pushers, "_store", lambda *args: next(stores, die)(*args))
        with pytest.raises(Killed):
            read_all_pushes()
    assert stored(repo) == dict.fromkeys(line[:2], "alice")
    assert fresh(repo).pushes_read_to > 0 and fresh(repo).pushes_due
    read_all_pushes()
    expected = dict(zip(line, ["alice", "alice", "bob", "alice", "alice"], strict=True))
    assert stored(repo) == expected
    Repo.objects.update(pushes_read_to=0, pushes_read_at=None)  # as if the cursor had been lost
    read_all_pushes()
    assert stored(repo) == expected and CommitPush.objects.count() == len(line)
    assert not fresh(repo).pushes_due


def die(*_: object) -> None:
    raise Killed


def test_rows_and_cursor_are_written_together(repo, line, alice, monkeypatch):
    push(repo, MAIN, line[4], by=alice)
    rows = CommitPush.objects.bulk_create
    with monkeypatch.context() as dying:

        def write_and_die(*args, **options):
            rows(*args, **options)
            raise Killed

        dying.setattr(CommitPush.objects, "bulk_create", write_and_die)
        with pytest.raises(Killed):
            read_all_pushes()
    assert stored(repo) == {} and fresh(repo).pushes_read_to == 0
    read_all_pushes()
    assert stored(repo) == dict.fromkeys(line, "alice")


def test_many_pushes_take_several_runs(repo, line, alice, monkeypatch):
    monkeypatch.setattr(pushers, "STEPS_MOST", 2)
    for sha in line:
        push(repo, MAIN, sha, by=alice)
    for count in (2, 4, 5, 5):
        read_all_pushes()
        assert len(stored(repo)) == count
    assert not fresh(repo).pushes_due


def test_a_repository_that_git_cannot_read_is_tried_again(repo, line, alice, tmp_path, monkeypatch):
    push(repo, MAIN, line[4], by=alice)
    with failing_git(tmp_path, monkeypatch, status=128):
        read_all_pushes()
    assert stored(repo) == {} and fresh(repo).pushes_due
    read_all_pushes()
    assert len(stored(repo)) == 5


def test_a_push_that_comes_while_the_worker_reads_is_read_next(repo, line, alice, bob, monkeypatch):
    push(repo, MAIN, line[1], by=alice)

    def push_then_ask(*args, **options):
        monkeypatch.setattr(pushers, "commits_gained", commits_gained)
        push(repo, MAIN, line[4], by=bob)
        return commits_gained(*args, **options)

    monkeypatch.setattr(pushers, "commits_gained", push_then_ask)
    read_all_pushes()
    assert stored(repo) == dict.fromkeys(line[:2], "alice") and fresh(repo).pushes_due
    read_all_pushes()
    assert stored(repo) == dict.fromkeys(line[:2], "alice") | dict.fromkeys(line[2:], "bob")


def test_a_commit_that_nobody_known_pushed_has_no_pusher(repo, line, alice):
    push(repo, MAIN, line[4], by=alice)
    Event.objects.filter(repo_id=repo.pk).update(actor=None)
    repo.refs.update(pushed_by=None)
    assert pushers_of(fresh(repo), line) == {}
    read_all_pushes()
    assert pushers_of(fresh(repo), line) == {} and not fresh(repo).pushes_due


def test_records_name_the_pusher_who_need_not_be_the_author(api, repo, code, alice, bob):
    """Anybody may write the address of another person into a commit."""
    User.objects.filter(pk=alice.pk).update(email="a@example.org", email_key="a@example.org")
    first = code.commit_with({b"a": b"1\n"}, email="a@example.org")
    second = code.commit_with({b"a": b"1\n2\n"}, first, email="a@example.org")
    push(repo, MAIN, first, by=alice)
    push(repo, MAIN, second, by=bob)
    person, root = api(alice), repo.api_path

    def told():
        listed = person.get(f"{root}/commits").gives()["results"]
        single = person.get(f"{root}/commits/{second}").gives()
        [compared] = person.get(f"{root}/compare/{first}...{second}").gives()["commits"]
        blamed = person.get(f"{root}/blame/a").gives()["ranges"]
        assert listed[0]["author"]["username"] == "alice"
        lists = [listed, [single, listed[1]], [compared, listed[1]]]
        lists.append([one["commit"] for one in reversed(blamed)])
        return {tuple(one["pushed_by_username"] for one in rows) for rows in lists}

    assert told() == {("bob", None)}  # the head alone
    read_all_pushes()
    assert told() == {("bob", "alice")}


def test_a_head_is_told_with_its_pusher_only_while_the_worker_has_not_read(repo, line, alice, bob):
    push(repo, MAIN, line[3], by=alice)
    assert pushers_of(fresh(repo), line)[line[3]].username == "alice"
    read_all_pushes()
    CommitPush.objects.all().delete()
    assert pushers_of(fresh(repo), line) == {}


def test_commits_gained_are_those_between_heads(repo, code, line):
    blob = code.store("blob", [b"x"], 1)
    heads = {line[4], blob, "1" * 40}
    assert commits_gained(repo.git, heads, {line[1], "2" * 40}, most=9) == line[:1:-1]
    assert commits_gained(repo.git, heads, set(), most=2) == line[:2:-1]
    assert commits_gained(repo.git, set(), {line[1]}, most=2) == []
    with pytest.raises(ValueError, match="full object name"):
        commits_gained(repo.git, {"main"}, set(), most=2)

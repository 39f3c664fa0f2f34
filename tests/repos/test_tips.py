"""Every way to store a head stores its tip too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.core.management import call_command

from apps.core.locks import lock
from apps.git import run
from apps.git.merge import Strategy
from apps.pulls.actions import merge_pull
from apps.repos import jobs, tips
from apps.repos.actions import create_fork
from apps.repos.models import BRANCHES, TAGS, UNREAD, Ref, Repo
from apps.repos.pushes import reconcile
from tests.dying import Killed
from tests.git.stand_ins import slow_git
from tests.gitclient import Clone
from tests.principals import access_of, space_access_of
from tests.tips import check_tips

HEAD = f"{BRANCHES}main"


def die(*_: object) -> None:
    raise Killed


@pytest.fixture
def clone(team_repo, alice, tmp_path):
    """A repository with a branch, and a tag of each kind."""
    made = Clone(tmp_path / "clone", team_repo, alice)
    sha = made.commit("main", {"a": "1\n"}, message="Say hello\n\nto everybody")
    made.push("main")
    made.server("tag", "light", sha)
    made.server("tag", "-a", "-m", "Version 1\n\nof two", "v1.0", sha)
    made.server("tag", "-a", "-m", "A key", "key", made.store("blob", "k"))
    reconcile(repo=team_repo)
    return made


def forget(repo):
    """Empty the columns, as in rows from before they existed."""
    repo.refs.update(
        peeled_sha=None, commit_subject="", commit_author="", committed_at="", tag_message=None
    )


def test_a_push_stores_what_its_refs_lead_to(clone, team_repo):
    row = team_repo.refs.get(full_name=HEAD)
    assert (row.peeled_sha, row.commit_subject, row.commit_author) == (
        clone.head("main"),
        "Say hello",
        "alice",
    )
    tags = {row.full_name.removeprefix(TAGS): row for row in team_repo.refs.tags()}
    expected = [None, "Version 1\n\nof two", "A key"]
    assert [tags[name].tag_message for name in ("light", "v1.0", "key")] == expected
    assert [tags[name].peeled_sha for name in ("light", "v1.0", "key")] == [
        clone.head("main"),
        clone.head("main"),
        "",
    ]
    check_tips(team_repo)


def test_a_push_that_git_tells_nothing_of_is_stored_and_read_later(
    clone, team_repo, tmp_path, monkeypatch
):
    clone.commit("main", {"a": "2\n"})
    with slow_git(tmp_path, monkeypatch):
        clone.push("main:new")
    row = team_repo.refs.get(full_name=f"{BRANCHES}new")
    assert (row.sha, row.peeled_sha, row.commit_subject) == (clone.head("main"), None, "")
    tips.fill_all_tips()
    check_tips(team_repo)


def test_the_worker_reads_the_heads_of_before_and_goes_on_where_one_died(
    clone, team_repo, monkeypatch
):
    names = [f"b{number}" for number in range(5)]
    clone.push(*(f"main:{name}" for name in names))
    forget(team_repo)
    monkeypatch.setattr(tips, "AT_ONCE", 3)
    with monkeypatch.context() as dying:
        locks: Iterator[Callable[[Repo], None]] = iter([lock, die])
        dying.setattr(tips, "lock", lambda row: next(locks)(row))
        with pytest.raises(Killed):
            tips.fill_all_tips()
    assert team_repo.refs.filter(UNREAD).count() == len(names) + 4 - 3
    lines: list[str] = []
    before, people = run.spawned, dict(team_repo.refs.values_list("full_name", "pushed_by"))
    when = dict(team_repo.refs.values_list("full_name", "updated_at"))
    tips.fill_all_tips(lines.append)
    assert run.spawned == before + 2
    assert len(lines) == 1
    check_tips(team_repo)
    assert dict(team_repo.refs.values_list("full_name", "pushed_by")) == people
    assert dict(team_repo.refs.values_list("full_name", "updated_at")) == when
    tips.fill_all_tips(lines.append)
    assert run.spawned == before + 3  # one of them in check_tips
    assert len(lines) == 1


def test_a_head_that_moves_or_goes_while_the_worker_reads_stays_as_it_was_left(
    clone, team_repo, bob, monkeypatch
):
    clone.push("main:other", "main:gone")
    forget(team_repo)
    new = clone.commit("main", {"a": "2\n"}, message="Moved")

    def meanwhile(row):
        monkeypatch.setattr(tips, "lock", lock)
        clone.push("main", ":gone", by=bob)
        lock(row)

    monkeypatch.setattr(tips, "lock", meanwhile)
    assert tips.fill_tips(team_repo) == 4
    row = team_repo.refs.get(full_name=HEAD)
    assert (row.sha, row.commit_subject, row.pushed_by) == (new, "Moved", bob)
    assert not team_repo.refs.filter(full_name=f"{BRANCHES}gone").exists()
    check_tips(team_repo)


def test_a_repository_that_cannot_be_read_keeps_no_other_waiting(clone, team_repo, make, alice):
    lost = make.repo(alice, "lost", by=alice)
    Ref.objects.create(repo=lost, full_name=HEAD, sha="1" * 40)
    lost.git.path.rename(lost.git.path.with_suffix(".gone"))
    forget(team_repo)
    tips.fill_all_tips()
    check_tips(team_repo)
    assert lost.refs.get().peeled_sha is None


def test_a_fork_knows_what_its_upstream_knows(clone, team_repo, alice, monkeypatch):
    """Except for heads that moved during the copy."""
    team_repo.refs.filter(full_name=f"{TAGS}light").update(sha="1" * 40)
    create_fork(access=access_of(alice, team_repo), into=space_access_of(alice, alice))
    jobs.make_next_fork()
    copy = Repo.objects.get(upstream=team_repo)
    assert [row.full_name for row in copy.refs.filter(UNREAD)] == [f"{TAGS}light"]
    tips.fill_all_tips()
    check_tips(copy)


@pytest.mark.parametrize("strategy", Strategy)
def test_a_merge_knows_its_commit_without_another_git(
    clone, team_repo, make, alice, strategy, monkeypatch
):
    clone.commit("feature", {"b": "1\n"}, onto="main", message="Add b")
    clone.push("feature")
    pull = make.pull(team_repo, by=alice, source="feature")
    questions = []

    def ask(_, wanted):
        questions.extend(wanted)
        return {}

    with monkeypatch.context() as watched:
        watched.setattr(tips, "read_tips", ask)
        merge_pull(access=access_of(alice, team_repo), pull=pull, merge_strategy=strategy)
    assert not questions
    row = team_repo.refs.get(full_name=HEAD)
    assert row.sha == team_repo.git.ref(HEAD) == row.peeled_sha
    check_tips(team_repo)


def test_the_check_of_repositories_finds_nothing_to_mend(clone, capsys):
    call_command("check_repos")
    assert "0 differences" in capsys.readouterr().out

"""Commits that texts name: git looks for them when a text is written and when commits are pushed,
and reads run no git.
"""

from __future__ import annotations

import re
import shutil

import pytest
from django.db import OperationalError, transaction

from apps.git import run
from apps.git.history import find_commits
from apps.repos import commits
from apps.repos.models import CommitSearch, NamedCommit
from apps.repos.pushes import reconcile
from apps.threads.models import Reply, Thread
from tests.migrations import as_of
from tests.races import Aside
from tests.server import PATIENCE
from tests.threads import paths

ASKED = "?render=html"


@pytest.fixture
def committing(django_capture_on_commit_callbacks):
    """Run the callbacks of `on_commit` at the end of the context."""
    return lambda: django_capture_on_commit_callbacks(execute=True)


def links(api, person, path: str) -> list[tuple[str, str]]:
    """The targets and the texts of the links in the body of this record."""
    html = api(person).get(path + ASKED).gives()["body_html"]
    return re.findall(r'<a href="https?://[^/]+/([^"]*)">(\w+)</a>', html)


def test_commits_are_found_when_a_text_is_written_and_read_without_git(
    api, make, thread, clone, alice, committing
):
    sha = clone.push_commit("main", {"a": "1\n"}, message="x")
    text = f"{sha} {sha[:7]} {'f' * 40} `{sha[:8]}`"
    before = run.spawned
    with committing():
        reply = make.reply(thread, by=alice, body=text)
    assert run.spawned - before == 2
    with committing():
        api(alice).patch(paths.thread(thread), body=sha[:9]).gives()
    at = f"{thread.repo.path}/commits/{sha}"
    shutil.rmtree(thread.repo.git.path)
    before = run.spawned
    assert links(api, alice, paths.reply(reply)) == [(at, sha), (at, sha[:7])]
    assert links(api, alice, paths.versions(reply) + "/1") == [(at, sha), (at, sha[:7])]
    assert links(api, alice, paths.thread(thread)) == [(at, sha[:9])]
    api(alice).get(paths.replies(thread) + ASKED).gives()
    assert run.spawned == before


def test_a_text_without_commits_asks_nothing(make, thread, alice, committing):
    before = run.spawned
    with committing():
        make.reply(thread, by=alice, body="#1 @bob and `1f2e3d4c`")
    assert (run.spawned, CommitSearch.objects.count()) == (before, 0)


def test_a_commit_that_is_pushed_later_is_found_after_the_push(
    api, make, thread, clone, alice, committing
):
    sha = clone.commit("main", {"a": "1\n"}, message="x")
    with committing():
        reply = make.reply(thread, by=alice, body=f"mended in {sha[:10]}")
    assert links(api, alice, paths.reply(reply)) == []
    assert not commits.find_next_commits()
    clone.push("main")
    assert links(api, alice, paths.reply(reply)) == []
    messages: list[str] = []
    assert commits.find_next_commits(messages.append)
    assert links(api, alice, paths.reply(reply)) == [
        (f"{thread.repo.path}/commits/{sha}", sha[:10])
    ]
    assert messages == ["1 commits found that texts name"]
    assert not commits.find_next_commits()


def test_what_a_process_leaves_that_dies_after_its_commit_is_the_workers(
    api, make, thread, clone, alice
):
    """Run no callback of `on_commit` in this test."""
    sha = clone.push_commit("main", {"a": "1\n"}, message="x")
    commits.find_next_commits()
    reply = make.reply(thread, by=alice, body=sha)
    assert links(api, alice, paths.reply(reply)) == []
    assert commits.find_next_commits()
    assert len(links(api, alice, paths.reply(reply))) == 1


def test_what_is_wanted_while_git_is_asked_is_looked_for_again(make, thread, clone, alice):
    make.reply(thread, by=alice, body="f" * 40)
    search, ask = CommitSearch.objects.get(), find_commits

    def push_meanwhile(*arguments):
        answer = ask(*arguments)
        commits.seek_commits(thread.repo_id)
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "find_commits", push_meanwhile)
        assert commits.find_next_commits()
    assert commits.find_next_commits()
    assert not commits.find_next_commits()
    after = CommitSearch.objects.get()
    assert (after.wanted, after.done) == (search.wanted + 1, search.wanted + 1)


def test_where_git_cannot_tell_the_text_stays_until_the_next_push(make, thread, clone, alice):
    make.reply(thread, by=alice, body="f" * 40)
    away = thread.repo.git.path.with_name("away")
    thread.repo.git.path.rename(away)
    assert commits.find_next_commits()
    assert not commits.find_next_commits()
    away.rename(thread.repo.git.path)
    clone.push_commit("main", {"a": "1\n"}, message="x")
    reconcile(repo=thread.repo)
    assert commits.find_next_commits()


def test_the_newest_names_are_looked_for(make, thread, clone, alice, monkeypatch):
    monkeypatch.setattr(commits, "SOUGHT", 1)
    sha = clone.commit("main", {"a": "1\n"}, message="x")
    make.reply(thread, by=alice, body=f"{sha} then {'0' * 40}")
    make.reply(thread, by=alice, body=sha[:8])
    clone.push("main")
    commits.find_next_commits()
    assert [row.name for row in NamedCommit.objects.exclude(sha="")] == [sha[:8]]


@pytest.mark.django_db(transaction=True)
def test_each_of_the_first_two_texts_at_once_wants_a_search(team_repo):
    """With one search for both, it might end before the second text has been committed."""

    def write(name):
        with transaction.atomic():
            commits.note_commits(team_repo.pk, f"<ref>{name}</ref>")

    later = Aside(lambda: write("1f2e3d4c"))
    with transaction.atomic():
        write("2f2e3d4c")
        later.begin()
    later.join(PATIENCE)
    after = CommitSearch.objects.get()
    assert (after.wanted, after.done) == (2, 2)


@pytest.mark.django_db(transaction=True)
def test_a_search_that_fails_refuses_no_text(api, thread, clone, alice, monkeypatch):
    def fail(*_):
        raise OperationalError("the server has gone away")

    monkeypatch.setattr(commits, "find_commits", fail)
    api(alice).patch(paths.thread(thread), body="1f2e3d4c").gives()
    monkeypatch.undo()
    assert commits.find_next_commits()


@pytest.mark.django_db(transaction=True)
def test_texts_from_before_are_looked_through_as_well(make, team_repo, alice):
    thread = make.thread(team_repo, by=alice, body="1f2e3d4c and 2f2e3d4c")
    make.reply(thread, by=alice, body="3f2e3d4c")
    make.review(make.pull(team_repo, by=alice), by=alice, body="4f2e3d4c")
    old = make.reply(thread, by=alice, body="**5f2e3d4c** not/6f2e3d4c")
    Reply.objects.filter(pk=old.pk).update(body_html="", html_version=0)
    with as_of("repos", "0007_overtaken_steps"):
        pass
    names = NamedCommit.objects.order_by("name").values_list("name", flat=True)
    assert [*names] == [f"{number}f2e3d4c" for number in (1, 2, 3, 4, 5)]
    assert CommitSearch.objects.get().repo == team_repo
    assert commits.find_next_commits()


@pytest.mark.django_db(transaction=True)
def test_of_many_older_texts_the_first_fifty_names_each_are_noted_once(make, team_repo, alice, bob):
    own = make.repo(bob, by=bob)
    texts = [[f"{number:07x}" for number in range(40 * n, 40 * n + 60)] for n in range(16)]
    for names in texts:
        make.thread(team_repo, by=alice, body=" ".join([*names[:5], *names]))
    make.thread(own, by=bob, body=" ".join(texts[0][:3]))
    Thread.objects.filter(pk__in=team_repo.threads.values("pk")[3:9]).update(html_version=0)
    with as_of("pulls", "0009_body_html"):
        NamedCommit.objects.all().delete()
        CommitSearch.objects.all().delete()
    pairs = NamedCommit.objects.filter(sha="").values_list("repo", "name")
    noted = {(team_repo.pk, name) for names in texts for name in names[:50]}
    noted |= {(own.pk, name) for name in texts[0][:3]}
    assert (len(noted), {*pairs}) == (653, noted)
    assert {*CommitSearch.objects.values_list("repo", flat=True)} == {team_repo.pk, own.pk}

"""`manage.py forget_commit`: a pushed secret is gone from git and from what is stored."""

from __future__ import annotations

import os
import re
from io import StringIO
from subprocess import PIPE, STDOUT, run

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.browse.cache import cached
from apps.browse.models import GitCache
from apps.browse.pushers import read_all_pushes
from apps.core.slugs import PREFIX
from apps.events.models import Event
from apps.git.protocol import ZERO
from apps.git.repo import approved_ref, pull_ref
from apps.pulls.models import Pull, PullStatus
from apps.repos.commits import find_named_commits, known_commits
from apps.repos.models import NamedCommit
from apps.repos.pushes import open_journal
from tests.gitclient import Clone

SECRET = "hunter2 is the password\n"


@pytest.fixture
def clone(team_repo, alice, tmp_path):
    made = Clone(tmp_path / "work", team_repo, alice)
    made.commit("main", {"a": "1\n"})
    made.push("main")
    return made


@pytest.fixture
def leaked(clone, make, alice):
    """A pull whose first head has the secret and whose second, forced, has not; it was approved."""
    sha = clone.commit("topic", {"secret": SECRET}, onto="main", message="oops")
    clone.push("topic")
    make.thread(clone.repo, by=alice, body=f"Look at {sha}")
    pull = make.pull(clone.repo, by=alice, source="topic")
    clone.repo.git.update_ref(approved_ref(pull.number, sha), sha, ZERO)
    clone.repo.git.update_ref(
        pull_ref(pull.number), sha, clone.repo.git.ref(pull_ref(pull.number)) or ZERO
    )
    cached(clone.repo, ("files", sha), lambda: [SECRET])
    return sha


def told(*arguments):
    output = StringIO()
    call_command("forget_commit", *arguments, stdout=output)
    return output.getvalue()


def refusal(*arguments):
    with pytest.raises(CommandError) as caught:
        told(*arguments)
    return str(caught.value)


def fetched(folder, path, sha):
    """What git says to who asks for a commit by its name, over the newest protocol."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    run(["git", "init", "--quiet", folder], env=env, check=True)
    command = ["git", "-c", "protocol.version=2", "fetch", "--quiet", f"file://{path}", sha]
    return run(command, cwd=folder, env=env, stdout=PIPE, stderr=STDOUT, check=False)


def let_go(clone, sha):
    """As the refusals ask for: the branch goes, the pull is closed."""
    clone.git("push", "--quiet", str(clone.repo.git.path), ":topic")
    clone.repo.refs.filter(full_name="refs/heads/topic").delete()
    Pull.objects.update(status=PullStatus.CLOSED)
    assert not clone.repo.git.ref("refs/heads/topic")


def test_it_refuses_while_something_shown_leads_to_the_commit(clone, leaked):
    path = clone.repo.path
    clone.git("push", "--quiet", str(clone.repo.git.path), f"{leaked}:refs/tags/v1")
    said = refusal(path, leaked)
    assert "branch topic has it" in said and "tag v1 has it" in said
    assert re.search(r"pull \d+ is open and has it", said)
    assert refusal(path, leaked, "--dry-run") == said
    assert clone.repo.git.has_commit(leaked)


def test_it_refuses_what_is_no_repository_and_no_commit(clone, leaked):
    assert "no repository" in refusal("teams/acme/nothing", leaked)
    assert "no repository" in refusal("nonsense", leaked)
    assert "40 hexadecimal" in refusal(clone.repo.path, "main")
    assert "40 hexadecimal" in refusal(clone.repo.path, leaked[:12])


def test_a_push_under_way_comes_first(clone, leaked, alice):
    let_go(clone, leaked)
    open_journal(actor=alice, repo=clone.repo, moves=[("refs/heads/x", ZERO, leaked)])
    assert "under way" in refusal(clone.repo.path, leaked)
    assert clone.repo.git.has_commit(leaked)


def test_the_commit_is_gone_from_git_and_from_all_that_is_stored(clone, leaked, tmp_path, events):
    repo, kept = clone.repo, clone.repo.branch_sha("main")
    repo.git.upkeep()  # into the commit-graph, and the refs into one file
    let_go(clone, leaked)
    find_named_commits(repo.pk)
    assert known_commits([(repo.pk, leaked)])
    read_all_pushes()
    assert repo.commit_pushes.filter(sha__in=[kept, leaked]).count() == 2
    assert fetched(tmp_path / "before", repo.git.path, leaked).returncode == 0
    said = told(repo.path, leaked, "--dry-run")
    assert "refs/pull/" in said and "refs/approved/" in said and "nothing has changed" in said
    assert repo.git.has_commit(leaked) and GitCache.objects.exists()
    with events("commit-forgotten") as recorded:
        assert f"{leaked} is gone from teams/acme/api" in told(repo.path, leaked)
    assert (recorded[0].actor, recorded[0].data) == (None, {"sha": leaked})
    assert b"not our ref" in fetched(tmp_path / "after", repo.git.path, leaked).stdout
    assert not repo.git.has_commit(leaked)
    blob = clone.git("hash-object", "--stdin", stdin=SECRET)
    assert repo.git.git("cat-file", "-e", blob, ok=(0, 1)).code == 1
    assert not known_commits([(repo.pk, leaked)])
    assert NamedCommit.objects.filter(name=leaked, sha="").exists()
    assert repo.commit_pushes.filter(sha__in=[kept, leaked]).get().sha == kept
    assert not GitCache.objects.exists()
    assert {*repo.git.refs(pulls=True)} == {"refs/heads/main"}
    assert repo.git.has_commit(kept)
    clone.git("--git-dir", str(repo.git.path), "fsck", "--strict")
    clone.git("--git-dir", str(repo.git.path), "commit-graph", "verify")


def test_what_versions_contain_goes_with_their_heads(clone, leaked, api, alice):
    """The one that has the secret; the one that was pushed after it stays as it is."""
    pull = Pull.objects.get()
    version = f"{clone.repo.api_path}/pulls/{pull.number}"
    clone.commit("topic", {"b": "2\n"}, onto="main")
    clone.push("topic")
    before = api(alice).get(f"{version}/commits?version=1").gives()["results"]
    assert [one["subject"] for one in before] == ["oops"]
    clone.repo.git.git("update-ref", pull_ref(pull.number), clone.sha("topic"))
    clone.repo.git.git("update-ref", "-d", approved_ref(pull.number, leaked))
    told(clone.repo.path, leaked)
    assert not clone.repo.git.has_commit(leaked)
    assert api(alice).get(f"{version}/commits?version=1").gives()["results"] == []
    files = api(alice).get(f"{version}/files?version=1").gives()
    assert (files["results"], files["files_truncated"]) == ([], True)
    assert [one["path"] for one in api(alice).get(f"{version}/files").gives()["results"]] == ["b"]
    assert api(alice).get(f"{version}/versions").gives()["results"][0]["head_sha"] == leaked


def test_no_address_of_the_api_reads_it_any_more(clone, leaked, api, alice):
    """Most were read before, so that there are kept answers to be forgotten."""
    main, repo = clone.sha("main"), clone.repo.api_path
    addresses = [
        *(f"commits/{leaked}", f"commits?ref={leaked}", f"compare/{main}...{leaked}"),
        *(f"tree?ref={leaked}", f"contents/secret?ref={leaked}", f"raw/secret?ref={leaked}"),
        f"blame/secret?ref={leaked}",
    ]
    who = api(alice)
    for one in addresses:
        answer = who.client.get(f"{PREFIX}{repo}/{one}", headers=who.headers)
        assert (one, answer.status_code) == (one, 200)
    let_go(clone, leaked)
    told(clone.repo.path, leaked)
    for one in (*addresses, f"archive?ref={leaked}"):
        assert leaked in who.get(f"{repo}/{one}").fails(404, "not_found")


def test_a_pull_whose_commits_are_gone_says_so(clone, leaked, api, alice):
    """Its rows still name them: as its head, and as a version from which another one differs."""
    pull, repo, who = Pull.objects.get(), clone.repo.api_path, api(alice)
    let_go(clone, leaked)
    told(clone.repo.path, leaked)
    for end in (
        "commits?",
        "tree?",
        "contents/secret?",
        "raw/secret?",
        "blame/secret?",
        "archive?",
    ):
        answer = who.get(f"{repo}/{end}ref={pull_ref(pull.number)}")
        assert leaked in answer.fails(404, "not_found")
    who.get(f"{repo}/pulls/{pull.number}/diff").fails(422, "diff_too_large")
    who.get(f"{repo}/pulls/{pull.number}/patch").fails(422, "diff_too_large")
    assert leaked in who.get(f"{repo}/pulls/{pull.number}/files?from=1").fails(404, "not_found")


def test_no_answer_outlives_it_that_was_asked_for_before(
    clone, leaked, django_capture_on_commit_callbacks
):
    """Who reads meanwhile may have asked git before the commit went, and store what it said after
    the kept answers were dropped: before the removal is committed, or when it is done.
    """
    let_go(clone, leaked)
    with django_capture_on_commit_callbacks() as afterwards:
        told(clone.repo.path, leaked)
        cached(clone.repo, ("before", leaked), lambda: [SECRET])
    for callback in afterwards:
        callback()
    assert not GitCache.objects.exists()

    def ask():
        told(clone.repo.path, leaked)
        return [SECRET]

    assert cached(clone.repo, ("after", leaked), ask) == [SECRET]
    assert not GitCache.objects.exists()


def test_done_again_it_does_what_it_had_not_come_to(clone, leaked):
    let_go(clone, leaked)
    told(clone.repo.path, leaked)
    cached(clone.repo, ("files", leaked), lambda: [SECRET])
    NamedCommit.objects.update(sha=leaked)
    assert "is gone" in told(clone.repo.path, leaked)
    assert not GitCache.objects.exists() and not known_commits([(clone.repo.pk, leaked)])
    assert Event.objects.filter(kind="commit-forgotten").count() == 2

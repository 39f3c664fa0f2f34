"""`manage.py forget_commit` removes a pushed secret from git and from the database."""

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
from apps.pulls.jobs import follow_next_comments
from apps.pulls.models import Pull, PullStatus
from apps.repos.commits import find_named_commits, known_commits
from apps.repos.models import NamedCommit
from apps.repos.pushes import open_journal

SECRET = "hunter2 is the password\n"


@pytest.fixture
def leaked(clone, make, alice):
    """A commit with a secret: the first head of a pull, approved, then replaced by a force push."""
    sha = clone.push_commit("topic", {"secret": SECRET}, onto="main", message="oops")
    make.thread(clone.repo, by=alice, body=f"Look at {sha}")
    pull = make.pull(clone.repo, by=alice, source="topic")
    clone.repo.git.update_ref(approved_ref(pull.number, sha), sha, ZERO)
    clone.repo.git.update_ref(
        pull_ref(pull.number), sha, clone.repo.git.ref(pull_ref(pull.number)) or ZERO
    )
    cached(clone.repo, ("files", sha), lambda: [SECRET])
    return sha


def run_command(*arguments):
    stdout = StringIO()
    call_command("forget_commit", *arguments, stdout=stdout)
    return stdout.getvalue()


def refusal(*arguments):
    with pytest.raises(CommandError) as caught:
        run_command(*arguments)
    return str(caught.value)


def fetch(folder, path, sha):
    """The output of a git client that fetches a commit by its name, with protocol version 2."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    run(["git", "init", "--quiet", folder], env=env, check=True)
    command = ["git", "-c", "protocol.version=2", "fetch", "--quiet", f"file://{path}", sha]
    return run(command, cwd=folder, env=env, stdout=PIPE, stderr=STDOUT, check=False)


def let_go(clone, sha):
    """Delete the branch and close the pull, as the refusals say."""
    clone.git("push", "--quiet", str(clone.repo.git.path), ":topic")
    clone.repo.refs.filter(full_name="refs/heads/topic").delete()
    Pull.objects.update(status=PullStatus.CLOSED)
    assert not clone.repo.git.ref("refs/heads/topic")


def test_it_refuses_while_something_shown_leads_to_the_commit(clone, leaked):
    path = clone.repo.path
    clone.git("push", "--quiet", str(clone.repo.git.path), f"{leaked}:refs/tags/v1")
    output = refusal(path, leaked)
    assert "branch topic contains the commit" in output and "tag v1 contains the commit" in output
    assert re.search(r"pull \d+ contains the commit", output)
    assert refusal(path, leaked, "--dry-run") == output
    assert clone.repo.git.has_commit(leaked)


def test_it_refuses_what_is_no_repository_and_no_commit(clone, leaked):
    assert "no repository" in refusal("teams/acme/nothing", leaked)
    assert "no repository" in refusal("nonsense", leaked)
    assert "40 hexadecimal" in refusal(clone.repo.path, "main")
    assert "40 hexadecimal" in refusal(clone.repo.path, leaked[:12])


def test_a_push_under_way_comes_first(clone, leaked, alice):
    let_go(clone, leaked)
    open_journal(actor=alice, repo=clone.repo, moves=[("refs/heads/x", ZERO, leaked)])
    assert "in progress" in refusal(clone.repo.path, leaked)
    assert clone.repo.git.has_commit(leaked)


def test_the_commit_is_gone_from_git_and_from_all_that_is_stored(clone, leaked, tmp_path, events):
    repo, kept = clone.repo, clone.repo.branch_sha("main")
    repo.git.upkeep()  # writes the commit-graph, and packs the refs
    let_go(clone, leaked)
    find_named_commits(repo.pk)
    assert known_commits([(repo.pk, leaked)])
    read_all_pushes()
    assert repo.commit_pushes.filter(sha__in=[kept, leaked]).count() == 2
    assert fetch(tmp_path / "before", repo.git.path, leaked).returncode == 0
    output = run_command(repo.path, leaked, "--dry-run")
    assert "refs/pull/" in output and "refs/approved/" in output and "nothing has changed" in output
    assert repo.git.has_commit(leaked) and GitCache.objects.exists()
    with events("commit-forgotten") as recorded:
        assert f"{leaked} is gone from teams/acme/api" in run_command(repo.path, leaked)
    assert (recorded[0].actor, recorded[0].data) == (None, {"sha": leaked})
    assert b"not our ref" in fetch(tmp_path / "after", repo.git.path, leaked).stdout
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
    """The version with the secret is emptied; the version pushed after it is unchanged."""
    pull = Pull.objects.get()
    version = f"{clone.repo.api_path}/pulls/{pull.number}"
    clone.push_commit("topic", {"b": "2\n"}, onto="main")
    before = api(alice).get(f"{version}/commits?version=1").gives()["results"]
    assert [row["subject"] for row in before] == ["oops"]
    clone.repo.git.git("update-ref", pull_ref(pull.number), clone.sha("topic"))
    clone.repo.git.git("update-ref", "-d", approved_ref(pull.number, leaked))
    run_command(clone.repo.path, leaked)
    assert not clone.repo.git.has_commit(leaked)
    assert api(alice).get(f"{version}/commits?version=1").gives()["results"] == []
    files = api(alice).get(f"{version}/files?version=1").gives()
    assert (files["results"], files["files_truncated"]) == ([], True)
    assert [row["path"] for row in api(alice).get(f"{version}/files").gives()["results"]] == ["b"]
    assert api(alice).get(f"{version}/versions").gives()["results"][0]["head_sha"] == leaked


def test_no_address_of_the_api_reads_it_any_more(clone, leaked, api, alice):
    """Most are read before the removal, so that their answers are cached."""
    main, repo = clone.sha("main"), clone.repo.api_path
    addresses = [
        *(f"commits/{leaked}", f"commits?ref={leaked}", f"compare/{main}...{leaked}"),
        *(f"tree?ref={leaked}", f"contents/secret?ref={leaked}", f"raw/secret?ref={leaked}"),
        f"blame/secret?ref={leaked}",
    ]
    who = api(alice)
    for address in addresses:
        answer = who.client.get(f"{PREFIX}{repo}/{address}", headers=who.headers)
        assert (address, answer.status_code) == (address, 200)
    let_go(clone, leaked)
    run_command(clone.repo.path, leaked)
    for address in (*addresses, f"archive?ref={leaked}"):
        assert leaked in who.get(f"{repo}/{address}").fails(404, "not_found")


def test_a_pull_whose_commits_are_gone_says_so(clone, leaked, api, alice):
    """Its rows still contain the names of removed commits."""
    pull, repo, who = Pull.objects.get(), clone.repo.api_path, api(alice)
    let_go(clone, leaked)
    run_command(clone.repo.path, leaked)
    for end in ("commits", "tree", "contents/secret", "raw/secret", "blame/secret", "archive"):
        answer = who.get(f"{repo}/{end}?ref={pull_ref(pull.number)}")
        assert leaked in answer.fails(404, "not_found")
    who.get(f"{repo}/pulls/{pull.number}/diff").fails(422, "diff_too_large")
    who.get(f"{repo}/pulls/{pull.number}/patch").fails(422, "diff_too_large")
    for end in ("files?from=1", "compare/1...1"):
        assert leaked in who.get(f"{repo}/pulls/{pull.number}/{end}").fails(404, "not_found")


def test_a_draft_loses_its_snippet_and_can_still_be_sent(clone, leaked, api, alice):
    pull, who = Pull.objects.get(), api(alice)
    draft = f"{clone.repo.api_path}/pulls/{pull.number}/reviews/draft"
    place = {"commit_sha": leaked, "path": "secret", "line": 1}
    made = who.post(f"{draft}/comments", body="Remove this.", **place).gives(201)
    assert made["anchor"]["snippet"] == [SECRET.strip()]
    who.get(f"{clone.repo.api_path}/pulls/{pull.number}/compare/1...1").gives()
    let_go(clone, leaked)
    run_command(clone.repo.path, leaked)
    assert SECRET.strip() not in str(who.get(draft).gives())
    who.post(f"{draft}/submit", status="commented").gives(201)
    follow_next_comments()
    number = pull.thread.replies.get().number
    reply = who.get(f"{clone.repo.api_path}/threads/{pull.number}/replies/{number}").gives()
    assert (reply["body"], reply["anchor"]["snippet"]) == ("Remove this.", [])


def test_no_answer_outlives_it_that_was_asked_for_before(
    clone, leaked, django_capture_on_commit_callbacks
):
    """A concurrent read may cache an answer after the cache was emptied, before the commit or
    after.
    """
    let_go(clone, leaked)
    with django_capture_on_commit_callbacks() as afterwards:
        run_command(clone.repo.path, leaked)
        cached(clone.repo, ("before", leaked), lambda: [SECRET])
    for callback in afterwards:
        callback()
    assert not GitCache.objects.exists()

    def ask():
        run_command(clone.repo.path, leaked)
        return [SECRET]

    assert cached(clone.repo, ("after", leaked), ask) == [SECRET]
    assert not GitCache.objects.exists()


def test_done_again_it_does_what_it_had_not_come_to(clone, leaked):
    let_go(clone, leaked)
    run_command(clone.repo.path, leaked)
    cached(clone.repo, ("files", leaked), lambda: [SECRET])
    NamedCommit.objects.update(sha=leaked)
    assert "is gone" in run_command(clone.repo.path, leaked)
    assert not GitCache.objects.exists() and not known_commits([(clone.repo.pk, leaked)])
    assert Event.objects.filter(kind="commit-forgotten").count() == 2

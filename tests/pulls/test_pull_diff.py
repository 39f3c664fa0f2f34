"""`GET …/pulls/{number}/diff` and `/patch`: a pull as text."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing

import pytest

from apps.core.slugs import PREFIX
from apps.git import run
from apps.git.run import LIMITS, Limits
from tests.pulls import paths


@pytest.fixture
def text(api):
    """`text(alice, url)`: the bytes of the response, from which browsers execute nothing."""

    def read(person, url):
        answer = api(person).client.get(PREFIX + url, headers=api(person).headers)
        assert answer.status_code == 200
        kind = "text/x-diff" if "/diff" in url else "text/plain; charset=utf-8"
        assert answer.headers["Content-Type"] == kind
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Cache-Control"] == "private, no-cache"
        body = answer.getvalue()
        assert answer.headers["Content-Length"] == str(len(body))
        return body

    return read


def applied(clone, base, diff):
    """The tree that `git apply` makes from the tree of `base`."""
    index = {"GIT_INDEX_FILE": str(clone.folder / "another-index"), "PATH": os.environ["PATH"]}

    def git(*args, stdin=b""):
        command = ["git", f"--git-dir={clone.repo.git.path}", *args]
        done = subprocess.run(command, env=index, input=stdin, capture_output=True, check=True)
        return done.stdout.decode().strip()

    git("read-tree", base)
    git("apply", "--cached", "--whitespace=nowarn", "-", stdin=diff)
    return git("write-tree")


def test_the_diff_makes_the_tree_of_the_head_from_the_merge_base(pull, clone, alice, text):
    base = clone.sha("main")
    files = {"README": "A place\r\nto meet.", "binary": "\0\1" * 99, "empty": "", "café": "é\n"}
    head = clone.push_commit("feature", files)
    clone.push_commit("main", {"gate": "1\n"})
    diff = text(alice, f"{paths.pull(pull)}/diff")
    assert applied(clone, base, diff) == clone.git("rev-parse", f"{head}^{{tree}}")
    assert b"gate" not in diff


def test_the_diff_of_a_version_stays_what_it_was(api, pull, clone, alice, text):
    url = f"{paths.pull(pull)}/diff"
    first = text(alice, url)
    clone.push_commit("feature", {"window": "1\n"}, onto="main")
    second = text(alice, url)
    assert (b"window" in second, b"arch" in second) == (True, False)
    api(alice).post(f"{paths.pull(pull)}/merge").gives()
    assert (text(alice, url), text(alice, f"{url}?version=1")) == (second, first)
    api(alice).get(f"{url}?version=3").fails(404, "not_found")


def test_the_patches_are_the_commits_oldest_first(pull, clone, alice, text):
    clone.push_commit("feature", {"window": "1\n"}, message="add a window")
    mails = text(alice, f"{paths.pull(pull)}/patch")
    subjects = [line for line in mails.splitlines() if line.startswith(b"Subject: ")]
    assert subjects == [b"Subject: [PATCH 1/2] add an arch", b"Subject: [PATCH 2/2] add a window"]
    first = text(alice, f"{paths.pull(pull)}/patch?version=1")
    assert b"Subject: [PATCH] add an arch" in first and b"window" not in first


def test_a_pull_without_a_head_has_an_empty_text(bare_pull, carol, text):
    for name in ("diff", "patch"):
        assert text(carol, f"{paths.pull(bare_pull)}/{name}") == b""


@pytest.mark.parametrize("limit", [Limits(output=10), Limits(deadline=0)])
@pytest.mark.parametrize("name", ["diff", "patch"])
def test_what_is_too_large_is_refused_before_the_first_byte_and_then_at_once(
    api, pull, alice, monkeypatch, name, limit
):
    url = f"{paths.pull(pull)}/{name}"
    with monkeypatch.context() as impatient:
        impatient.setitem(LIMITS, {"diff": "diff-tree", "patch": "format-patch"}[name], limit)
        said = api(alice).get(url).fails(422, "diff_too_large")
    assert f"git fetch origin refs/pull/{pull.number}/head" in said
    before = run.spawned
    api(alice).get(url).fails(422, "diff_too_large")
    assert run.spawned == before


@pytest.mark.slow
def test_servers_stream_it(server, git, path):
    """A diff of a megabyte, under WSGI and under ASGI."""
    work, api = git(), server.api("alice")
    work.commit("a.txt", "begin\n")
    work("push", "--quiet", work.url, "HEAD:main")
    work.commit("b.txt", "".join(f"line {number}\n" for number in range(100_000)))
    work("push", "--quiet", work.url, "HEAD:topic")
    owner, slug = path.rsplit("/", 1)
    pulls = f"/{owner}/repos/{slug}/pulls"
    branches = {"source_branch": "topic", "target_branch": "main"}
    made = api.post(pulls, title="Long", body="", **branches).gives(201)
    wanted = work("diff", "--full-index", "HEAD~1", "HEAD")
    headers = {"Authorization": f"Bearer {server.token('alice')}"}
    with closing(server.connect()) as connection:
        connection.request("GET", f"{PREFIX}{pulls}/{made['number']}/diff", headers=headers)
        assert connection.getresponse().read().decode().strip() == wanted

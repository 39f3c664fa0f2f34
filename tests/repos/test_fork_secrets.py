"""Readers of a fork cannot fetch hidden commits of its upstream, with the real git and each
protocol.
"""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest

from tests.gitclient import Git
from tests.repos.test_git_http import api_path
from tests.waiting import eventually

pytestmark = pytest.mark.one_server

REFUSED = re.compile("not our ref|unadvertised object|couldn't find remote ref")


@pytest.fixture
def secrets(server, path, git):
    """Commits of a private repository that no branch reaches; one is a pull's head."""
    ours, pulls = git(), f"{api_path(path)}/pulls"
    ours.commit()
    ours("push", "--quiet", ours.url, "main")
    names = [ours.commit("secret.txt") for _ in range(2)]
    ours("push", "--quiet", ours.url, f"{names[0]}:refs/heads/topic")
    body = {"title": "Topic", "body": "", "source_branch": "topic", "target_branch": "main"}
    server.api("alice").post(pulls, **body).gives(201)
    ours("push", "--quiet", ours.url, f"{names[1]}:refs/heads/lost")
    ours("push", "--quiet", ours.url, ":topic", ":lost")
    return names


@pytest.fixture
def fork(server, path) -> str:
    """The URL of a fork in a team where carol may read. She may not read its upstream."""
    team, alice = f"t{uuid4().hex[:12]}", server.api("alice")
    alice.post("/teams", name=team, slug=team).gives(201)
    alice.post(f"/teams/{team}/members", username="carol", role="viewer").gives(201)
    requested = alice.post(f"{api_path(path)}/forks?team_slug={team}").gives(201)
    if "DATABASE_URL" in server.environment:  # if the worker is not a thread of the server
        server.run("from apps.repos.jobs import make_next_fork; make_next_fork()")

    def made() -> Any:
        record = alice.get(f"/forks/{requested['uuid']}").gives()
        assert record["status"] != "failed", record["error"]
        return record["status"] == "completed" and record["repo_path"]

    return f"{server.url}/{eventually(made)}.git"


@pytest.mark.slow
def test_no_commit_of_the_upstream_that_no_branch_reaches_comes_through_a_fork(
    server, git, secrets, fork, tmp_path
):
    ours = git()
    carol = Git(tmp_path / "carol", fork, server.token("carol"))
    assert "You have no access" in carol.fails("ls-remote", git("carol").url)
    ours("-c", "protocol.version=2", "fetch", "--quiet", ours.url, *secrets)
    for version in "02":
        speaking = ("-c", f"protocol.version={version}")
        carol(*speaking, "fetch", "--quiet", carol.url, "main")
        assert carol(*speaking, "ls-remote", carol.url).count("refs/") == 1
        for ref in (*secrets, "refs/pull/1/head", "refs/heads/topic"):
            output = carol.fails(*speaking, "fetch", carol.url, ref)
            assert REFUSED.search(output), output
    for sha in secrets:
        carol.fails("cat-file", "-e", sha)

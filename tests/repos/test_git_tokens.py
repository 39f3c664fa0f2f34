"""git with tokens of each permission, and with limited ones."""

from __future__ import annotations

import pytest

from tests.gitclient import Git
from tests.repos.test_git_http import api_path, events_of

pytestmark = pytest.mark.one_server


@pytest.fixture
def by_token(server, path, tmp_path):
    """A work tree of alice with a token of this scope."""

    def make(name, **scope):
        made = server.api("alice").post("/api-tokens", name=name, **scope).gives(201)
        return Git(tmp_path / name, f"{server.url}/{path}.git", made["token"])

    return make


def test_a_token_that_reads_fetches_and_does_not_push(server, path, ours, by_token):
    reading = by_token("deploy", permission="read", repo_paths=[path])
    reading("pull", "--quiet", reading.url, "main")
    before, sha = events_of(server, path), reading.commit()
    told = reading.fails("push", reading.url, "main")
    assert "remote: This needs a token with write permission; this one has read." in told
    assert events_of(server, path) == before
    assert server.api("alice").get(f"{api_path(path)}/branches/main").gives()["sha"] != sha


def test_a_token_that_writes_pushes_to_its_repository_alone(server, path, ours, by_token):
    owner, name, _ = path.split("/")
    values = {"name": "Elsewhere", "slug": f"elsewhere-{path.rpartition('/')[2]}"}
    other = server.api("alice").post(f"/{owner}/{name}/repos", **values).gives(201)
    elsewhere = by_token("elsewhere", permission="write", repo_paths=[other["path"]])
    elsewhere.commit()
    for permission, command in (
        ("write", ("push", elsewhere.url, "HEAD:refs/heads/topic")),
        ("read", ("fetch", elsewhere.url, "main")),
    ):
        needs = f"remote: This needs a token with {permission} permission that is not limited to"
        assert f"{needs} other repositories." in elsewhere.fails(*command)
    writing = by_token("ci", permission="write", repo_paths=[path])
    sha = writing.commit()
    writing("push", "--quiet", writing.url, "HEAD:refs/heads/topic")
    assert server.api("alice").get(f"{api_path(path)}/branches/topic").gives()["sha"] == sha

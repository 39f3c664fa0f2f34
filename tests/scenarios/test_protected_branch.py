"""A protected branch from its first push to a merge, with real git and a real server."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.gitclient import Git

pytestmark = pytest.mark.one_server


@pytest.fixture
def slug(server):
    """A team of alice's with an empty repository `api`. bob is a member."""
    slug, alice = f"p{uuid4().hex[:10]}", server.api("alice")
    alice.post("/teams", name="Acme", slug=slug).gives(201)
    alice.post(f"/teams/{slug}/members", username="bob", role="member").gives(201)
    alice.post(f"/teams/{slug}/repos", name="Api", slug="api").gives(201)
    return slug


@pytest.fixture
def git(server, slug, tmp_path):
    """A working tree of this person."""
    url = f"{server.url}/teams/{slug}/api.git"
    return lambda person: Git(tmp_path / uuid4().hex, url, server.token(person))


@pytest.mark.slow
def test_a_protected_branch_changes_by_merging_what_was_approved(server, slug, git):
    alice, bob = server.api("alice"), server.api("bob")
    repo, hers = f"/teams/{slug}/repos/api", git("alice")
    made = alice.post(f"{repo}/protections", branch="main").gives(201)
    approvers = f"{repo}/protections/{made['uuid']}/approvers"
    alice.post(approvers, username="bob").gives(201)
    hers.commit("README")
    hers("push", "--quiet", hers.url, "main")
    hers.commit("gate")
    assert "main -> main (protected branch)" in hers.fails("push", hers.url, "main")
    hers("push", "--quiet", hers.url, "main:topic")
    pull = opened(alice, repo)
    assert alice.post(f"{pull}/merge").json["error"] == "approval_required"
    assert alice.get(f"{pull}/protection").gives()["pending_approvers"] == ["bob"]
    bob.post(f"{pull}/reviews", status="approved").gives(201)
    hers("commit", "--quiet", "--amend", "--message", "Write a gate, better said")
    hers("push", "--quiet", "--force", hers.url, "main:topic")
    assert alice.get(f"{pull}/protection").gives()["approval_count"] == 1
    hers.commit("window")
    hers("push", "--quiet", hers.url, "main:topic")
    assert alice.get(f"{pull}/protection").gives()["blocked_reasons"] == ["approval_required"]
    bob.post(f"{pull}/reviews", status="approved").gives(201)
    merged = alice.post(f"{pull}/merge", merge_strategy="squash").gives()
    assert hers("ls-remote", hers.url, "refs/heads/main").split()[0] == merged["merge_commit_sha"]


def opened(person, repo):
    """A pull of `topic` into `main`."""
    body = {"title": "A gate", "body": "", "source_branch": "topic", "target_branch": "main"}
    return f"{repo}/pulls/{person.post(f'{repo}/pulls', **body).gives(201)['number']}"

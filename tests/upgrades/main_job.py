"""The main job of people on a server: from the sign-in to a merged pull and a discussion."""

from __future__ import annotations

import re
from pathlib import Path

from tests.gitclient import Git
from tests.server import Remote, Server
from tests.tail import opened
from tests.web.form_client import FormClient

PASSWORD = "correct horse battery"
CREATE = """
from apps.accounts.actions import create_user
create_user(principal=None, username={name!r}, password={password!r})
"""
KINDS = [
    "repo-created",
    "branch-created",
    "branch-created",
    "pull-created",
    "review-created",
    "branch-pushed",
    "pull-merged",
    "thread-created",
    "reply-created",
    "reply-created",
    "reply-updated",
]


def main_job(server: Server, watched: Server, folder: Path, name: str) -> None:
    """A new person of this name does it on `server`, with bob. `watched` is a server of the same
    site, perhaps of another version, whose stream has to show every step.
    """
    server.run(CREATE.format(name=name, password=PASSWORD))
    server.tokens[name] = watched.tokens[name] = token_by_page(server, name)
    person, bob = server.api(name), server.api("bob")
    person.post("/teams", name="Team", slug=name).gives(201)
    person.post(f"/teams/{name}/members", username="bob", role="member").gives(201)
    person.post(f"/teams/{name}/repos", name="Api", slug="api").gives(201)
    repo = f"/teams/{name}/repos/api"
    git = Git(folder, f"{server.url}/teams/{name}/api.git", server.token(name))
    pull_and_merge(git, person, bob, repo)
    discuss(person, bob, repo)
    with opened(watched, name, f"scope=repo:teams/{name}/api&last_event_id=0") as stream:
        assert stream.kinds(len(KINDS)) == KINDS


def token_by_page(server: Server, name: str) -> str:
    """Sign in on the page, and create a token on the page of settings."""
    browser = FormClient(server)
    assert browser.send("/signin", username=name, password="guessed").status == 422
    assert browser.send("/signin", username=name, password=PASSWORD).location == "/"
    scope = {"permission": "admin", "reach": "all"}
    made = browser.send("/settings/tokens", name="laptop", expires_at="90 days", **scope)
    assert made.status == 201
    return str(re.findall(r'value="(ght_\w+)"', made.html)[0])


def pull_and_merge(git: Git, person: Remote, bob: Remote, repo: str) -> None:
    git.commit("a.txt", "one\n")
    git("push", "--quiet", git.url, "main")
    git("checkout", "--quiet", "-b", "topic")
    commit = git.commit("a.txt", "one\ntwo\n")
    git("push", "--quiet", git.url, "topic")
    body = {"title": "Two", "body": "", "source_branch": "topic", "target_branch": "main"}
    number = person.post(f"{repo}/pulls", **body).gives(201)["number"]
    bob.post(f"{repo}/pulls/{number}/reviews", status="approved", body="Good.").gives(201)
    merged = person.post(f"{repo}/pulls/{number}/merge").gives()["merge_commit_sha"]
    git("fetch", "--quiet", git.url, "main")
    assert git("rev-parse", "FETCH_HEAD", "FETCH_HEAD^2").split() == [merged, commit]


def discuss(person: Remote, bob: Remote, repo: str) -> None:
    body = {"title": "Three?", "body": "After #1.", "kind": "question"}
    thread = f"{repo}/threads/{person.post(f'{repo}/threads', **body).gives(201)['number']}"
    bob.post(f"{thread}/replies", kind="answer", body="Yes.").gives(201)
    nested = {"kind": "comment", "body": "Soon.", "parent_reply_number": 1}
    person.post(f"{thread}/replies", **nested).gives(201)
    person.patch(f"{thread}/replies/2", body="Tomorrow.").gives()
    replies = bob.get(thread).gives()["replies"]
    assert [(row["depth"], row["body"]) for row in replies] == [(0, "Yes."), (1, "Tomorrow.")]

"""From an empty repository to a merged pull, with a client that follows the live stream.

It uses a real server of each kind, real git, and this project's own history.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from tests.gitclient import Git
from tests.server import ROOT, Server
from tests.tail import opened


class Story:
    """A team with a repository, people who push to it, and a client that follows its events."""

    def __init__(self, server: Server, watched: Server, folder: Path) -> None:
        self.server, self.watched, self.folder = server, watched, folder
        self.slug = f"s{uuid4().hex[:10]}"
        self.alice, self.bob = server.api("alice"), server.api("bob")
        self.received: list[tuple[int, str]] = []
        self.alice.post("/teams", name="Acme", slug=self.slug).gives(201)
        self.alice.post(self.members, username="bob", role="member").gives(201)
        self.alice.post(f"/teams/{self.slug}/repos", name="Api", slug="api").gives(201)
        self.scope = f"repo:teams/{self.slug}/api"
        self.repo = f"/teams/{self.slug}/repos/api"

    @property
    def members(self) -> str:
        return f"/teams/{self.slug}/members"

    def git(self, person: str) -> Git:
        url = f"{self.server.url}/teams/{self.slug}/api.git"
        return Git(self.folder / uuid4().hex, url, self.server.token(person))

    def watch(self, *kinds: str) -> None:
        """Resume the stream, receive exactly these events, and disconnect."""
        after = self.received[-1][0] if self.received else 0
        query = f"scope={self.scope}&last_event_id={after}"
        with opened(self.watched, "bob", query) as stream:
            frames = stream.take(len(kinds))
        assert [frame.kind for frame in frames] == list(kinds)
        self.received += [(frame.id, frame.kind) for frame in frames]

    def pull(self, title: str, source: str) -> str:
        body = {"title": title, "body": "", "source_branch": source, "target_branch": "main"}
        made = self.bob.post(f"{self.repo}/pulls", **body).gives(201)
        return f"{self.repo}/pulls/{made['number']}"


@pytest.fixture
def story(server, tmp_path, tmp_path_factory):
    """A story on each server. With gunicorn, which serves WSGI, another process has the stream."""
    with ExitStack() as running:
        watched = server
        if server.kind == "gunicorn":
            folder = tmp_path_factory.mktemp("stream")
            watched = running.enter_context(Server(folder, "gunicorn-asgi", beside=server))
        yield Story(server, watched, tmp_path)


def push_history(git: Git) -> None:
    """Push this project's history, and two branches on top of it that conflict."""
    git("pull", "--quiet", str(ROOT), "HEAD")
    git.commit("notes.txt", "one\n")
    git("push", "--quiet", git.url, "main")
    git("checkout", "--quiet", "-b", "clean")
    git.commit("notes.txt", "one\ntwo\n")
    git("checkout", "--quiet", "-b", "rival", "main")
    git.commit("notes.txt", "another\n")
    git("push", "--quiet", git.url, "clean", "rival")


def test_from_an_empty_repository_to_a_merged_pull(story):
    story.watch("repo-created")
    git = story.git("bob")
    push_history(git)
    story.watch("branch-created", "branch-created", "branch-created")
    clean, rival = story.pull("Add two", "clean"), story.pull("Start again", "rival")
    story.watch("pull-created", "pull-created")
    discuss(story, clean)
    story.alice.post(f"{clean}/reviews", status="approved", body="Good.").gives(201)
    story.watch("review-created")
    merged = story.alice.post(f"{clean}/merge").gives()
    story.watch("branch-pushed", "pull-merged")
    refused = story.alice.post(f"{rival}/merge")
    refused.fails(409, "merge_conflict")
    assert refused.json["conflict_paths"] == ["notes.txt"]
    resolve_conflict(story, git, rival, merged["merge_commit_sha"])
    everything_once_and_in_order(story)


def discuss(story: Story, pull: str) -> None:
    """Replies nest. When one in the middle is deleted, the reply below it keeps its position."""
    thread = pull.replace("/pulls/", "/threads/")
    replies = f"{thread}/replies"
    for person, parent in ((story.bob, None), (story.alice, 1), (story.bob, 2)):
        below = {"parent_reply_number": parent} if parent else {}
        person.post(replies, kind="comment", body="Because.", **below).gives(201)
    story.alice.delete(f"{replies}/2").gives(204)
    records = story.bob.get(thread).gives()["replies"]
    expected = [(1, 0, False), (2, 1, True), (3, 2, False)]
    assert [(reply["number"], reply["depth"], reply["is_deleted"]) for reply in records] == expected
    story.alice.delete(f"{replies}/2").fails(409, "reply_already_deleted")
    story.watch("reply-created", "reply-created", "reply-created", "reply-deleted")


def resolve_conflict(story: Story, git: Git, pull: str, target: str) -> None:
    """Merge the target into the source by hand, push, and merge the pull."""
    git("fetch", "--quiet", git.url, "main")
    assert git("rev-parse", "FETCH_HEAD") == target
    git("checkout", "--quiet", "rival")
    git("merge", "--quiet", "--strategy-option=ours", "FETCH_HEAD")
    git("push", "--quiet", git.url, "rival")
    story.watch("branch-pushed", "pull-pushed")
    squashed = story.alice.post(f"{pull}/merge", merge_strategy="squash").gives()
    assert squashed["pull"]["status"] == "merged"
    story.watch("branch-pushed", "pull-merged")
    git("fetch", "--quiet", git.url, "main")
    assert git("show", "FETCH_HEAD:notes.txt") == "another"


def everything_once_and_in_order(story: Story) -> None:
    """The resumed streams together received the events of the list, each event once."""
    listed = story.bob.get(f"/events?scope={story.scope}&per_page=100").gives()["results"]
    feed = [(event["id"], event["kind"]) for event in reversed(listed)]
    assert story.received == feed
    assert [number for number, _ in feed] == sorted({number for number, _ in feed})

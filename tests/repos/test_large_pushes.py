"""A push of thousands of tags to a real server does not block another person's writes."""

from __future__ import annotations

import subprocess
import time
from threading import Event, Thread
from typing import Any

import pytest

from apps.repos.pushes import BATCH
from tests.repos.test_git_http import api_path

pytestmark = pytest.mark.slow
TAGS = [5 * BATCH, pytest.param(9_500, marks=[pytest.mark.long])]
TURNS = 5
LONGEST = 15.0
"""Seconds that no write may take. The server gives up after 20."""


class Writer(Thread):
    """Opens threads one after the other until stopped, and collects answers other than 201."""

    def __init__(self, client, url):
        super().__init__()
        self.client, self.url = client, url
        self.over, self.waits, self.refused = Event(), [], []

    def run(self):
        while not self.over.wait(0.01):
            begin = time.monotonic()
            answer = self.client.post(self.url, title="x", body="y", kind="discussion")
            self.waits.append(time.monotonic() - begin)
            if answer.status != 201:
                self.refused.append(answer.json)


def make_tags(git, turn, count):
    sha = git("rev-parse", "HEAD")
    lines = "".join(f"create refs/tags/v{turn}.{number:05} {sha}\n" for number in range(count))
    subprocess.run(
        ["git", "update-ref", "--stdin"], input=lines.encode(), cwd=git.folder, check=True
    )


@pytest.mark.parametrize("tags", TAGS)
def test_others_write_while_thousands_of_tags_are_pushed(server, path, git, tags):
    """Pushes again if no write happened between two batches."""
    ours, alice = git(), server.api("alice")
    ours.commit()
    ours("push", "--quiet", ours.url, "main")
    writers = [Writer(server.api("alice"), f"{api_path(path)}/threads")]
    slug = f"{path.rpartition('/')[2]}-b"
    server.api("bob").post("/users/bob/repos", name="Bob's", slug=slug).gives(201)
    writers.append(Writer(server.api("bob"), f"/users/bob/repos/{slug}/threads"))
    for writer in writers:
        writer.start()
    try:
        last: Any = {"id": 0}
        for turn in range(TURNS):
            make_tags(ours, turn, tags)
            ours("push", "--quiet", ours.url, "--tags")
            first = tag_event(alice, path, f"after_id={last['id']}")
            last = tag_event(alice, path, "before_id=999999999")
            ends = f"after_id={first['id']}&before_id={last['id']}"
            scope = f"/events?scope=repo:{path}&kind=thread-created&per_page=1"
            if between := alice.get(f"{scope}&{ends}").gives()["results"]:
                break
    finally:
        for writer in writers:
            writer.over.set()
            writer.join()
    for writer in writers:
        print(f"turn {turn}: {len(writer.waits)} threads, the slowest in {max(writer.waits):.2f} s")
        assert writer.refused == []
        assert max(writer.waits) < LONGEST
    assert between
    assert len(ours("ls-remote", "--tags", ours.url).splitlines()) == tags * (turn + 1)
    assert last["target"]["name"] == f"v{turn}.{tags - 1:05}"


def tag_event(client, path, end):
    """The first or the last event of a tag, by the order of the page."""
    url = f"/events?scope=repo:{path}&kind=tag-created&per_page=1&{end}"
    return client.get(url).gives()["results"][0]

"""Large pushes, clones, uploads and downloads do not increase the server's memory."""

from __future__ import annotations

import os
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.gitclient import Git
from tests.processes import memory, peak_memory

ROOM = 50_000_000
PLAIN = ("-c", "core.compression=0", "-c", "core.bigFileThreshold=1m")


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("megabytes", [100, pytest.param(500, marks=pytest.mark.long)])
def test_a_large_push_and_a_clone_of_it_leave_memory_flat(megabytes, server, tmp_path):
    server.api("alice").post("/users/alice/repos", name="Big", slug="big").gives(201)
    git = Git(tmp_path / "ours", f"{server.url}/users/alice/big.git", server.token("alice"))
    git.commit("small.txt")
    git("push", "--quiet", git.url, "main")
    git("clone", "--quiet", "--bare", git.url, "warm")
    before = peak_memory(*server.pids)
    with (git.folder / "noise").open("wb") as noise:
        for _ in range(megabytes // 10):
            noise.write(os.urandom(10_000_000))
    git(*PLAIN, "add", "noise")
    git(*PLAIN, "commit", "--quiet", "--message", "Noise")
    git(*PLAIN, "push", "--quiet", git.url, "main")
    after_push = peak_memory(*server.pids)
    git("clone", "--quiet", "--bare", git.url, "clone")
    grown = (after_push - before, peak_memory(*server.pids) - before)
    print(f"{server.kind}: grown by {grown[0]:,} bytes with the push, {grown[1]:,} with the clone")
    assert max(grown) < ROOM


@pytest.mark.slow
@pytest.mark.once
def test_the_memory_of_uploads_and_downloads_is_returned_to_the_system(server):
    alice = server.api("alice")
    server.api("sam").put("/site-settings", rate_limits_enabled=False).gives()
    alice.post("/users/alice/repos", name="Files", slug="files").gives(201)
    file = {"filename": "a.bin", "content_base64": b64encode(os.urandom(6_000_000)).decode()}

    def upload_and_download(_: int) -> bool:
        answer = alice.post("/users/alice/repos/files/uploads", **file)
        if answer.status == 503:  # too many at once
            return False
        address = f"/api/v1/uploads/{answer.gives(201)['uuid']}/content"
        with closing(server.connect()) as connection:
            connection.request("GET", address, headers=alice.headers)
            return len(connection.getresponse().read()) == 6_000_000

    upload_and_download(0)
    before = memory(*server.pids)
    with ThreadPoolExecutor(4) as people:
        finished = sum(people.map(upload_and_download, range(40)))
    grown = memory(*server.pids) - before
    print(f"{server.kind}: grown by {grown:,} bytes with {finished} files")
    assert finished > 20
    assert grown < ROOM

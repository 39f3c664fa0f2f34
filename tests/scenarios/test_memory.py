"""A large push, and a clone of it, do not increase the server's memory."""

from __future__ import annotations

import os

import pytest

from tests.gitclient import Git
from tests.processes import peak_memory

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

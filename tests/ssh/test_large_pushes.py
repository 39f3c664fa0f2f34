"""Large pushes over SSH, and a server that is killed during one."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

import pytest

from tests.processes import git_processes, memory, peak_memory
from tests.ssh.conftest import Keys
from tests.waiting import eventually

MEGABYTES = 60
GROWTH = 33_000_000
"""Bytes of memory: modules that the first push loads, and buffers."""
pytestmark = [pytest.mark.slow, pytest.mark.once]


def descendants(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = [int(word) for word in file.read().split()]
    return [pid, *(one for child in children for one in descendants(child))]


def test_a_push_that_is_cut_off_by_a_kill_leaves_a_repository_that_takes_it_again(
    new_server, tmp_path
):
    with new_server(tmp_path, SSH_ADDRESS="127.0.0.1:0") as server:
        (tmp_path / "keys").mkdir()
        keys = Keys(tmp_path / "keys", server)
        server.api("alice").post("/users/alice/repos", name="Api", slug="api").gives(201)
        git = keys.work_tree(keys.add("alice"), "users/alice/api")
        (git.folder / "large").write_bytes(os.urandom(10_000_000))
        sha = git.commit()
        pushing = subprocess.Popen(
            ["git", "push", git.url, "main"],
            cwd=git.folder,
            env={"PATH": os.environ["PATH"], "GIT_SSH_COMMAND": git.command, "HOME": "/nowhere"},
            stderr=subprocess.DEVNULL,
        )
        tree = eventually(
            lambda: [
                pid
                for pid in descendants(server.process.pid)
                if any("receive-pack --stateless-rpc /" in line for line in git_processes(pid))
            ]
        )
        assert tree
        for pid in descendants(server.process.pid):
            if pid != server.process.pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
        server.kill()
        assert pushing.wait(60) != 0
        server.start()
        assert git("ls-remote", keys.url + "/users/alice/api.git") == ""
        git("push", "--quiet", keys.url + "/users/alice/api.git", "main")
        assert git("ls-remote", keys.url + "/users/alice/api.git", "main").split()[0] == sha
        events = server.api("alice").get("/events?scope=repo:users/alice/api").gives()["results"]
        assert [event["kind"] for event in events].count("branch-created") == 1


def test_a_large_push_and_its_clone_leave_memory_flat(new_server, tmp_path):
    """git takes the bytes more slowly than the client sends them."""
    with new_server(tmp_path, SSH_ADDRESS="127.0.0.1:0", WEB_CONCURRENCY="1") as server:
        (tmp_path / "keys").mkdir()
        keys = Keys(tmp_path / "keys", server)
        server.api("alice").post("/users/alice/repos", name="Api", slug="api").gives(201)
        git = keys.work_tree(keys.add("alice"), "users/alice/api")
        (git.folder / "large").write_bytes(os.urandom(MEGABYTES * 1_000_000))
        git.commit()
        assert git("ls-remote", git.url) == ""
        pids = descendants(server.process.pid)
        before = memory(*pids)
        git("push", "--quiet", git.url, "main")
        git("clone", "--quiet", "--bare", git.url, "copy")
        assert peak_memory(*pids) - before < GROWTH

"""Commits that are small when pushed and large when read: answers need little memory."""

from __future__ import annotations

import os

import pytest

from apps.git.diff import FILES_MAX
from tests.processes import peak_memory

pytestmark = [pytest.mark.slow, pytest.mark.once]
MIB = 1024 * 1024
MANY = 200_000


@pytest.fixture
def get(api, team_repo, alice):
    """`get("tree")` checks that the answer is no 500 and takes at most 64 MiB of memory."""

    def ask(end):
        before = peak_memory(os.getpid())
        answer = api(alice).get(f"{team_repo.api_path}/{end}")
        assert peak_memory(os.getpid()) - before < 64 * MIB
        return answer

    return ask


def test_a_bomb_of_trees(get, code):
    bomb = code.commit_of(code.tree_bomb())
    assert len(get(f"tree?ref={bomb}").gives()["results"]) == 12
    assert get(f"tree?ref={bomb}&recursive=true&sizes=true").gives()["is_truncated"]
    path = "/".join(["00"] * 8)
    assert len(get(f"tree/{path}?ref={bomb}").gives()["results"]) == 12
    assert get(f"contents/{path}/00?ref={bomb}").gives()["size"] == 1
    assert get(f"commits?ref={bomb}").gives()["results"]
    assert get(f"commits?ref={bomb}&path={path}").gives()["results"]
    assert get(f"commits/{bomb}").json["error"] in {"too_expensive", "diff_too_large"}


def test_a_blob_of_600_mebibytes(get, code):
    sha = code.commit_of(code.tree("100644", {"zeros": code.zeros(600)}))
    [entry] = get(f"tree?ref={sha}&sizes=true").gives()["results"]
    assert entry["size"] == 600 * MIB
    assert get(f"contents/zeros?ref={sha}").gives()["is_binary"]
    get(f"raw/zeros?ref={sha}").fails(422, "file_too_large")
    record = get(f"commits/{sha}").gives()
    assert record["stats"]["changed_files"] == 1
    [file] = record["files"]["results"]
    assert (file["is_binary"], file["is_too_large"], file["additions"]) == (True, True, None)


def test_a_commit_of_200_000_files(get, code):
    blob = code.store("blob", [b"x\n"], 2)
    sha = code.commit_of(code.tree("100644", {f"{n:06}": blob for n in range(MANY)}))
    page = get(f"tree?ref={sha}&page=1000&per_page=100&sizes=true").gives()
    assert (page["results"][-1]["path"], page["next"]) == ("099999", None)
    assert page["is_truncated"]
    assert get(f"contents/199999?ref={sha}").gives()["size"] == 2  # only lists are cut
    answer = get(f"commits/{sha}?per_page=100&page=30")
    if answer.status == 422:  # a busy machine could not count all lines in time
        answer.fails(422, "too_expensive")
        return
    record = answer.gives()
    assert record["stats"] == {"additions": MANY, "deletions": 0, "changed_files": MANY}
    assert record["files"]["results"][-1]["path"] == f"{FILES_MAX - 1:06}"
    assert (record["files"]["next"], record["files"]["files_truncated"]) == (None, True)

"""Whether git, rows, events and folders of a site agree, and have all that people saw reported.

`facts` are those of facts.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from apps.repos.rules import ZERO
from tests.scenarios.people import SharedState
from tests.scenarios.site import LEFTOVERS, Site


def check_chains(facts: dict[str, Any], *, has_actors: bool = True) -> None:
    """Stored heads equal git's, and the events of each ref form a chain to its head."""
    beginnings = {fork["repo"]: fork["upstream"] for fork in facts["forks"]}
    for uuid, repo in facts["repos"].items():
        assert repo["stored"] == repo["git"]
        upstream = facts["repos"].get(beginnings.get(uuid), {"moves": []})
        ever = {(move["ref"], move["after"]) for move in upstream["moves"]}
        last: dict[str, str | None] = {}
        for move in repo["moves"]:
            ref, before = move["ref"], move["before"]
            assert before == last.get(ref) or (ref not in last and (ref, before) in ever), move
            assert move["actor"] is not None or not has_actors, f"{move} has no actor"
            last[ref] = move["after"]
        for ref, sha in repo["stored"].items():
            assert last.get(ref) == sha or (ref not in last and (ref, sha) in ever), ref
        assert {ref for ref, sha in last.items() if sha} <= set(repo["stored"])


def check_reported(facts: dict[str, Any], people: Iterable[Any]) -> None:
    """All updates that a person saw reported are in the events, in the same order."""
    written: dict[tuple[str, str], list[str]] = {}
    for uuid, repo in facts["repos"].items():
        for move in repo["moves"]:
            written.setdefault((uuid, move["ref"]), []).append(move["after"] or ZERO)
    for person in people:
        for key in {(update.repo, update.ref) for update in person.reported}:
            rest = iter(written[key])
            for update in person.reported:
                if (update.repo, update.ref) == key:
                    assert update.sha in rest, f"{person.name} saw {update} reported"


def check_ends(facts: dict[str, Any], state: SharedState) -> None:
    """All forks have ended, each merge has one event, and leftovers are of interrupted changes."""
    ends = {fork["uuid"]: fork["status"] for fork in facts["forks"]}
    assert set(ends.values()) <= {"completed", "failed"}
    assert set(state.forks) <= set(ends)
    assert all(fork["error"] for fork in facts["forks"] if fork["status"] == "failed")
    assert len(facts["merged"]) == facts["pull-merged"]
    moved = {
        (uuid, move["ref"], move["after"])
        for uuid, repo in facts["repos"].items()
        for move in repo["moves"]
    }
    assert {tuple(merge) for merge in facts["merged"]} <= moved
    # The journal keeps a step whose push has died until no push can be running any more, also if
    # the push was sent again. A step that git has reported is recorded. An attempt of a merge that
    # died before it moved the ref stays until the next merge.
    assert facts["made"] == 0
    assert "merged" not in facts["attempts"]


def check_disk(site: Site, facts: dict[str, Any]) -> None:
    stores = {Path(repo["store"]) for repo in facts["repos"].values()}
    root = next(iter(stores)).parent.parent.parent
    assert set(root.glob("??/??/*")) == stores
    assert [path for pattern in LEFTOVERS for path in root.glob(pattern)] == []
    assert list(site.temporary.iterdir()) == []
    check_stores(stores)


def check_stores(stores: Iterable[Path]) -> None:
    for store in stores:
        done = subprocess.run(
            ["git", f"--git-dir={store}", "fsck", "--strict", "--no-dangling"],
            check=False,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr

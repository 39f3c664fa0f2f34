"""Copying a repository for a backup: the files, their order, and the lock that keeps objects."""

from __future__ import annotations

from collections.abc import Callable
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest

from apps.git.protocol import ZERO
from apps.git.repo import GitRepo
from apps.git.run import GitError, start_git
from apps.git.store import files_to_copy, is_immutable, remove, tidy_lock
from config.backups.backup import Copier, copy_repository
from tests.git.scratch import Scratch
from tests.waiting import eventually

MAIN = "refs/heads/main"


def copied(repo: Scratch) -> list[str]:
    return [str(path.relative_to(repo.path)) for path in files_to_copy(repo.path)]


def first(names: list[str], start: str) -> int:
    return next(number for number, name in enumerate(names) if name.startswith(start))


def test_refs_are_copied_before_objects_and_loose_before_packed(repo: Scratch) -> None:
    repo.update_ref(MAIN, repo.commit({"a": b"1"}), ZERO)
    repo.upkeep()
    repo.update_ref("refs/heads/late", repo.commit({"a": b"2"}), ZERO)
    names = copied(repo)
    starts = ("refs/heads/late", "packed-refs", "objects/info/commit-graphs/", "objects/")
    places = [first(names, start) for start in starts[:3]]
    objects = [n for n, name in enumerate(names) if is_immutable(repo.path / name)]
    assert places == sorted(places) and objects and max(places) < min(objects)
    assert {"HEAD", "config"} < set(names)


def test_a_push_during_the_copy_leaves_no_ref_without_its_objects(repo: Scratch) -> None:
    """The files are listed when they are copied, so that later objects are among them."""
    repo.update_ref(MAIN, repo.commit({"a": b"1"}), ZERO)
    files = files_to_copy(repo.path)
    assert next(files).name == "main"
    head = repo.commit({"a": b"2"})
    assert repo.path / "objects" / head[:2] / head[2:] in set(files)


def test_temporary_files_are_not_copied_but_refs_with_such_names_are(repo: Scratch) -> None:
    for name in ("refs/heads/tmp_x", "refs/heads/info", "refs/heads/a.keep"):
        repo.update_ref(name, repo.commit({"a": b"1"}), ZERO)
    quarantine = repo.path / "objects" / "tmp_objdir-incoming-x" / "pack"
    quarantine.mkdir(parents=True)
    temporary = ["refs/heads/main.lock", "gc.pid", "pushing", "tidying", "packed-refs.new"]
    temporary += ["objects/pack/pack-x.keep", "objects/pack/tmp_pack_x", "objects/pack/.tmp-1-x"]
    for path in (*(repo.path / name for name in temporary), quarantine / "pack-x.pack"):
        path.touch()
    names = copied(repo)
    assert {"refs/heads/tmp_x", "refs/heads/info", "refs/heads/a.keep"} < set(names)
    assert not {*temporary} & {*names} and not [name for name in names if "incoming" in name]


def test_only_objects_and_packs_are_immutable(repo: Scratch) -> None:
    names = [f"objects/ab/{'c' * 38}", f"objects/pack/pack-{'a' * 40}.idx"]
    others = ["objects/info/packs", "objects/pack/multi-pack-index", f"refs/heads/ab/{'c' * 38}"]
    assert all(is_immutable(repo.path / name) for name in names)
    assert not any(is_immutable(repo.path / name) for name in others)


def test_tidying_waits_for_a_copy(repo: Scratch) -> None:
    repo.update_ref(MAIN, repo.commit({"a": b"1"}), ZERO)
    tidying = Thread(target=repo.upkeep)
    with tidy_lock(repo.path, LOCK_SH), tidy_lock(repo.path, LOCK_SH):
        tidying.start()
        eventually(lambda: str(repo.path / "tidying") in waiting_for_locks(repo.path))
        assert not (repo.path / "packed-refs").exists()
    tidying.join()
    assert (repo.path / "packed-refs").exists()


def waiting_for_locks(repo: Path) -> set[str]:
    """The lock files of this repository for which a process waits, by /proc/locks."""
    inodes = {str(path.stat().st_ino): str(path) for path in repo.iterdir()}
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    waited = {line[6].rpartition(":")[2] for line in lines if line[1] == "->"}
    return {path for inode, path in inodes.items() if inode in waited}


def test_objects_are_not_removed_during_a_copy(repo: Scratch) -> None:
    secret = repo.commit({"a": b"1"})
    with tidy_lock(repo.path, LOCK_SH), pytest.raises(GitError, match="backed up: try again"):
        repo.prune(secret)
    assert repo.has_commit(secret)


def test_a_git_that_outlives_its_worker_keeps_the_lock(repo: Scratch) -> None:
    with tidy_lock(repo.path, LOCK_EX) as inherited:
        started = start_git(repo.path, "cat-file", "--batch-check", stdin=None, inherited=inherited)
        started.__enter__()
    with pytest.raises(BlockingIOError), tidy_lock(repo.path, LOCK_SH | LOCK_NB):
        pass
    started.__exit__(None, None, None)
    with tidy_lock(repo.path, LOCK_SH | LOCK_NB):
        pass


class Watched(Copier):
    """Calls a function before it copies the first file with this start of its name."""

    def __init__(self, folder: Path, start: str, change: Callable[[], object]) -> None:
        super().__init__(folder, None)
        self.start, self.changes = start, [change]

    def copy(self, source: Path, place: str, *, is_immutable: bool = False) -> None:
        if self.changes and source.name.startswith(self.start):
            self.changes.pop()()
        super().copy(source, place, is_immutable=is_immutable)


@pytest.fixture
def stored(repo: Scratch, settings: Any, tmp_path: Path) -> Scratch:
    """A repository in the folder of the repositories."""
    settings.REPOSITORIES_DIR = tmp_path / "repositories"
    folder = settings.REPOSITORIES_DIR / "ab" / "cd" / f"{uuid4()}.git"
    folder.parent.mkdir(parents=True)
    moved = Scratch(repo.path.rename(folder))
    moved.update_ref(MAIN, moved.commit({"a": b"1"}), ZERO)
    return moved


@pytest.mark.parametrize(("old", "new"), [("a", "a/b"), ("a/b", "a")])
def test_a_branch_may_become_a_folder_during_the_copy_or_a_folder_a_branch(
    stored: Scratch, tmp_path: Path, old: str, new: str
) -> None:
    head = stored.refs()[MAIN]
    stored.update_ref(f"refs/heads/{old}", head, ZERO)

    def rename() -> None:
        stored.update_ref(f"refs/heads/{old}", ZERO, head)
        stored.update_ref(f"refs/heads/{new}", head, ZERO)

    assert copy_repository(Watched(tmp_path / "backup", "", rename), stored.path)
    assert GitRepo(tmp_path / "backup" / stored.path.relative_to(tmp_path)).refs()[MAIN] == head


@pytest.mark.parametrize("before", [None, "main", "config"])
def test_a_repository_that_is_removed_meanwhile_is_not_in_the_backup(
    stored: Scratch, tmp_path: Path, before: str | None
) -> None:
    copier = Watched(tmp_path / "backup", before or "", lambda: remove(stored.path))
    if before is None:
        remove(stored.path)
    assert not copy_repository(copier, stored.path)
    assert not list((tmp_path / "backup").rglob("*.git")) and copier.bytes == 0

"""apps/git/repo.py: one repository, its refs and its commits."""

import os
import resource
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from apps.git import run
from apps.git.protocol import ZERO
from apps.git.repo import DiffStat, Distance, GitRepo, Person, pull_ref
from apps.git.run import LIMITS, GitError, Limits
from tests.git.scratch import ALICE, BOB, Scratch, git

pytestmark = pytest.mark.once

MAIN = "refs/heads/main"
MISSING = "1" * 40


def test_a_repository_is_made_once_and_complete(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "aa" / "x.git")
    assert not repo.exists()
    repo.create("trunk")
    with pytest.raises(FileExistsError):
        repo.create()
    assert repo.exists()
    assert repo.head_branch() == "trunk"
    assert repo.refs(pulls=True) == {}
    assert [path.name for path in repo.path.parent.iterdir()] == ["x.git"]
    assert not (repo.path / "hooks").exists()


def test_a_repository_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, most))  # the configuration is longer
    try:
        with pytest.raises(OSError, match="File too large"):
            GitRepo(tmp_path / "x.git").create()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert list(tmp_path.iterdir()) == []


def test_head_follows_the_default_branch(repo: Scratch) -> None:
    repo.set_head_branch("release/ü")
    assert repo.head_branch() == "release/ü"


def test_refs_are_branches_and_tags_and_pulls_if_asked(repo: Scratch) -> None:
    head = repo.commit({"a": b"1"})
    for name in (MAIN, "refs/heads/a/é", "refs/tags/v1", pull_ref(1)):
        assert repo.update_ref(name, head, ZERO)
    git(repo.path, "update-ref", "refs/heads/-x", head)
    git(repo.path, "update-ref", "refs/notes/x", head)

    assert repo.refs() == dict.fromkeys([MAIN, "refs/heads/a/é", "refs/tags/v1"], head)
    assert set(repo.refs(pulls=True)) - set(repo.refs()) == {pull_ref(1)}
    assert repo.ref(MAIN) == head
    assert repo.ref("refs/heads/a") is None


def test_a_git_that_was_started_before_moves_a_ref_from_where_it_is_then(repo: Scratch) -> None:
    one, two = repo.commit({"a": b"1"}), repo.commit({"a": b"2"})
    with repo.start_update() as late, repo.start_update() as early, repo.start_update():
        assert repo.update_ref(MAIN, one, ZERO, early)
        assert not repo.update_ref(MAIN, two, ZERO, late)
    assert repo.ref(MAIN) == one


def test_a_ref_moves_only_from_where_it_is(repo: Scratch) -> None:
    one, two = repo.commit({"a": b"1"}), repo.commit({"a": b"2"})

    assert not repo.update_ref(MAIN, two, one)
    assert not repo.update_ref(MAIN, ZERO, one)
    assert repo.update_ref(MAIN, one, ZERO)
    assert not repo.update_ref(MAIN, two, ZERO)
    assert repo.update_ref(MAIN, two, one)
    assert not repo.update_ref(MAIN, one, one)
    assert repo.ref(MAIN) == two
    assert not repo.update_ref(MAIN, ZERO, one)
    assert repo.update_ref(MAIN, ZERO, two)
    assert repo.ref(MAIN) is None


def test_a_ref_that_cannot_be_moved_is_no_lost_race(repo: Scratch) -> None:
    head = repo.commit({"a": b"1"})
    repo.update_ref(MAIN, head, ZERO)
    with pytest.raises(GitError, match="cannot create"):
        repo.update_ref(f"{MAIN}/below", head, ZERO)
    with pytest.raises(GitError, match="nonexistent object"):
        repo.update_ref(MAIN, MISSING, head)
    with pytest.raises(ValueError, match="both ZERO"):
        repo.update_ref(MAIN, ZERO, ZERO)
    assert repo.ref(MAIN) == head


def test_of_two_who_move_a_ref_at_once_one_wins(repo: Scratch) -> None:
    start = repo.commit({"a": b"0"})
    heads = [repo.commit({"a": b"%d" % n}) for n in range(1, 7)]
    repo.update_ref(MAIN, start, ZERO)
    with ThreadPoolExecutor(len(heads)) as pool:
        won = list(pool.map(lambda head: repo.update_ref(MAIN, head, start), heads))
    assert won.count(True) == 1
    assert repo.ref(MAIN) == heads[won.index(True)]


def test_ancestry_is_known_also_between_strangers(repo: Scratch) -> None:
    base = repo.commit({"a": b"0"})
    left, right = repo.commit({"a": b"1"}, base), repo.commit({"b": b"1"}, base)
    stranger = repo.commit({"z": b"1"})

    assert repo.is_ancestor(base, left)
    assert repo.is_ancestor(base, base)
    assert not repo.is_ancestor(left, base)
    assert not repo.is_ancestor(stranger, base)
    assert repo.merge_base(left, right) == base
    assert repo.merge_base(left, stranger) is None


def test_a_fast_forward_loses_nothing(repo: Scratch) -> None:
    base = repo.commit({"a": b"0"})
    left, right = repo.commit({"a": b"1"}, base), repo.commit({"b": b"1"}, base)
    stranger = repo.commit({"z": b"1"})

    assert repo.distance(base, left) == Distance(lost=0, gained=1)
    assert repo.distance(left, base) == Distance(lost=1, gained=0)
    assert repo.distance(left, right) == Distance(lost=1, gained=1)
    assert repo.distance(left, stranger) == Distance(lost=2, gained=1)
    assert repo.distance(left, left) == Distance(lost=0, gained=0)


def test_single_refs_are_read_without_git_wherever_it_keeps_them(repo: Scratch) -> None:
    one, two = repo.commit({"a": b"1"}), repo.commit({"a": b"2"})
    spaced = "refs/heads/a/é\u3000\u2028x"  # white space for Python, a valid name for git
    names = [MAIN, spaced, "refs/tags/v1"]
    for name in names:
        repo.update_ref(name, one, ZERO)
    repo.git("pack-refs", "--all")
    repo.update_ref(MAIN, two, one)
    repo.update_ref("refs/tags/v1", ZERO, one)
    before = run.spawned
    assert repo.some_refs([*names, "refs/heads/a", f"{MAIN}/x"]) == {names[0]: two, names[1]: one}
    assert repo.some_refs([]) == {}
    assert repo.ref(spaced) == one
    assert run.spawned == before


def test_what_is_no_plain_ref_is_told_by_git(repo: Scratch) -> None:
    head = repo.commit({"a": b"1"})
    repo.update_ref(MAIN, head, ZERO)
    git(repo.path, "symbolic-ref", "refs/heads/alias", MAIN)
    assert repo.some_refs(["refs/heads/alias", MAIN]) == {"refs/heads/alias": head, MAIN: head}


def test_a_store_that_has_gone_is_no_empty_one(repo: Scratch) -> None:
    shutil.rmtree(repo.path)
    with pytest.raises(GitError):
        repo.ref(MAIN)


def test_only_a_commit_is_a_commit(repo: Scratch) -> None:
    head = repo.commit({"a": b"1"})
    assert repo.has_commit(head)
    assert not repo.has_commit(repo.store("blob", [b"x"], 1))
    assert not repo.has_commit(MISSING)
    with pytest.raises(GitError):
        repo.merge_base(head, MISSING)


def test_authors_are_named_once_and_oldest_first(repo: Scratch) -> None:
    base = repo.commit({"a": b"0"})
    one = repo.commit({"a": b"1"}, base, author=BOB)
    two = repo.commit({"a": b"2"}, one)
    three = repo.commit({"a": b"3"}, two, author=BOB, message="two\nlines")
    merge = repo.commit({"a": b"3"}, three, one, author=Person("Carol", "carol@example.org"))
    assert repo.commit_authors(base, merge) == (BOB, ALICE)
    assert repo.commit_authors(base, three) == (BOB, ALICE)
    assert repo.commit_authors(three, base) == ()


def test_a_diff_is_counted_from_where_the_branch_left(repo: Scratch) -> None:
    base = repo.commit({"a": b"1\n2\n", "moved": b"x\n" * 50})
    target = repo.commit({"a": b"1\n2\n", "moved": b"x\n" * 50, "target": b"1\n"}, base)
    step = repo.commit({"a": b"1\n", "moved": b"x\n" * 50}, base)
    head = repo.commit({"a": b"1\n3\n", "there": b"x\n" * 50}, step)

    assert repo.diff_stat(target, head) == DiffStat(2, additions=1, deletions=1, changed_files=2)
    assert repo.diff_stat(head, base) == DiffStat(0)
    assert repo.diff_stat(repo.commit({"z": b"1"}), base) == DiffStat(1, 52, 0, 2)


def test_a_tree_bomb_has_no_numbers_but_does_no_harm(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LIMITS, "diff-tree", Limits(memory=16 * 1024 * 1024))
    base = repo.commit({"a": b"1"})
    head = repo.commit_of(repo.tree_bomb(), base)
    assert repo.diff_stat(base, head) == DiffStat(1, too_large=True)


def test_the_commits_of_a_pull_are_copied_from_a_fork(repo: Scratch, other: Scratch) -> None:
    base = other.commit({"a": b"1"})
    head = other.commit({"a": b"2"}, base)
    other.update_ref("refs/tags/v1", head, ZERO)
    with pytest.raises(GitError):
        repo.fetch_objects(other, MISSING)
    repo.fetch_objects(other, head)

    assert repo.refs(pulls=True) == {}
    assert repo.has_commit(head)
    assert not (repo.path / "objects" / "info" / "alternates").exists()
    assert not (repo.path / "FETCH_HEAD").exists()


def test_what_is_copied_arrives_whole_or_not_at_all(repo: Scratch, other: Scratch) -> None:
    """With single objects, a killed git would leave a commit without its files."""
    head = other.commit({"a": b"1"})
    repo.fetch_objects(other, head)
    objects = repo.path / "objects"
    assert list((objects / "pack").glob("*.pack"))
    assert not [folder for folder in objects.iterdir() if len(folder.name) == 2]


def test_a_fork_copies_branches_and_tags_and_nothing_unreachable(
    repo: Scratch, tmp_path: Path
) -> None:
    empty, copied = GitRepo(tmp_path / "empty.git"), GitRepo(tmp_path / "copied.git")
    repo.set_head_branch("trunk")
    empty.create_as_copy(repo)
    assert empty.refs() == {}
    assert empty.head_branch() == "trunk"

    head, secret = repo.commit({"a": b"1"}), repo.commit({"a": b"secret"})
    for name, sha in ((MAIN, head), ("refs/tags/v1", head), (pull_ref(1), secret)):
        repo.update_ref(name, sha, ZERO)
    copied.create_as_copy(repo)
    assert copied.refs(pulls=True) == {MAIN: head, "refs/tags/v1": head}
    assert not copied.has_commit(secret)


def test_upkeep_packs_what_is_loose_and_keeps_everything(repo: Scratch) -> None:
    head = repo.commit({"a": b"1"})
    repo.update_ref(MAIN, head, ZERO)
    repo.upkeep()
    assert (repo.path / "packed-refs").exists()
    assert (repo.path / "objects" / "info" / "commit-graphs").exists()
    assert repo.ref(MAIN) == head


def test_upkeep_removes_what_killed_gits_left_long_ago(repo: Scratch) -> None:
    fresh = repo.path / "refs" / "heads" / "fresh.lock"
    old = repo.path / "refs" / "heads" / "old.lock"
    pack = repo.path / "objects" / "tmp_objdir-incoming-x"
    pack.mkdir()
    for lock in (fresh, old):
        lock.touch()
    for path in (old, pack):
        os.utime(path, (0, 0))
    repo.remove_leftovers()
    assert [path.exists() for path in (fresh, old, pack)] == [True, False, False]


def test_a_ref_is_deleted_though_a_git_was_killed_while_it_wrote_them_all_down(
    repo: Scratch,
) -> None:
    head = repo.commit({"a": b"1"})
    repo.update_ref(MAIN, head, ZERO)
    repo.git("pack-refs", "--all")
    for name in ("packed-refs.new", "objects/pack/.tmp-7-pack-x", "objects/info/tmp_graph_x"):
        (repo.path / name).touch()
    with pytest.raises(GitError, match="File exists"):
        repo.update_ref(MAIN, ZERO, head)
    assert repo.remove_leftovers(0) == 3
    assert repo.update_ref(MAIN, ZERO, head)


def test_what_a_dry_repository_leaves_that_died_is_found_by_upkeep(repo: Scratch) -> None:
    with repo.dry() as dry:
        assert dry.objects is not None
        shutil.copytree(dry.objects, left := dry.objects.with_name(f"{dry.objects.name}-left"))
    assert repo.remove_leftovers(0) == 1
    assert not left.exists()


def test_a_dry_repository_reads_everything_and_keeps_nothing(repo: Scratch) -> None:
    head = repo.commit({"a": b"1"})
    before = repo.object_count()
    with repo.dry() as dry:
        blob = dry.git("hash-object", "-w", "--stdin", stdin=b"new").word
        assert dry.has_commit(head)
        assert dry.git("cat-file", "blob", blob).out == b"new"
    assert repo.object_count() == before

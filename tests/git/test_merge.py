"""apps/git/merge.py: the commits that merging writes; it moves no ref."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from apps.git import merge
from apps.git.merge import (
    Built,
    Conflict,
    FastForwardImpossible,
    Mergeability,
    NothingToMerge,
    Outcome,
    Strategy,
    StrategyDiffers,
    build,
    mergeability,
    merged_tree,
    original_path,
)
from apps.git.protocol import ZERO
from apps.git.repo import Person
from apps.git.run import LIMITS, GitError, Limits
from tests.git.scratch import ALICE, BOB, Scratch, git

pytestmark = pytest.mark.once

CAROL = Person("Carol Cooper", "carol@example.org")
WHEN = datetime(2026, 5, 4, 12, 0, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))
BY_CAROL = "committer Carol Cooper <carol@example.org> 1777908600 -0330"
A, B = "a" * 40, "b" * 40
COMBINING = [Strategy.MERGE, Strategy.SQUASH, Strategy.REBASE]


def try_merge(
    repo: Scratch, strategy: Strategy, target: str, head: str, message: str = "Merge pull #1: x"
) -> Outcome:
    return build(
        repo, strategy, target, head, author=ALICE, committer=CAROL, message=message, when=WHEN
    )


def built(repo: Scratch, strategy: Strategy, target: str, head: str, message: str = "m") -> str:
    outcome = try_merge(repo, strategy, target, head, message)
    assert isinstance(outcome, Built), outcome
    return outcome.sha


@pytest.fixture
def fork(repo: Scratch) -> tuple[str, str]:
    """A target, and a head of two commits by Bob and Alice, that merge without a conflict."""
    base = repo.commit({"a": b"0"})
    target = repo.commit({"a": b"0", "target": b"1"}, base)
    step = repo.commit({"a": b"0", "x": b"1"}, base, author=BOB, message="one\n\nbody\n")
    return target, repo.commit({"a": b"0", "x": b"1", "y": b"1"}, step, message="two")


@pytest.fixture
def clash(repo: Scratch) -> tuple[str, str]:
    """A target and a head that change the same two files."""
    base = repo.commit({"b": b"0", "a": b"0"})
    return repo.commit({"b": b"1", "a": b"1"}, base), repo.commit({"b": b"2", "a": b"2"}, base)


def test_a_merge_has_two_parents_and_both_sides(repo: Scratch, fork: tuple[str, str]) -> None:
    target, head = fork
    sha = built(repo, Strategy.MERGE, target, head, "Merge pull #12: Füße\r\n\r\n body \0\n\n")

    stored = repo.show(sha)
    assert f"parent {target}\nparent {head}\nauthor Alice Archer <alice@example.org> " in stored
    assert stored.endswith(f"{BY_CAROL}\n\nMerge pull #12: Füße\n\n body")
    assert [repo.file(sha, name) for name in ("target", "x", "y")] == [b"1"] * 3


def test_a_squash_is_one_commit_that_names_the_other_authors(
    repo: Scratch, fork: tuple[str, str]
) -> None:
    target, head = fork
    sha = built(repo, Strategy.SQUASH, target, head, "Add x and y")

    header, _, message = repo.show(sha).partition("\n\n")
    assert header.splitlines()[1:] == [
        f"parent {target}",
        "author Alice Archer <alice@example.org> 1777908600 -0330",
        BY_CAROL,
    ]
    assert message == "Add x and y\n\nCo-authored-by: Bob Brewer <bob@example.org>"
    assert repo.file(sha, "x") == b"1"


def test_a_squash_by_one_author_has_no_trailer(repo: Scratch) -> None:
    base = repo.commit({"a": b"0"})
    head = repo.commit({"a": b"1"}, base, author=Person("A.", "ALICE@example.org"))
    assert repo.show(built(repo, Strategy.SQUASH, base, head, "m")).endswith("-0330\n\nm")


def test_a_rebase_is_linear_and_keeps_authors_and_messages(
    repo: Scratch, fork: tuple[str, str]
) -> None:
    target, head = fork
    sha = built(repo, Strategy.REBASE, target, head)

    assert repo.subjects(target, sha) == ["one", "two"]
    two, one = repo.show(sha), repo.show(git(repo.path, "rev-parse", f"{sha}~").decode())
    assert f"parent {target}\nauthor Bob Brewer <bob@example.org> 1700000000 +0200" in one
    assert one.endswith(f"{BY_CAROL}\n\none\n\nbody")
    assert f"author Alice Archer <alice@example.org> 1700000000 +0200\n{BY_CAROL}" in two
    assert [repo.file(sha, name) for name in ("target", "x", "y")] == [b"1"] * 3


def test_a_rebase_keeps_encoding_and_bytes_but_no_signature(repo: Scratch) -> None:
    base = repo.commit({"a": b"0"})
    tree = git(repo.path, "rev-parse", f"{repo.commit({'b': b'1'}, base)}:").decode()
    stored = (
        f"tree {tree}\nparent {base}\nauthor Jos".encode()
        + b"\xe9 <j@example.org> 1 +0000\ncommitter J <j@example.org> 1 +0000\n"
        + b"encoding ISO-8859-1\ngpgsig -----BEGIN\n author Eve\n -----END\n\n  caf\xe9\n\n\n"
    )
    head = repo.store("commit", [stored], len(stored))
    zoe = Person("Zoë", "z@example.org")
    outcome = build(
        repo, Strategy.REBASE, base, head, author=zoe, committer=zoe, message="", when=WHEN
    )
    assert isinstance(outcome, Built)
    content = repo.git("cat-file", "commit", outcome.sha).out
    assert b"author Jos\xe9 <j@example.org> 1 +0000\ncommitter Zo? <z@" in content
    assert content.endswith(b"\nencoding ISO-8859-1\n\n  caf\xe9\n\n\n")
    assert b"gpgsig" not in content


def test_a_rebase_drops_what_becomes_empty_and_keeps_what_was(repo: Scratch) -> None:
    base = repo.commit({"a": b"0"})
    there = repo.commit({"a": b"0", "same": b"1"}, base, message="there already")
    target = repo.commit({"a": b"0", "same": b"1", "t": b"1"}, base)
    empty = repo.commit({"a": b"0", "same": b"1"}, there, message="empty from the start")
    head = repo.commit({"a": b"0", "same": b"1", "new": b"1"}, empty, message="new")

    sha = built(repo, Strategy.REBASE, target, head)
    assert repo.subjects(target, sha) == ["empty from the start", "new"]
    assert try_merge(repo, Strategy.REBASE, target, there) == NothingToMerge()
    assert try_merge(repo, Strategy.SQUASH, target, there) == NothingToMerge()
    assert isinstance(try_merge(repo, Strategy.MERGE, target, there), Built)


def test_a_rebase_leaves_merges_out(repo: Scratch) -> None:
    base = repo.commit({"a": b"0"})
    target = repo.commit({"a": b"0", "t": b"1"}, base)
    one = repo.commit({"a": b"0", "x": b"1"}, base, message="one")
    both = repo.commit({"a": b"0", "x": b"1", "t": b"1"}, one, target, message="Merge main")
    head = repo.commit({"a": b"0", "x": b"2", "t": b"1"}, both, message="two")

    sha = built(repo, Strategy.REBASE, target, head)
    assert repo.subjects(target, sha) == ["one", "two"]
    assert git(repo.path, "rev-parse", f"{sha}:") == git(repo.path, "rev-parse", f"{head}:")


def test_a_rebase_with_another_result_than_a_merge_is_refused(repo: Scratch) -> None:
    base = repo.commit({"a": b"0"})
    target = repo.commit({"a": b"0", "t": b"1"}, base)
    one = repo.commit({"a": b"0", "x": b"1"}, base)
    head = repo.commit({"a": b"0", "x": b"1", "t": b"1", "evil": b"1"}, one, target)

    assert try_merge(repo, Strategy.REBASE, target, head) == StrategyDiffers()
    assert Strategy.REBASE not in mergeability(repo, target, head).allowed_strategies
    assert repo.file(built(repo, Strategy.SQUASH, target, head), "evil") == b"1"


def test_the_tree_of_a_merge_is_told_without_making_it(
    repo: Scratch, fork: tuple[str, str], clash: tuple[str, str]
) -> None:
    tree = merged_tree(repo, *fork)
    assert tree is not None
    there = git(repo.path, "cat-file", "--batch-check", stdin=tree.encode())
    assert there.decode() == f"{tree} missing"
    made = built(repo, Strategy.MERGE, *fork)
    assert git(repo.path, "rev-parse", f"{made}^{{tree}}").decode() == tree
    assert merged_tree(repo, *clash) is None
    with pytest.raises(GitError):
        merged_tree(repo, fork[0], "1" * 40)


def test_a_rebase_combines_changes_to_one_file(repo: Scratch) -> None:
    lines = [b"%d\n" % n for n in range(20)]
    base = repo.commit({"a": b"".join(lines)})
    target = repo.commit({"a": b"first\n" + b"".join(lines[1:])}, base)
    step = repo.commit({"a": b"".join(lines[:10] + lines[11:])}, base, message="shorter")
    head = repo.commit({"a": b"".join(lines[:10] + lines[11:19])}, step, message="shorter still")

    sha = built(repo, Strategy.REBASE, target, head)
    assert repo.subjects(target, sha) == ["shorter", "shorter still"]
    assert repo.file(sha, "a") == (b"first\n" + b"".join(lines[1:10] + lines[11:19])).rstrip()


def test_a_rebase_takes_in_a_history_that_began_elsewhere(repo: Scratch) -> None:
    base = repo.commit({"a": b"0"})
    target = repo.commit({"a": b"0", "t": b"1"}, base)
    alone = repo.commit({"lib": b"1"}, message="a root")
    head = repo.commit({"a": b"0", "lib": b"1"}, base, alone, message="Merge lib")

    sha = built(repo, Strategy.REBASE, target, head)
    assert repo.subjects(target, sha) == ["a root"]
    assert [repo.file(sha, name) for name in ("a", "lib", "t")] == [b"0", b"1", b"1"]


def test_a_rebase_of_too_many_commits_is_refused(
    repo: Scratch, fork: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "REBASE_LIMIT", 1)
    assert try_merge(repo, Strategy.REBASE, *fork) == Conflict(())
    assert mergeability(repo, *fork).allowed_strategies == (Strategy.MERGE, Strategy.SQUASH)


def test_a_fast_forward_makes_no_commit(repo: Scratch, fork: tuple[str, str]) -> None:
    target, head = fork
    base = repo.merge_base(target, head)
    assert base
    before = repo.object_count()
    assert try_merge(repo, Strategy.FAST_FORWARD, target, head) == FastForwardImpossible()
    assert try_merge(repo, Strategy.FAST_FORWARD, base, head) == Built(head)
    assert repo.object_count() == before


@pytest.mark.parametrize("strategy", COMBINING)
def test_a_conflict_names_its_paths_in_order(
    repo: Scratch, clash: tuple[str, str], strategy: Strategy
) -> None:
    assert try_merge(repo, strategy, *clash) == Conflict(("a", "b"))


def test_a_file_in_the_way_of_a_directory_has_its_own_name(repo: Scratch) -> None:
    """git names it `run.sh~<commit>`. In a rebase the commit is a temporary one."""
    base = repo.commit({"run.sh": b"0", "x": b"0"})
    file = repo.commit({"run.sh": b"1", "x": b"0"}, base)
    below = repo.tree("100644", {"main": repo.store("blob", [b"2"], 1)})
    x = bytes.fromhex(repo.store("blob", [b"0"], 1))
    tree = b"40000 run.sh\0" + bytes.fromhex(below) + b"100644 x\0" + x
    directory = repo.commit_of(repo.store("tree", [tree], len(tree)), base)
    for sides in ((file, directory), (directory, file)):
        assert try_merge(repo, Strategy.MERGE, *sides) == Conflict(("run.sh",))
        assert mergeability(repo, *sides) == Mergeability(("run.sh",), (), False)


def test_conflict_paths_are_text_and_no_more_than_a_hundred(repo: Scratch) -> None:
    names = [f"{n:03} ü\n" for n in range(120)]
    sides = []
    base = repo.commit({"x": b""})
    for side in (b"1", b"2"):
        blob = repo.store("blob", [side], 1)
        entries = dict.fromkeys(names, blob)
        sides.append(repo.commit_of(repo.tree("100644", entries), base))
    assert try_merge(repo, Strategy.MERGE, *sides) == Conflict(tuple(names[:100]))


def test_a_path_that_is_not_utf8_can_still_be_encoded(repo: Scratch) -> None:
    base = repo.commit({"x": b""})
    sides = []
    for side in (b"1", b"2"):
        blob = bytes.fromhex(repo.store("blob", [side], 1))
        tree = b"100644 \xff\0" + blob
        sides.append(repo.commit_of(repo.store("tree", [tree], len(tree)), base))
    assert try_merge(repo, Strategy.MERGE, *sides) == Conflict(("\ufffd",))


@pytest.mark.parametrize("strategy", Strategy)
def test_there_is_nothing_to_merge_in_what_the_target_contains(
    repo: Scratch, fork: tuple[str, str], strategy: Strategy
) -> None:
    target, _ = fork
    base = git(repo.path, "rev-parse", f"{target}~").decode()
    assert try_merge(repo, strategy, target, base) == NothingToMerge()
    assert try_merge(repo, strategy, target, target) == NothingToMerge()
    assert mergeability(repo, target, base) == Mergeability((), (), nothing_to_merge=True)


@pytest.mark.parametrize("strategy", COMBINING)
def test_unrelated_histories_are_a_conflict_without_paths(
    repo: Scratch, strategy: Strategy
) -> None:
    one, two = repo.commit({"a": b"1"}), repo.commit({"b": b"1"})
    assert try_merge(repo, strategy, one, two) == Conflict(())
    assert try_merge(repo, Strategy.FAST_FORWARD, one, two) == FastForwardImpossible()
    assert mergeability(repo, one, two) == Mergeability((), (), nothing_to_merge=False)


@pytest.mark.parametrize("strategy", COMBINING)
def test_a_missing_commit_is_no_conflict(repo: Scratch, strategy: Strategy) -> None:
    base = repo.commit({"a": b"0"})
    with pytest.raises(GitError, match="Not a valid commit"):
        try_merge(repo, strategy, base, "1" * 40)
    with pytest.raises(GitError, match="Not a valid commit"):
        mergeability(repo, base, "1" * 40)


@pytest.mark.parametrize("strategy", COMBINING)
def test_a_missing_blob_is_no_conflict(repo: Scratch, strategy: Strategy) -> None:
    base = repo.commit({"a": b"0"})
    target = repo.commit({"a": b"1"}, base)
    head = repo.commit_of(repo.tree("100644", {"a": "1" * 40}), base)
    with pytest.raises(GitError, match="unable to read blob"):
        try_merge(repo, strategy, target, head)


def test_a_missing_tree_is_not_an_empty_one(repo: Scratch) -> None:
    base = repo.commit({"a": b"0"})
    target = repo.commit({"a": b"0", "b": b"1"}, base)
    with pytest.raises(GitError, match=r"lacks objects|failure to merge"):
        try_merge(repo, Strategy.MERGE, target, repo.commit_of("1" * 40, base))


def test_a_tree_bomb_is_a_conflict_without_paths(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LIMITS, "merge-tree", Limits(memory=16 * 1024 * 1024))
    base = repo.commit_of(repo.tree_bomb(b"0"))
    sides = [repo.commit_of(repo.tree_bomb(side), base) for side in (b"1", b"2")]
    assert try_merge(repo, Strategy.MERGE, *sides) == Conflict(())


def test_mergeability_tells_what_building_would_answer(
    repo: Scratch, fork: tuple[str, str], clash: tuple[str, str]
) -> None:
    target, head = fork
    base = repo.merge_base(target, head)
    assert base
    assert mergeability(repo, target, head) == Mergeability((), tuple(COMBINING), False)
    assert mergeability(repo, base, head) == Mergeability((), tuple(Strategy), False)
    assert mergeability(repo, *clash) == Mergeability(("a", "b"), (), False)


def test_mergeability_leaves_out_a_rebase_that_would_conflict(repo: Scratch) -> None:
    base = repo.commit({"a": b"0"})
    target = repo.commit({"a": b"1"}, base)
    wrong = repo.commit({"a": b"2"}, base)
    head = repo.commit({"a": b"1"}, wrong)
    assert try_merge(repo, Strategy.REBASE, target, head) == Conflict(("a",))
    assert mergeability(repo, target, head) == Mergeability((), (Strategy.MERGE,), False)


def test_mergeability_writes_nothing(repo: Scratch, fork: tuple[str, str]) -> None:
    before = repo.object_count()
    mergeability(repo, *fork)
    assert repo.object_count() == before


@pytest.mark.parametrize("strategy", Strategy)
def test_no_ref_moves(repo: Scratch, fork: tuple[str, str], strategy: Strategy) -> None:
    target, head = fork
    repo.update_ref("refs/heads/main", target, ZERO)
    try_merge(repo, strategy, target, head)
    assert repo.refs(pulls=True) == {"refs/heads/main": target}


def test_what_is_built_passes_the_check_of_git(repo: Scratch, fork: tuple[str, str]) -> None:
    odd = Person("<Eve>\nauthor Mallory\0", "\udcff e@example.org> 0 +0000\n")
    nobody = Person(" ", "")
    for strategy in COMBINING:
        outcome = build(
            repo, strategy, *fork, author=odd, committer=nobody, message="\udcff", when=WHEN
        )
        assert isinstance(outcome, Built)
        assert git(repo.path, "fsck", "--strict", "--no-dangling", outcome.sha) == b""
        assert "committer unknown <> 1777908600 -0330" in repo.show(outcome.sha)


def test_a_time_needs_an_offset(repo: Scratch, fork: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="offset"):
        build(
            repo,
            Strategy.MERGE,
            *fork,
            author=ALICE,
            committer=BOB,
            message="m",
            when=datetime.now(UTC).replace(tzinfo=None),
        )


def test_attributes_of_the_default_branch_decide_no_merge(
    repo: Scratch, clash: tuple[str, str]
) -> None:
    git(
        repo.path,
        "update-ref",
        "refs/heads/main",
        repo.commit({".gitattributes": b"* merge=union\n"}),
    )
    git(repo.path, "symbolic-ref", "HEAD", "refs/heads/main")
    assert merged_tree(repo, *clash) is None


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("dir", "dir"),
        (f"dir~{A}", "dir"),
        (f"dir~{B}_0/one", "dir/one"),
        ("dir~Temporary merge branch 2", "dir"),
        ("a~b", "a~b"),
        ("dir~Temporary merge branch 3", "dir~Temporary merge branch 3"),
    ],
)
def test_paths_that_git_moved_aside_are_told_by_their_names(name, path):
    assert original_path(name, A, B) == path

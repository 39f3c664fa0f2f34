"""apps/git/cache.py: answers of git that a process caches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from apps.git import cache, merge, run
from apps.git.merge import Mergeability, Strategy
from apps.git.repo import GitRepo
from apps.git.run import GitTimeout
from tests.git.scratch import Scratch
from tests.git.stuck import stuck

pytestmark = pytest.mark.once

BOTH = Mergeability((), (Strategy.MERGE, Strategy.SQUASH, Strategy.REBASE), False)
RENAMES = 2_000


@pytest.fixture
def pair(repo: Scratch) -> tuple[str, str]:
    """A target and a head that merge without a conflict."""
    base = repo.commit({"a": b"0"})
    return repo.commit({"a": b"0", "t": b"1"}, base), repo.commit({"a": b"0", "h": b"1"}, base)


def test_an_answer_is_kept(repo: Scratch, pair: tuple[str, str]) -> None:
    assert cache.mergeability(repo, *pair) == BOTH
    before = run.spawned
    assert cache.mergeability(repo, *pair) == BOTH
    assert run.spawned == before


def test_what_took_too_long_is_not_tried_again_for_a_while(
    repo: Scratch, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with stuck(repo, pair[1], monkeypatch), pytest.raises(GitTimeout, match="took more than"):
        cache.mergeability(repo, *pair)
    before = run.spawned
    for _ in range(2):
        with pytest.raises(GitTimeout, match="timed out recently"):
            cache.mergeability(repo, *pair)
    assert run.spawned == before
    assert cache.mergeability(repo, pair[1], pair[0]) == BOTH, "the others are asked about"


def test_the_tree_of_a_merge_is_kept_in_the_same_way(
    repo: Scratch, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with stuck(repo, pair[1], monkeypatch), pytest.raises(GitTimeout, match="took more than"):
        cache.merged_tree(repo, *pair)
    with pytest.raises(GitTimeout, match="timed out recently"):
        cache.merged_tree(repo, *pair)
    alone = repo.commit({"a": b"1"})
    assert cache.merged_tree(repo, pair[0], alone) is None
    before = run.spawned
    assert cache.merged_tree(repo, pair[0], alone) is None
    assert run.spawned == before


def test_what_took_too_long_is_tried_again_later(
    repo: Scratch, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "SLOW_SECONDS", 0)
    with stuck(repo, pair[1], monkeypatch), pytest.raises(GitTimeout):
        cache.mergeability(repo, *pair)
    assert cache.mergeability(repo, *pair) == BOTH


def test_of_six_who_ask_at_once_one_runs_git(repo: Scratch, pair: tuple[str, str]) -> None:
    before = run.spawned
    merge.mergeability(repo, *pair)
    once, ready = run.spawned - before, Barrier(6)

    def ask() -> Mergeability:
        ready.wait(60)
        return cache.mergeability(repo, *pair)

    before = run.spawned
    with ThreadPoolExecutor(6) as people:
        answers = [people.submit(ask) for _ in range(6)]
    assert [answer.result() for answer in answers] == [BOTH] * 6
    assert run.spawned - before == once


def test_a_rebase_that_takes_too_long_is_not_offered(
    repo: Scratch, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "REBASE_SECONDS", -1)
    answer = cache.mergeability(repo, *pair)
    assert answer.allowed_strategies == (Strategy.MERGE, Strategy.SQUASH)


@pytest.mark.slow
def test_thousands_of_renames_are_told_in_time(repo: Scratch) -> None:
    """A pair whose head renames and changes each file, and whose target changes it too."""
    begin = [page(number) for number in range(RENAMES)]
    base = repo.commit({f"old-{n}": text for n, text in enumerate(begin)})
    target = repo.commit({f"old-{n}": text + b"ours\n" for n, text in enumerate(begin)}, base)
    head = repo.commit({f"new-{n}": b"theirs\n" + text for n, text in enumerate(begin)}, base)
    answer = cache.mergeability(repo, target, head)
    assert answer.allowed_strategies == ()
    assert len(answer.conflict_paths) == merge.MOST_CONFLICT_PATHS


def page(number: int) -> bytes:
    """A text of 20 KB that is similar to no other."""
    return b"".join(b"%x\n" % (number * line**5) for line in range(1, 1200))


@pytest.mark.parametrize(("length", "most"), [(0, 100), (50_000, 9)])
def test_the_least_recently_used_answers_are_removed_if_all_together_are_too_large(
    repo: Scratch, length: int, most: int
) -> None:
    heads: list[str] = []

    def ask(_: GitRepo, target: str, head: str) -> tuple[str, ...]:
        heads.append(head)
        return (head + "a" * length,)

    answers = cache._AnswerCache(ask, lambda paths: paths, bytes_max=500_000)
    for number in range(most):
        answers.get(repo, "target", str(number))
        assert answers.get(repo, "target", "0") == ("0" + "a" * length,)
    assert heads == [str(number) for number in range(most)], "nothing is too large yet"
    for number in range(1000):
        answers.get(repo, "target", f"other {number}")
        answers.get(repo, "target", "0")
    assert heads.count("0") == 1, "it was always the newest but one"
    for number in range(1000):
        answers.get(repo, "target", f"another {number}")
    assert answers.size <= 500_000
    assert answers.size == sum(question.size for question in answers.questions.values())
    answers.get(repo, "target", "0")
    assert heads[-1] == "0", "git is asked again"

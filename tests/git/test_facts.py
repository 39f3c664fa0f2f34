"""apps/git/cache.py: questions asked before a lock start no git under it."""

import pytest

from apps.git import run
from apps.git.cache import GitFacts
from apps.git.repo import GitRepo
from apps.git.run import GitError
from tests.git.scratch import Scratch

pytestmark = pytest.mark.once


def test_a_question_is_asked_once_for_each_repository_and_each_commit(repo: Scratch) -> None:
    sha = repo.commit({"a": b"1"})
    two = repo.commit({"a": b"2"}, sha)
    facts, before = GitFacts(), run.spawned
    for _ in range(2):
        # Questions about equal repositories are the same question.
        assert facts.ask(GitRepo.is_ancestor, GitRepo(repo.path), sha, two)
        assert not facts.ask(GitRepo.is_ancestor, GitRepo(repo.path), two, sha)
    assert run.spawned == before + 2
    assert GitFacts().ask(GitRepo.is_ancestor, GitRepo(repo.path), sha, two)
    assert run.spawned == before + 3


def test_an_error_is_not_kept(repo: Scratch) -> None:
    facts, sha = GitFacts(), repo.commit({"a": b"1"})
    for _ in range(2):
        before = run.spawned
        with pytest.raises(GitError):
            facts.ask(GitRepo.distance, GitRepo(repo.path), sha, "1" * 40)
        assert run.spawned == before + 1

"""What git says of a pull between the tips of its branches, and the refs that keep its commits."""

from __future__ import annotations

import logging

from django.db import transaction

from apps.accounts.models import User
from apps.core.statements import Statement
from apps.git.facts import GitFacts
from apps.git.repo import DiffStat, GitRepo, approved_ref, pull_ref
from apps.git.run import GitError
from apps.pulls import sources
from apps.pulls.models import GitState, Pull
from apps.repos.commits import seek_commits
from apps.repos.rules import ZERO

UPDATE_TRIES = 3
HEAD = Statement('SELECT number, repo_id, head_sha FROM "pulls_pull" WHERE id = %s')
logger = logging.getLogger(__name__)


def state_between(pull: Pull, base: str | None, head: str | None, facts: GitFacts) -> GitState:
    """What git says between two tips.

    What is stored for the same two tips is not asked again, unless git could not tell then.
    """
    same = (base, head) == (pull.base_sha, pull.head_sha)
    if same and pull.commit_count:
        return GitState(head, base, pull.figures)
    return GitState(head, base, read_figures(pull.repo.git, base, head, facts))


def read_figures(git: GitRepo, base: str | None, head: str | None, facts: GitFacts) -> DiffStat:
    """The numbers of commits, lines and files; zeros while a tip is missing or git cannot tell."""
    if base is None or head is None:
        return DiffStat(0)
    try:
        return facts.ask(GitRepo.diff_stat, git, base, head)
    except GitError:
        return DiffStat(0, too_large=True)


def read_tips(pull: Pull, by: User) -> GitFacts:
    """Ask git what `update_from_tips` will need, before any lock. Changes no row."""
    facts = GitFacts()
    state_at_tips(pull, by, facts)
    return facts


def update_from_tips(pull: Pull, by: User, facts: GitFacts) -> None:
    """Take head, base and figures from the stored tips, without saving, for who opens the pull.

    A source branch that is gone, or a fork's that is not taken (`takes_tip`), leaves the head as it
    was.
    """
    state, pushed_by_id, pull.source_moved = state_at_tips(pull, by, facts)
    pull.set_git_state(state)
    pull.head_pushed_by_id = pushed_by_id


def state_at_tips(pull: Pull, by: User, facts: GitFacts) -> tuple[GitState, int | None, bool]:
    """The state of the pull at the tips that are stored now, who pushed that head, and whether the
    source is elsewhere.
    """
    source, target = pull.tip_refs()
    moved = pull.source_moved
    if source is not None:
        moved = not sources.takes_tip(pull, source, by)
        source = None if moved else source
    head, pushed_by_id = pull.head_sha, pull.head_pushed_by_id
    if source is not None:
        sources.fetch_commit(pull, source.sha)
    if source is not None and source.sha != head:
        head, pushed_by_id = source.sha, source.pushed_by_id
    base = target.sha if target is not None and head is not None else None
    return state_between(pull, base, head, facts), pushed_by_id, moved


def update_pull_ref_on_commit(pull: Pull) -> None:
    """Arrange that `refs/pull/<n>/head` points to the head, so that its commits outlive the branch.

    After the commit, because git has no part in a rollback; should it fail, the next push that
    touches the branch does it again.
    """
    git, pull_id = pull.repo.git, pull.pk
    # Django names in its log what has failed, and a partial has no name.
    transaction.on_commit(lambda: update_pull_ref(git, pull_id), robust=True)


def update_pull_ref(git: GitRepo, pull_id: int) -> None:
    """Move the pull's ref to the stored head, also while others move one of the two."""
    for _ in range(UPDATE_TRIES):
        number, repo_id, head = HEAD.one(pull_id)
        ref = pull_ref(number)
        present = git.ref(ref)
        if head in (None, present):
            return
        if git.update_ref(ref, str(head), present or ZERO):
            seek_commits(repo_id)
            return


def keep_head(pull: Pull) -> None:
    """Keep the commits of the head in the repository, however often its branch is forced.

    It comes before the row, since a ref without a row does no harm. If git fails here, the commit
    stays for as long as it is the head, and some weeks more.
    """
    if pull.head_sha is None:
        return
    try:
        pull.repo.git.update_ref(approved_ref(pull.number, pull.head_sha), pull.head_sha, ZERO)
    except GitError:
        logger.exception("keeping the head of pull %s of %s", pull.number, pull.repo.uuid)

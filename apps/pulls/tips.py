"""What git says of a pull between the tips of its branches, and the refs that keep its commits."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from apps.accounts.models import User
from apps.core.statements import Parameter, Statement
from apps.git.cache import GitFacts
from apps.git.repo import DiffStat, GitRepo, approved_ref, pull_ref, version_ref
from apps.git.run import GitError
from apps.pulls import sources
from apps.pulls.models import GitState, Pull, PullVersion
from apps.pulls.versions import NewVersion, contents_if_told, mark_complete, new_versions
from apps.repos.commits import seek_commits
from apps.repos.rules import ZERO

UPDATE_TRIES = 3
HEAD = Statement(
    lambda: Pull.objects.filter(pk=Parameter("pk")).values_list("number", "repo_id", "head_sha")
)
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
    """The numbers of commits, lines and files; zeros while a tip is missing or git cannot tell.

    Of a new version they are known by then.
    """
    if base is None or head is None:
        return DiffStat(0)
    if facts.knows(contents_if_told, git, base, head):
        contents = facts.ask(contents_if_told, git, base, head)
        if contents is not None:
            return contents.figures
    return facts.ask(figures_if_told, git, base, head)


def figures_if_told(git: GitRepo, base: str, head: str) -> DiffStat:
    """Zeros where git cannot tell."""
    try:
        return git.diff_stat(base, head)
    except GitError:
        return DiffStat(0, too_large=True)


def read_tips(pull: Pull, by: User) -> GitFacts:
    """Ask git what `update_from_tips` will need, before any lock. Changes no row."""
    facts = GitFacts()
    state_at_tips(pull, by, facts)
    return facts


def update_from_tips(pull: Pull, by: User, facts: GitFacts) -> list[NewVersion]:
    """Take head, base and figures from the stored tips, without saving, for who opens the pull.
    Returns the version that this makes, to be written when the pull is saved.

    A source branch that is gone, or a fork's that is not taken (`takes_tip`), leaves the head as it
    was.
    """
    found = state_at_tips(pull, by, facts)
    pull.set_git_state(found.state)
    pull.head_pushed_by_id, pull.source_moved = found.pushed_by_id, found.source_moved
    pull.last_version += len(found.versions)
    return found.versions


@dataclass(frozen=True)
class AtTips:
    """A pull at the tips that are stored: its state, who pushed that head, whether the source is
    elsewhere, and the version that a new head makes.
    """

    state: GitState
    pushed_by_id: int | None
    source_moved: bool
    versions: list[NewVersion]


def state_at_tips(pull: Pull, by: User, facts: GitFacts) -> AtTips:
    """What a pull becomes at the tips that are stored now. Changes nothing."""
    source, target = pull.tip_refs()
    moved = pull.source_moved
    if source is not None:
        moved = not sources.takes_tip(pull, source, by)
        source = None if moved else source
    head, pushed_by_id = pull.head_sha, pull.head_pushed_by_id
    if source is not None:
        sources.fetch_commit(pull, source.sha)
    heads = []
    if source is not None and source.sha != head:
        head, pushed_by_id = source.sha, source.pushed_by_id
        heads = [(head, pushed_by_id)]
    base = target.sha if target is not None and head is not None else None
    versions = new_versions(pull, base, heads, facts)
    return AtTips(state_between(pull, base, head, facts), pushed_by_id, moved, versions)


def update_refs_on_commit(pull: Pull, new: Sequence[PullVersion] = ()) -> None:
    """Arrange that `refs/pull/<n>/head` points to the head, and a ref of its own to each of these
    new versions, so that their commits outlive the branch.

    After the commit, because git has no part in a rollback; should it fail, the next push that
    touches the branch moves the head's ref, and the worker makes those of versions.
    """
    git, pull_id, versions = pull.repo.git, pull.pk, [*new]
    # Django names in its log what has failed, and a partial has no name.
    transaction.on_commit(lambda: update_refs(git, pull_id, versions), robust=True)


def update_refs(git: GitRepo, pull_id: int, new: Sequence[PullVersion]) -> None:
    """Move the pull's ref to the stored head, also while others move one of the two, and make those
    of new versions.
    """
    for _ in range(UPDATE_TRIES):
        number, repo_id, head = HEAD.one(pk=pull_id)
        wanted = {version_ref(number, one.version): one.head_sha for one in new}
        if head is not None:
            wanted[pull_ref(number)] = head
        present = git.some_refs(wanted)
        moves = [
            (ref, sha, present.get(ref, ZERO))
            for ref, sha in wanted.items()
            if present.get(ref) != sha
        ]
        if moves and not git.update_refs(moves):
            continue
        if moves:
            seek_commits(repo_id)
        mark_complete(new)
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

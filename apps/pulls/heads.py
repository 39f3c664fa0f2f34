"""Pulls from forks: where their source is, and how its commits get into the target.

A move of the fork's branch is treated as a move of `refs/pull/<n>/head` in the target, which keeps
the commits there; so a pull from a fork follows, merges and outlives its branch as any other.
`may_move` says through whom: other commits stay in the fork.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.principal import ANONYMOUS, Principal
from apps.core.access import Level
from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.core.statements import Parameter, Statement
from apps.git.facts import GitFacts
from apps.git.repo import DiffStat, GitRepo, approved_ref, pull_ref, version_ref
from apps.git.run import GitError
from apps.pulls.models import IS_ACTIVE, GitState, Pull, PullVersion
from apps.pulls.rules import takes_changes
from apps.pulls.versions import NewVersion, contents_if_told, mark_complete, new_versions
from apps.repos.access import RepoAccess, access_to
from apps.repos.commits import seek_commits
from apps.repos.models import RANK, Ref, Repo, Visibility
from apps.repos.queries import named_source
from apps.repos.rules import ZERO, RefMove

PULL_REF = re.compile(r"refs/pull/([0-9]{1,18})/head")


def find_source(by: RepoAccess, text: str) -> tuple[Repo, str]:
    """The repository and the branch that `source_branch` names.

    A bare branch, or one behind the owner of this repository, is here; behind another owner it is
    in that owner's fork of it: `users/bob:topic`, `bob:topic`, `teams/core:topic`. 422
    `source_not_found`, one text for a fork that is absent and one that cannot be read; 403
    `role_required` for one that the caller may only read.
    """
    repo = by.repo
    source, branch = named_source(repo, text)
    if source == repo:
        return repo, branch
    access = None if source is None else access_to(by.principal, source)
    if access is None or access.level < Level.READ:
        raise Invalid("source_not_found", f"{quoted(text, 300)} names no branch that you can read.")
    access.check_open(writing=False)
    access.require(Level.WRITE)
    return access.repo, branch


def pull_number(full_name: str) -> int | None:
    """The pull whose head is kept under this ref; None for another ref."""
    found = PULL_REF.fullmatch(full_name)
    return int(found[1]) if found else None


def may_move(fork: Repo, target: Repo, by: User | None, pusher: User | None) -> bool:
    """Whether a move of a fork's branch may update the target's pulls. `by`: who pushes it, or
    reopens a pull of it.

    Whoever may read the target and write to the fork decides that. What everybody who reads the
    target may read in the fork anyway is no secret: then it is enough that `pusher`, who pushed it,
    may read the target. Nobody known counts as nobody signed in. A target that is archived, or of
    an inactive owner, takes nothing from anybody.
    """
    if not takes_changes(target):
        return False
    if _level(by, target) >= Level.READ and _level(by, fork) >= Level.WRITE:
        return True
    return _is_open_to_readers(fork, target) and _level(pusher, target) >= Level.READ


def _level(person: User | None, repo: Repo) -> Level:
    is_known = person is not None and person.is_active
    return access_to(Principal(person) if is_known else ANONYMOUS, repo).level


def _is_open_to_readers(fork: Repo, target: Repo) -> bool:
    """Whether everybody who may read the target may read the fork."""
    retired = fork.owner_team is not None and not fork.owner_team.is_active
    if retired or fork.visibility == Visibility.PRIVATE:
        return False
    return RANK[fork.visibility] >= RANK[target.visibility]


def takes_tip(pull: Pull, tip: Ref, by: User) -> bool:
    """Whether a pull that this person opens or reopens has the tip of its branch as its head.

    A new pull always does: `find_source` has asked for write access to the fork.
    """
    if pull._state.adding or not pull.is_from_fork or pull.source_repo is None:
        return True
    unmoved = tip.sha == pull.head_sha
    return unmoved or may_move(pull.source_repo, pull.repo, by, tip.pushed_by)


def pull_ref_moves(fork: Repo, moves: Sequence[RefMove]) -> Iterator[tuple[Repo, list[RefMove]]]:
    """What moves of a fork's branches mean in the repositories that have pulls from them: each with
    the moves of its `refs/pull/<n>/head`, whoever made them. See `take_moves`.
    """
    if fork.upstream_id is None:
        return
    names = [move.name for move in moves if move.is_branch]
    pulls = Pull.objects.filter(IS_ACTIVE, source_repo=fork, source_branch__in=names)
    people = ("repo__owner_team", "repo__owner_user")
    elsewhere = pulls.exclude(repo=fork).select_related(*people).order_by("repo_id", "number")
    for _, group in groupby(elsewhere, key=lambda pull: pull.repo_id):
        theirs = list(group)
        target = theirs[0].repo
        yield (
            target,
            [
                RefMove(target, one.source_ref, move.old, move.new, move.actor)
                for move in moves
                for one in theirs
                if move.is_branch and one.source_branch == move.name
            ],
        )


def take_moves(fork: Repo, target: Repo, moves: Sequence[RefMove]) -> list[RefMove]:
    """Those of `pull_ref_moves` that the target's pulls follow, by people who `may_move` them now.

    Fetches the commits there first, once for all pulls. A branch that is deleted moves nothing: its
    pulls keep their heads.
    """
    movers = _movers(fork, target, moves)
    taken = [move for move in moves if move.actor in movers and move.new != ZERO]
    for sha in dict.fromkeys(move.new for move in taken):
        _fetch(fork, target, sha)
    return taken


def mark_moved(fork: Repo, target: Repo, moves: Sequence[RefMove]) -> None:
    """Set `source_moved` of the pulls whose fork's branch was last moved, to another commit than
    their head, by somebody who may not update them. The caller holds the target's lock.
    """
    last = {number: move for move in moves if (number := pull_number(move.full_name))}
    movers = _movers(fork, target, last.values())
    for pull in target.pulls.filter(IS_ACTIVE, number__in=last):
        move = last[pull.number]
        moved = move.actor not in movers and move.new != pull.head_sha
        if moved != pull.source_moved:
            Pull.objects.filter(pk=pull.pk).update(source_moved=moved)


def _movers(fork: Repo, target: Repo, moves: Iterable[RefMove]) -> set[User | None]:
    """Who of those that made these moves may move the target's pulls."""
    actors = {move.actor for move in moves}
    return {actor for actor in actors if may_move(fork, target, actor, actor)}


def fetch_commit(pull: Pull, sha: str) -> None:
    """Fetch a commit of the fork, and its history, into the target's store, unless it is there.

    No ref points to it before it is the pull's head: a push may still be refused. What git cannot
    copy now the next push or the merge fetches; until then the figures are 0.
    """
    if pull.is_from_fork and pull.source_repo is not None:
        _fetch(pull.source_repo, pull.repo, sha)


def _fetch(source: Repo, target: Repo, sha: str) -> None:
    with suppress(GitError):
        if not target.git.has_commit(sha):
            target.git.fetch_objects(source.git, sha)


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
        moved = not takes_tip(pull, source, by)
        source = None if moved else source
    head, pushed_by_id = pull.head_sha, pull.head_pushed_by_id
    if source is not None:
        fetch_commit(pull, source.sha)
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

"""The heads of pulls: source branches here and in forks, and the refs that keep their commits.

The source of a pull from a fork is its copy in the target's repository, `refs/pull/<n>/head`. A
move of the fork's branch counts as a move of that ref, if `may_move` allows it. All other code
therefore treats pulls from forks like pulls from branches.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from itertools import groupby

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.principal import ANONYMOUS, Principal
from apps.core.access import Level
from apps.core.errors import Conflict, Invalid
from apps.core.json import quoted
from apps.core.statements import Parameter, Statement
from apps.git.cache import GitFacts
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
UPDATE_TRIES = 3
HEAD = Statement(
    lambda: Pull.objects.filter(pk=Parameter("pk")).values_list("number", "repo_id", "head_sha")
)
logger = logging.getLogger(__name__)


def find_source(access: RepoAccess, text: str) -> tuple[Repo, str]:
    """The repository and the branch that a `source_branch` names, such as `topic`, `bob:topic`,
    `users/bob:topic` or `teams/core:topic`. A prefix names the owner of a fork, or of this
    repository.

    422 `source_not_found`, with the same text for a fork that does not exist and for one that
    the caller may not read; 403 `role_required` for a fork that the caller may only read.
    """
    repo = access.repo
    source, branch = named_source(repo, text)
    if source == repo:
        return repo, branch
    source_access = None if source is None else access_to(access.principal, source)
    if source_access is None or source_access.granted < Level.READ:
        raise Invalid("source_not_found", f"{quoted(text, 300)} names no branch that you can read.")
    source_access.check_open(writing=False)
    source_access.require(Level.WRITE)
    return source_access.repo, branch


def access_to_source(access: RepoAccess, pull: Pull) -> RepoAccess:
    """The caller's access to the repository of the source, which has to be writable for them.

    403 as `Access.require`; 409 `branch_missing` if the fork was deleted, `repo_archived`. The text
    does not name a fork that the caller cannot read.
    """
    source = pull.source_repo if pull.is_from_fork else access.repo
    if source is None or source.deletion_id is not None:
        text = f"The repository of the branch {pull.source_branch} has been deleted."
        raise Conflict("branch_missing", text)
    source_access = access if source == access.repo else access_to(access.principal, source)
    source_access.require_change(Level.WRITE)
    return source_access


def pull_number(full_name: str) -> int | None:
    """The number of the pull whose head this ref is; None for another ref."""
    match = PULL_REF.fullmatch(full_name)
    return int(match[1]) if match else None


def may_move(fork: Repo, target: Repo, by: User | None, pusher: User | None) -> bool:
    """Whether a move of a fork's branch may update the target's pulls.

    `by` pushes the branch, or reopens a pull from it; `pusher` pushed it; None is anonymous. `by`
    may if they can read the target and write to the fork. If all readers of the target can read the
    fork, the commits are no secret, and it is enough that `pusher` can read the target. A target
    that is archived, or whose owner is inactive, is never updated.
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
    is_inactive = fork.owner_team is not None and not fork.owner_team.is_active
    is_deleted = fork.deletion_id is not None
    if is_deleted or is_inactive or fork.visibility == Visibility.PRIVATE:
        return False
    return RANK[fork.visibility] >= RANK[target.visibility]


def takes_tip(pull: Pull, tip: Ref, by: User) -> bool:
    """Whether a pull that this person opens or reopens takes the tip of its source as its head.

    A new pull always does, because `find_source` has checked write access to the fork.
    """
    if pull._state.adding or not pull.is_from_fork or pull.source_repo is None:
        return True
    is_head = tip.sha == pull.head_sha
    return is_head or may_move(pull.source_repo, pull.repo, by, tip.pushed_by)


def pull_ref_moves(fork: Repo, moves: Sequence[RefMove]) -> Iterator[tuple[Repo, list[RefMove]]]:
    """Moves of a fork's branches as moves of `refs/pull/<n>/head`, for each repository with such
    pulls. `take_moves` selects those that the pulls follow.
    """
    if fork.upstream_id is None:
        return
    names = [move.name for move in moves if move.is_branch]
    pulls = Pull.objects.filter(IS_ACTIVE, source_repo=fork, source_branch__in=names)
    people = ("repo__owner_team", "repo__owner_user")
    elsewhere = (
        pulls.exclude(repo=fork)
        .filter(repo__deletion=None)
        .select_related(*people)
        .order_by("repo_id", "number")
    )
    for _, group in groupby(elsewhere, key=lambda pull: pull.repo_id):
        of_target = list(group)
        target = of_target[0].repo
        pull_moves = [
            RefMove(target, pull.source_ref, move.old, move.new, move.actor)
            for move in moves
            for pull in of_target
            if move.is_branch and pull.source_branch == move.name
        ]
        yield target, pull_moves


def take_moves(fork: Repo, target: Repo, moves: Sequence[RefMove]) -> list[RefMove]:
    """The moves by people who may move the target's pulls now (`may_move`), except deletions: the
    pulls keep their heads. Fetches the new commits into the target first.
    """
    allowed = _allowed_actors(fork, target, moves)
    taken = [move for move in moves if move.actor in allowed and move.new != ZERO]
    for sha in dict.fromkeys(move.new for move in taken):
        _fetch(fork, target, sha)
    return taken


def mark_moved(fork: Repo, target: Repo, moves: Sequence[RefMove]) -> None:
    """Set `source_moved` of the pulls whose last move, to another commit than the head, was by
    somebody who may not update the pull; else clear it. The caller holds the target's lock.
    """
    last = {number: move for move in moves if (number := pull_number(move.full_name))}
    allowed = _allowed_actors(fork, target, last.values())
    for pull in target.pulls.filter(IS_ACTIVE, number__in=last):
        move = last[pull.number]
        moved = move.actor not in allowed and move.new != pull.head_sha
        if moved != pull.source_moved:
            Pull.objects.filter(pk=pull.pk).update(source_moved=moved)


def _allowed_actors(fork: Repo, target: Repo, moves: Iterable[RefMove]) -> set[User | None]:
    actors = {move.actor for move in moves}
    return {actor for actor in actors if may_move(fork, target, actor, actor)}


def fetch_commit(pull: Pull, sha: str) -> None:
    """Fetch a commit and its history from the fork into the target's repository, unless present.
    Creates no ref, because a push may still be refused. If git fails, the next push or merge tries
    again; until then the pull's statistics are 0.
    """
    if pull.is_from_fork and pull.source_repo is not None:
        _fetch(pull.source_repo, pull.repo, sha)


def fetch_into_source(pull: Pull, sha: str) -> None:
    """Fetch a commit and its history from the target's repository into the fork, unless present.
    The next git that needs the commit fails if this does.
    """
    if pull.is_from_fork and pull.source_repo is not None:
        _fetch(pull.repo, pull.source_repo, sha)


def _fetch(source: Repo, target: Repo, sha: str) -> None:
    with suppress(GitError):
        if not target.git.has_commit(sha):
            target.git.fetch_objects(source.git, sha)


def state_between(pull: Pull, base: str | None, head: str | None, facts: GitFacts) -> GitState:
    """The state of a pull with these tips; zeros if a tip is missing or git cannot compare them.

    git is not asked about the stored tips again, unless it could not compare them before, nor if
    the contents of a new version already include the numbers.
    """
    git = pull.repo.git
    if base is None or head is None:
        return GitState(head, base, DiffStat(0))
    if (base, head) == (pull.base_sha, pull.head_sha) and pull.commit_count:
        return GitState(head, base, pull.statistics)
    contents = None
    if facts.knows(contents_if_told, git, base, head):
        contents = facts.ask(contents_if_told, git, base, head)
    statistics = contents.statistics if contents else facts.ask(_statistics, git, base, head)
    return GitState(head, base, statistics)


def _statistics(git: GitRepo, base: str, head: str) -> DiffStat:
    try:
        return git.diff_stat(base, head)
    except GitError:
        return DiffStat(0, too_large=True)


def read_tips(pull: Pull, by: User) -> GitFacts:
    """Ask git the questions of `update_from_tips` before any lock. Changes nothing."""
    facts = GitFacts()
    update_from_tips(copy(pull), by, facts)
    return facts


def update_from_tips(pull: Pull, by: User, facts: GitFacts) -> list[NewVersion]:
    """Set the head, base and statistics of a pull that this person opens, without saving it.

    Returns the versions to write when the pull is saved: one if there is a new head. The head stays
    if the source branch does not exist, or if the pull may not take its tip (`takes_tip`).
    """
    source, target = pull.tip_refs()
    if source is not None:
        pull.source_moved = not takes_tip(pull, source, by)
    head, new_heads = pull.head_sha, []
    if source is not None and not pull.source_moved:
        fetch_commit(pull, source.sha)
        if source.sha != head:
            head, pull.head_pushed_by_id = source.sha, source.pushed_by_id
            new_heads = [(head, source.pushed_by_id)]
    base = target.sha if target is not None and head is not None else None
    versions = new_versions(pull, base, new_heads, facts)
    pull.set_git_state(state_between(pull, base, head, facts))
    pull.last_version += len(versions)
    return versions


def read_target(pull: Pull, branch: str) -> GitFacts:
    """Ask git the questions of `update_target` before any lock. Changes nothing."""
    facts, changed = GitFacts(), copy(pull)
    changed.target_branch = branch
    update_target(changed, facts)
    return facts


def update_target(pull: Pull, facts: GitFacts) -> list[NewVersion]:
    """Set the base and the statistics of a pull with a new target branch, without saving it.

    Returns the versions to write when the pull is saved: one with the same head and the new base,
    unless the newest one has no base yet, which `note_base` sets.
    """
    head = pull.head_sha
    base = pull.repo.branch_sha(pull.target_branch) if head is not None else None
    newest = pull.versions.filter(version=pull.last_version, base_sha__isnull=False)
    is_new = head is not None and newest.exists()
    heads = [(str(head), pull.head_pushed_by_id)] if is_new else []
    versions = new_versions(pull, base, heads, facts)
    pull.set_git_state(state_between(pull, base, head, facts))
    pull.last_version += len(versions)
    return versions


def update_refs_on_commit(pull: Pull, new: Sequence[PullVersion] = ()) -> None:
    """After the commit, update `refs/pull/<n>/head` and create the refs of these new versions,
    which keep commits of deleted branches.

    A rollback would not undo refs. If it fails, the next push updates the head's ref, and the
    worker creates those of versions.
    """
    git, pull_id, versions = pull.repo.git, pull.pk, [*new]
    # A lambda, because Django logs the name of a callback that fails, and a partial has none.
    transaction.on_commit(lambda: update_refs(git, pull_id, versions), robust=True)


def update_refs(git: GitRepo, pull_id: int, new: Sequence[PullVersion]) -> None:
    """Point the pull's ref to the stored head, and create the refs of new versions. Tries again if
    another process moves the head or the ref meanwhile.
    """
    for _ in range(UPDATE_TRIES):
        number, repo_id, head = HEAD.one(pk=pull_id)
        refs = {version_ref(number, version.version): version.head_sha for version in new}
        if head is not None:
            refs[pull_ref(number)] = head
        present = git.some_refs(refs)
        moves = [
            (ref, sha, present.get(ref, ZERO))
            for ref, sha in refs.items()
            if present.get(ref) != sha
        ]
        if moves and not git.update_refs(moves):
            continue
        if moves:
            seek_commits(repo_id)
        mark_complete(new)
        return


def keep_head(pull: Pull) -> None:
    """Create the ref that keeps the approved head, even after a force push. Call it before the
    review is saved: a ref without a review does no harm. If git fails, the commit stays some weeks.
    """
    if pull.head_sha is None:
        return
    try:
        pull.repo.git.update_ref(approved_ref(pull.number, pull.head_sha), pull.head_sha, ZERO)
    except GitError:
        text = "The approved head of pull %s of repository %s could not be kept"
        logger.exception(text, pull.number, pull.repo.uuid)

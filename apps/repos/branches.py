"""Moves one branch for an action, by the same steps as a push.

The caller has written the objects. The journal gets the move before git makes it. The ref and the
rows change in one transaction; if the process dies in it, `settle` writes the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Q

from apps.core.access import Level
from apps.core.errors import Conflict, unavailable
from apps.core.json import quoted
from apps.core.locks import lock
from apps.core.transactions import final_transaction
from apps.git.cache import GitFacts
from apps.git.refs import new_name_problem
from apps.git.run import Started
from apps.repos import quota
from apps.repos.access import RepoAccess
from apps.repos.models import BRANCHES, Protection, PushJournal, Repo, glob_matches
from apps.repos.pushes import (
    apply_moves,
    is_doubted,
    names_in_use,
    open_journal,
    read_facts,
    settle,
)
from apps.repos.rules import ZERO, RefMove


def nothing() -> None:
    """The check or the rows of a move that has none."""


def move_branch(
    *,
    access: RepoAccess,
    branch: str,
    old: str,
    new: str,
    check: Callable[[], object] = nothing,
    write: Callable[[], object] = nothing,
) -> None:
    """Move a branch from `old` to `new`, as a push by the caller. `ZERO` as `old` creates it, and
    `ZERO` as `new` deletes it. The commit exists already.

    Requires write access to the repository, which is checked again under its lock. `check` is
    called under this lock twice, the last time before git moves the ref; it may lock rows and
    refuse. `write` is called in the same transaction, after the rows of the push.

    Errors: 409 of `check_move` and `quota_reached`; 503, `GitError`. Locks the repository, then
    those with pulls from the branch.
    """
    move = RefMove(access.repo, BRANCHES + branch, old, new, access.user)
    if (move.repo.git.ref(move.full_name) or ZERO) != old:
        settle(repo=move.repo, push=uuid4())  # a process has died before it wrote its rows
    push = _announce(access, move, check)
    try:
        with move.repo.git.start_update() as git:
            facts = read_facts(move.repo, [move])
            _carry_out(access, move, push, facts, git, check, write)
    except BaseException:
        # If git has moved the ref nevertheless, this writes the rows; else it empties the journal.
        settle(repo=move.repo, push=push)
        raise


@transaction.atomic
def _announce(access: RepoAccess, move: RefMove, check: Callable[[], object]) -> UUID:
    """Check the move, and write it to the journal before git makes it."""
    _check(access, move, check)
    if move.new != ZERO:
        left, limit = quota.bytes_left(move.repo)
        if left <= 0:
            raise Conflict("quota_reached", f"The storage quota is used up: {limit}.")
    step = (move.full_name, move.old, move.new)
    return open_journal(actor=access.user, repo=move.repo, moves=[step])


@final_transaction
def _carry_out(
    access: RepoAccess,
    move: RefMove,
    push: UUID,
    facts: GitFacts,
    git: Started,
    check: Callable[[], object],
    write: Callable[[], object],
) -> None:
    """Move the ref with `git` and write the rows."""
    _check(access, move, check)
    if not move.repo.git.update_ref(move.full_name, move.new, move.old, git):
        if is_doubted(move.repo, move.full_name):
            raise unavailable()  # a retry fails too while the disk shows an old value
        text = f"{move.name} has just been created or moved. Try again."
        raise Conflict("branch_exists" if move.old == ZERO else "head_changed", text)
    PushJournal.objects.filter(repo=move.repo, push=push).delete()
    apply_moves(move.repo, [move], facts)
    write()


def _check(access: RepoAccess, move: RefMove, check: Callable[[], object]) -> None:
    lock(move.repo)
    access.renewed().require_change(Level.WRITE)
    check_move(move)
    check()


def check_move(move: RefMove) -> None:
    """409 if the stored branch is not at `old` (`branch_exists`, `branch_missing`, `head_changed`),
    if it is protected (`branch_protected`), and for deleting the default branch (`default_branch`).
    The caller holds the repository's lock.
    """
    repo, name, stored = move.repo, move.name, move.repo.branch_sha(move.name)
    if move.old == ZERO:
        check_new_name(repo, name)
        return
    if stored is None:
        raise Conflict("branch_missing", f"There is no branch {name}.")
    if move.new == ZERO and name == repo.default_branch:
        raise Conflict("default_branch", f"{name} is the default branch and cannot be deleted.")
    if is_protected(repo, name):
        raise Conflict("branch_protected", f"{name} is protected: it changes only by merging.")
    if stored != move.old:
        raise Conflict("head_changed", f"The head is now {stored}, not {move.old}.")


def check_new_name(repo: Repo, name: str) -> None:
    """409 `branch_exists` if there is a branch, a tag or a folder of branches of this name, or if a
    part of it is a branch. The rules for new names also apply.
    """
    full_name = BRANCHES + name
    if repo.branch_sha(name) is not None:
        raise Conflict("branch_exists", f"There is a branch {name} already.")
    parts = name.split("/")
    parents = [BRANCHES + "/".join(parts[:count]) for count in range(1, len(parts))]
    blocking = Q(full_name__in=parents) | Q(full_name__startswith=f"{full_name}/")
    if other := repo.refs.filter(blocking).first():
        raise Conflict("branch_exists", f"{name} cannot be created beside {other.name}.")
    if names_in_use(repo, [full_name]):
        raise Conflict("branch_exists", f"A tag has the name {name}.")
    if problem := new_name_problem(name):
        raise Conflict("branch_exists", f"{quoted(name)} cannot be created: {problem}.")


def is_protected(repo: Repo, branch: str) -> bool:
    """Whether a protection forbids pushes to the branch; one query."""
    patterns = Protection.objects.filter(repo=repo).values_list("branch", flat=True)
    return any(glob_matches(pattern, branch) for pattern in patterns)

"""Pulls from forks: where their source is, and how its commits get into the target.

A move of the fork's branch is treated as a move of `refs/pull/<n>/head` in the target, which keeps
the commits there; so a pull from a fork follows, merges and outlives its branch as any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from apps.core.access import Level
from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.git.run import GitError
from apps.pulls.models import IS_ACTIVE, Pull
from apps.repos.access import RepoAccess, access_to
from apps.repos.models import Fork, ForkStatus, Repo
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
    name, colon, branch = text.rpartition(":")
    owner = name.lower()
    own = {repo.owner.path.lower()}
    if repo.owner_user is not None:
        own.add(repo.owner_user.username_key)
    if not colon or owner in own:
        return repo, branch
    fork = _fork_of(repo, owner)
    access = None if fork is None else access_to(by.principal, fork)
    if access is None or access.level < Level.READ:
        raise Invalid("source_not_found", f"{quoted(text, 300)} names no branch that you can read.")
    access.check_open(writing=False)
    access.require(Level.WRITE)
    return access.repo, branch


def _fork_of(repo: Repo, owner: str) -> Repo | None:
    """The fork in the space of `teams/<slug>`, `users/<username>` or `<username>`."""
    kind, slash, slug = owner.rpartition("/")
    if slash and kind not in {"teams", "users"}:
        return None
    owned = {"owner_team__slug": slug} if kind == "teams" else {"owner_user__username_key": slug}
    paths = ("repo__owner_team", "repo__owner_user")
    found = Fork.objects.filter(upstream=repo, status=ForkStatus.COMPLETED, **owned)
    fork = found.select_related(*paths).first()
    return fork.repo if fork else None


def pull_number(full_name: str) -> int | None:
    """The pull whose head is kept under this ref; None for another ref."""
    found = PULL_REF.fullmatch(full_name)
    return int(found[1]) if found else None


def pull_ref_moves(fork: Repo, moves: Sequence[RefMove]) -> Iterator[tuple[Repo, list[RefMove]]]:
    """What moves of a fork's branches mean in the repositories that have pulls from them: each with
    the moves of its `refs/pull/<n>/head`.

    Fetches the commits there first, once for all pulls. A branch that is deleted moves nothing: its
    pulls keep their heads.
    """
    if fork.upstream_id is None:
        return
    names = [move.name for move in moves if move.is_branch]
    pulls = Pull.objects.filter(IS_ACTIVE, source_repo=fork, source_branch__in=names)
    people = ("repo__owner_team", "repo__owner_user")
    elsewhere = pulls.exclude(repo=fork).select_related(*people).order_by("repo_id", "number")
    for _, group in groupby(elsewhere, key=lambda pull: pull.repo_id):
        theirs, found = list(group), list[RefMove]()
        for move in moves:
            those = [one for one in theirs if move.is_branch and one.source_branch == move.name]
            if not those or move.new == ZERO:
                continue
            those[0].source_repo = fork
            fetch_commit(those[0], move.new)
            found += [
                RefMove(one.repo, one.source_ref, move.old, move.new, move.actor) for one in those
            ]
        if found:
            yield theirs[0].repo, found


def fetch_commit(pull: Pull, sha: str) -> None:
    """Fetch a commit of the fork, and its history, into the target's store, unless it is there.

    No ref points to it before it is the pull's head: a push may still be refused. What git cannot
    copy now the next push or the merge fetches; until then the figures are 0.
    """
    if not pull.is_from_fork or pull.source_repo is None:
        return
    git, source = pull.repo.git, pull.source_repo
    try:
        if not git.has_commit(sha):
            git.fetch_objects(source.git, sha)
    except GitError:
        return

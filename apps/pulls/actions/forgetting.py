"""Removing a commit from a repository for good, for who runs the site: a pushed secret."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from apps.browse.models import GitCache
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.git import forget as in_git
from apps.pulls.models import IS_ACTIVE, MergeAttempt, Pull
from apps.repos.models import BRANCHES, TAGS, NamedCommit, PushJournal, Repo
from apps.repos.rules import ZERO

PULL = re.compile(r"refs/pull/([0-9]+)/head")


@dataclass(frozen=True)
class Found:
    """What stands in the way, as sentences, and the refs that would go: what git shows nobody."""

    obstacles: list[str]
    hidden: dict[str, str]


def find(repo: Repo, sha: str) -> Found:
    """What leads to the commit; nothing for one that is not there. `GitError`, `ValueError`."""
    if in_git.missing(repo.git, [sha]):
        return Found([], {})
    active = repo.pulls.filter(IS_ACTIVE).values_list("number", flat=True)
    obstacles, hidden = [], {}
    for name, at in in_git.refs_with(repo.git, sha).items():
        obstacle = obstacle_of(name, {*active})
        if obstacle:
            obstacles.append(obstacle)
        else:
            hidden[name] = at
    return Found(obstacles, hidden)


def obstacle_of(name: str, active: set[int]) -> str:
    """Why a ref cannot just go, and what to do about it; empty for one that can."""
    if name.startswith(BRANCHES):
        short = name.removeprefix(BRANCHES)
        return f"branch {short} has it: rewrite the branch without it and push that, or delete it"
    if name.startswith(TAGS):
        return f"tag {name.removeprefix(TAGS)} has it: delete the tag"
    pull = PULL.fullmatch(name)
    if pull and int(pull[1]) in active:
        return f"pull {pull[1]} is open and has it: push its branch without it, or close it"
    return ""


@transaction.atomic
def forget(repo: Repo, sha: str) -> list[str]:
    """Remove the commit, all that only it leads to, and all answers that may come from it; an event
    `commit-forgotten` without an actor. Returns the refs that went.

    Done again after it died in the middle, it does the rest. Pushes and merges wait meanwhile: git
    would otherwise remove what they are writing. `ValueError` while a branch, a tag or an open pull
    has the commit, or a push or merge is under way; `GitError`.
    """
    lock(repo)
    pulls = list(Pull.objects.select_for_update().filter(IS_ACTIVE, repo=repo).order_by("pk"))
    merging = MergeAttempt.objects.filter(pull__in=pulls, leased_until__gt=timezone.now())
    if merging.exists() or PushJournal.objects.filter(repo=repo).exists():
        raise ValueError("a push or a merge is under way: try again in a moment")
    found = find(repo, sha)
    if found.obstacles:
        raise ValueError(". ".join(found.obstacles))
    for name, at in found.hidden.items():
        repo.git.update_ref(name, ZERO, at)
    in_git.prune(repo.git, sha)
    forget_answers(repo)
    record(Kind.COMMIT_FORGOTTEN, actor=None, about=repo, data={"sha": sha})
    return sorted(found.hidden)


def forget_answers(repo: Repo) -> None:
    """Drop what is stored of commits that the repository no longer has.

    Kept answers all go, of every repository: comparisons with forks are kept there too, and a
    question cannot be read from its key.
    """
    GitCache.objects.all().delete()
    named = NamedCommit.objects.filter(repo=repo).exclude(sha="")
    gone = in_git.missing(repo.git, {*named.values_list("sha", flat=True)})
    named.filter(sha__in=gone).update(sha="")

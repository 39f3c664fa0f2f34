"""Removing a commit from a repository for good, for who runs the site: a pushed secret."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from apps.browse.cache import drop_answers
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.git import forget as in_git
from apps.pulls.forgetting import find, forget_answers
from apps.pulls.models import IS_ACTIVE, MergeAttempt, Pull
from apps.repos.models import CommitPush, PushJournal, Repo
from apps.repos.rules import ZERO


@transaction.atomic
def forget_commit(*, repo: Repo, sha: str) -> list[str]:
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
    CommitPush.objects.filter(repo=repo, sha=sha).delete()
    # Once more, because until then a read that had begun before does not see the event, and keeps
    # what git told it.
    transaction.on_commit(drop_answers)
    record(Kind.COMMIT_FORGOTTEN, actor=None, about=repo, data={"sha": sha})
    return sorted(found.hidden)

"""Removing a commit from a repository for good, such as one with a secret."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from apps.browse.cache import drop_answers, pack
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.pulls.draft_reviews import DraftComment
from apps.pulls.heads import pull_number
from apps.pulls.models import IS_ACTIVE, MergeAttempt, Pull, PullVersion, VersionContents
from apps.repos.models import BRANCHES, TAGS, CommitPush, NamedCommit, PushJournal, Repo
from apps.repos.rules import ZERO
from apps.threads.anchors import Anchor


@transaction.atomic
def forget_commit(*, repo: Repo, sha: str, dry_run: bool = False) -> list[str]:
    """Remove a commit, all objects that are reachable only from it, and all cached answers. Returns
    the names of the hidden refs that are deleted. Can be repeated if it has been interrupted.

    `ValueError` if a branch, a tag or an open pull contains the commit, or if a push or a merge is
    in progress; `GitError`. Locks the repository and its open pulls, because git would otherwise
    remove objects that a push or a merge has just written.
    """
    if not dry_run:
        _lock_writers(repo)
    obstacles, hidden = _refs_with(repo, sha)
    if obstacles:
        raise ValueError(". ".join(obstacles))
    if dry_run:
        return sorted(hidden)
    for name, tip in hidden.items():
        repo.git.update_ref(name, ZERO, tip)
    repo.git.prune(sha)
    drop_answers()
    _forget_named_commits(repo)
    _forget_versions(repo)
    _forget_snippets(repo)
    CommitPush.objects.filter(repo=repo, sha=sha).delete()
    # Drop them again after the commit: a read that began earlier may have cached an answer since.
    transaction.on_commit(drop_answers)
    record(Kind.COMMIT_FORGOTTEN, actor=None, about=repo, data={"sha": sha})
    return sorted(hidden)


def _lock_writers(repo: Repo) -> None:
    """Lock the repository and its open pulls; `ValueError` if a push or a merge is in progress."""
    lock(repo)
    pulls = list(Pull.objects.select_for_update().filter(IS_ACTIVE, repo=repo).order_by("pk"))
    merging = MergeAttempt.objects.filter(pull__in=pulls, leased_until__gt=timezone.now())
    if merging.exists() or PushJournal.objects.filter(repo=repo).exists():
        raise ValueError("a push or a merge is in progress: try again in a moment")


def _refs_with(repo: Repo, sha: str) -> tuple[list[str], dict[str, str]]:
    """The obstacles as sentences, and the hidden refs with their values; both contain the commit.
    `GitError`, `ValueError`.
    """
    if repo.git.missing([sha]):
        return [], {}
    active = {*repo.pulls.filter(IS_ACTIVE).values_list("number", flat=True)}
    refs = repo.git.refs_with(sha)
    sentences = {name: _obstacle(name, active) for name in refs}
    obstacles = [sentence for sentence in sentences.values() if sentence]
    return obstacles, {name: tip for name, tip in refs.items() if not sentences[name]}


def _obstacle(name: str, active: set[int]) -> str:
    """The reason why a ref cannot be deleted, and the remedy; empty if it can."""
    if name.startswith(BRANCHES):
        branch = name.removeprefix(BRANCHES)
        return f"branch {branch} contains the commit: push the branch without it, or delete it"
    if name.startswith(TAGS):
        return f"tag {name.removeprefix(TAGS)} contains the commit: delete the tag"
    number = pull_number(name)
    if number in active:
        return f"pull {number} contains the commit: push its branch without it, or close the pull"
    return ""


def _forget_named_commits(repo: Repo) -> None:
    named = NamedCommit.objects.filter(repo=repo).exclude(sha="")
    missing = repo.git.missing({*named.values_list("sha", flat=True)})
    named.filter(sha__in=missing).update(sha="")


def _forget_versions(repo: Repo) -> None:
    """Empty the versions whose head git no longer has, but for their numbers."""
    versions = PullVersion.objects.filter(pull__repo=repo)
    heads = repo.git.missing({*versions.values_list("head_sha", flat=True)})
    lost = versions.filter(head_sha__in=heads)
    zeros = dict.fromkeys(("commit_count", "additions", "deletions", "changed_files"), 0)
    lost.filter(commit_count=None).update(**zeros)
    lost.update(due_at=None)
    empty = {"commits": pack([]), "files": pack([])}
    VersionContents.objects.bulk_create(
        [VersionContents(version=version, **empty) for version in lost],
        update_conflicts=True,
        unique_fields=["version"],
        update_fields=[*empty],
    )


def _forget_snippets(repo: Repo) -> None:
    """Empty the snippets of comments on commits that git no longer has. The worker finds that the
    lines are not there any more.
    """
    anchors = Anchor.objects.filter(thread__repo=repo)
    shas = {*anchors.values_list("commit_sha", flat=True).distinct()}
    lost = anchors.filter(commit_sha__in=repo.git.missing(shas))
    lost.update(snippet=[], due_at=timezone.now())
    drafts = DraftComment.objects.filter(draft__pull__repo=repo).exclude(commit_sha=None)
    drafted = drafts.values_list("commit_sha", flat=True).distinct()
    lost_drafts = repo.git.missing({sha for sha in drafted if sha})
    drafts.filter(commit_sha__in=lost_drafts).update(snippet=[])

"""What leads to a commit that is to go for good, and what is stored about it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from apps.browse.cache import drop_answers, pack_commits, pack_files
from apps.pulls.models import IS_ACTIVE, PullVersion, VersionContents
from apps.repos.models import BRANCHES, TAGS, NamedCommit, Repo

PULL = re.compile(r"refs/pull/([0-9]+)/head")


@dataclass(frozen=True)
class Found:
    """What stands in the way, as sentences, and the refs that would go: what git shows nobody."""

    obstacles: list[str]
    hidden: dict[str, str]


def find(repo: Repo, sha: str) -> Found:
    """What leads to the commit; nothing for one that is not there. `GitError`, `ValueError`."""
    if repo.git.missing([sha]):
        return Found([], {})
    active = repo.pulls.filter(IS_ACTIVE).values_list("number", flat=True)
    obstacles, hidden = [], {}
    for name, at in repo.git.refs_with(sha).items():
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


def forget_answers(repo: Repo) -> None:
    """Drop what is stored of commits that the repository no longer has.

    All cached answers are deleted, of every repository: they include comparisons with forks, and a
    question cannot be read from its key.
    """
    drop_answers()
    named = NamedCommit.objects.filter(repo=repo).exclude(sha="")
    gone = repo.git.missing({*named.values_list("sha", flat=True)})
    named.filter(sha__in=gone).update(sha="")
    forget_versions(repo)


def forget_versions(repo: Repo) -> None:
    """Empty the lists of versions whose head is gone; their numbers stay, and say that the lists
    are cut. Nobody asks git about them again.
    """
    versions = PullVersion.objects.filter(pull__repo=repo)
    heads = repo.git.missing({*versions.values_list("head_sha", flat=True)})
    lost = versions.filter(head_sha__in=heads)
    zeros = dict.fromkeys(("commit_count", "additions", "deletions", "changed_files"), 0)
    lost.filter(commit_count=None).update(**zeros)
    lost.update(due_at=None)
    empty = {"commits": pack_commits([]), "files": pack_files([])}
    VersionContents.objects.bulk_create(
        [VersionContents(version=version, **empty) for version in lost],
        update_conflicts=True,
        unique_fields=["version"],
        update_fields=[*empty],
    )

"""What reading code tells of pulls: see `PullsOfCode` in `apps/browse/names.py`."""

from __future__ import annotations

from collections import defaultdict

from django.db.models import Q

from apps.pulls.models import IS_ACTIVE
from apps.repos.models import Repo

MOST = 10


def head_of(repo: Repo, number: int) -> str | None:
    """The commit of a pull's head; None where there is none."""
    return repo.pulls.filter(number=number).values_list("head_sha", flat=True).first()


def open_numbers(repo: Repo, branches: list[str]) -> dict[str, list[int]]:
    """Source branch of this repository -> its open and draft pulls into it, ten at most."""
    rows = repo.pulls.filter(IS_ACTIVE, source_repo=repo, source_branch__in=branches)
    found = defaultdict[str, list[int]](list)
    for branch, number in rows.order_by("number").values_list("source_branch", "number"):
        if len(found[branch]) < MOST:
            found[branch].append(number)
    return dict(found)


def numbers_with(repo: Repo, sha: str) -> list[int]:
    """The pulls that have this commit as a head or that were merged by it, ten at most."""
    rows = repo.pulls.filter(Q(head_sha=sha) | Q(merge_commit_sha=sha)).order_by("number")
    return [*rows.values_list("number", flat=True)[:MOST]]

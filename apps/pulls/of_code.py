"""What reading code tells of pulls: see `PullsOfCode` in `apps/browse/names.py`."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from django.db.models import Exists, F, OuterRef, Q
from django.db.models.expressions import RawSQL

from apps.core.statements import Parameter, Statement, parameters
from apps.pulls.models import ACTIVE, Pull
from apps.repos.models import Repo

MOST = 10


@cache
def of_branches(count: int) -> Statement:
    """Selects the active pulls from so many branches of a repository into it, oldest first."""
    # The states stand in the text, so that the index of active pulls serves; the sums keep SQLite
    # from walking through all pulls of the repository instead.
    states = [RawSQL(f"'{status.value}'", ()) for status in ACTIVE]  # noqa: S611 - words of ours
    rows = Pull.objects.alias(into=F("repo") + 0).filter(
        source_repo=Parameter("repo"),
        into=F("source_repo"),
        status__in=states,
        source_branch__in=parameters("branches", count),
    )
    rows = rows.order_by(F("number") + 0)
    return Statement(lambda: rows.values_list("source_branch", "number"))


def head_of(repo: Repo, number: int) -> str | None:
    """The commit of a pull's head; None where there is none."""
    return repo.pulls.filter(number=number).values_list("head_sha", flat=True).first()


def open_numbers(repo: Repo, branches: list[str]) -> dict[str, list[int]]:
    """Source branch of this repository -> its open and draft pulls into it, ten at most."""
    if not branches:
        return {}
    found = defaultdict[str, list[int]](list)
    for branch, number in of_branches(len(branches)).all(repo=repo.pk, branches=branches):
        if len(found[branch]) < MOST:
            found[branch].append(number)
    return dict(found)


def numbers_with(repo: Repo, sha: str) -> list[int]:
    """The pulls that have this commit as a head or that were merged by it, ten at most."""
    rows = repo.pulls.filter(Q(head_sha=sha) | Q(merge_commit_sha=sha)).order_by("number")
    return [*rows.values_list("number", flat=True)[:MOST]]


def from_source_of(repo: Repo) -> Exists:
    """The condition for rows with a `repo`: a pull comes from there into this repository."""
    return Exists(Pull.objects.filter(repo=repo.pk, source_repo=OuterRef("repo")))

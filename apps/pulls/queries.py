"""What the API, the pages and the event scopes read of pulls and reviews."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, QuerySet

from apps.core.lookup import Missing
from apps.core.pagination import CountOf
from apps.core.statements import Parameter, Statement
from apps.pulls.models import IS_ACTIVE, PULL_ROW, Pull, ReviewQuerySet
from apps.pulls.rules import ORDERINGS
from apps.repos.models import Repo, RepoQuerySet

PULL = Statement(
    lambda: (
        Pull.objects.filter(repo=Parameter("repo"), number=Parameter("number"))
        .select_related("thread__created_by", "merged_by")
        .defer("thread__body_html")
    )
)


def get_pull(repo: Repo, number: int) -> Pull:
    """The pull of this number with its thread, its people and its repository loaded; 404."""
    pull: Pull | None = PULL.first(repo=repo.pk, number=number)
    if pull is None:
        raise Missing("pull", number, repo.path)
    pull.repo = repo
    return pull


def list_pulls(repo: int | Parameter) -> QuerySet[Any, Any]:
    """A repository's pulls, by its id, newest first, as the values of `PULL_ROW`."""
    return Pull.objects.filter(repo=repo).in_order(ORDERINGS[0]).values_list(*PULL_ROW.values())


# Django spends a quarter of the time of the list on the text of this query (bench/api.py).
PULLS = Statement(lambda: list_pulls(Parameter("repo")))


def list_reviews(pull: Pull) -> ReviewQuerySet:
    """The reviews of a pull, oldest first, with what their records need."""
    return pull.reviews.with_people(pull.repo).order_by("created_at", "id")


def with_open_pulls(repos: RepoQuerySet) -> RepoQuerySet:
    """These repositories with the number of their open pulls and drafts as `open_pulls`; one more
    than `MOST_COUNTED` at most.
    """
    return repos.annotate(open_pulls=CountOf(Pull.objects.filter(IS_ACTIVE, repo=OuterRef("pk"))))

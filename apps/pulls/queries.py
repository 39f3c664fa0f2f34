"""What the API, the pages and the event scopes read of pulls and reviews."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from django.db.models import OuterRef, QuerySet

from apps.accounts.models import User
from apps.core.lookup import Missing
from apps.core.pagination import CountOf
from apps.core.statements import Columns, Statement
from apps.pulls import rules
from apps.pulls.models import IS_ACTIVE, JOINED, PULL_ROW, Pull, ReviewQuerySet
from apps.repos.models import Repo, RepoQuerySet
from apps.threads.models import Thread

PULL = Statement(
    """
    SELECT {pull}, {thread}, {author}, {merger} FROM "pulls_pull" pull
    JOIN "threads_thread" thread ON thread.id = pull.thread_id
    JOIN "accounts_user" author ON author.id = thread.created_by_id
    LEFT JOIN "accounts_user" merger ON merger.id = pull.merged_by_id
    WHERE pull.repo_id = %s AND pull.number = %s
    """,
    pull=Pull,
    thread=Columns(Thread, without=["body_html"]),
    author=User,
    merger=User,
)

OWN = [name for name in PULL_ROW if name not in JOINED]
# Django spends a quarter of the time of the list on the text of this query (bench/api.py).
PULLS = Statement(
    """
    SELECT {pull}, {thread}, {author}, {merger} FROM "pulls_pull" pull
    JOIN "threads_thread" thread ON thread.id = pull.thread_id
    JOIN "accounts_user" author ON author.id = thread.created_by_id
    LEFT JOIN "accounts_user" merger ON merger.id = pull.merged_by_id
    WHERE pull.repo_id = %s ORDER BY pull.number DESC LIMIT %s OFFSET %s
    """,
    pull=Columns(Pull, OWN),
    thread=Columns(Thread, ["title", "body", "last_activity_at", "created_at"]),
    author=Columns(User, ["uuid", "username"]),
    merger=Columns(User, ["uuid", "username"]),
)
AS_SELECTED = [*OWN, *JOINED]
IN_ORDER = itemgetter(*map(AS_SELECTED.index, PULL_ROW))
"""Puts the values of a row of `PULLS` in the order of `PULL_ROW`."""


def get_pull(repo: Repo, number: int) -> Pull:
    """The pull of this number with its thread, its people and its repository loaded; 404."""
    pull: Pull
    row = PULL.first(repo.pk, number)
    if row is None:
        raise Missing("pull", number, repo.path)
    pull, pull.thread, pull.thread.created_by, merger = row
    pull.merged_by = merger if pull.merged_by_id else None
    pull.repo = repo
    return pull


def list_pulls(repo: Repo) -> QuerySet[Any, Any]:
    """A repository's pulls, newest first, as the values of `PULL_ROW`."""
    pulls = Pull.objects.filter(repo=repo.pk).in_order(rules.ORDERINGS[0])
    return pulls.values_list(*PULL_ROW.values())


class PullRows:
    """A repository's pulls as `list_pulls` gives them; only slices."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo

    def __getitem__(self, part: slice) -> list[Any]:
        return [*map(IN_ORDER, PULLS.rows(self.repo.pk, part.stop - part.start, part.start))]


def list_reviews(pull: Pull) -> ReviewQuerySet:
    """The reviews of a pull, oldest first, with what their records need."""
    return pull.reviews.with_people(pull.repo).order_by("created_at", "id")


def with_open_pulls(repos: RepoQuerySet) -> RepoQuerySet:
    """These repositories with the number of their open pulls and drafts as `open_pulls`; one more
    than `MOST_COUNTED` at most.
    """
    return repos.annotate(open_pulls=CountOf(Pull.objects.filter(IS_ACTIVE, repo=OuterRef("pk"))))

"""Threads, or pulls, of all the repositories that somebody may read, by their newest activity.

docs/decisions/0011-lists-across-repositories.md says why they are asked for like this.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from apps.accounts.models import User
from apps.core.access import Principal
from apps.repos.models import Repo, RepoPath
from apps.teams.models import Team
from apps.threads.models import Reply, Thread

FEW = 100
"""So many repositories are each asked for their newest rows. Of more, all rows are walked through
in their order until enough have been found that may be read.
"""


class Position(NamedTuple):
    """A place in the order of activity."""

    at: dt.datetime
    uuid: UUID


class Found(NamedTuple):
    """A row of a page: its place, its repository, and the values that were asked for."""

    position: Position
    repo: RepoPath
    values: Sequence[Any]


@dataclass(frozen=True)
class Across:
    """What is listed, and for whom."""

    rows: QuerySet[Any, Any]
    """The threads or pulls that the filters let through, whoever may read them."""
    columns: Sequence[str]
    """The paths to the values of a row."""
    principal: Principal
    team: str = ""
    """Only of the team that has or had this slug; empty: of everybody."""
    thread: str = ""
    """The path from a row to its thread, such as `thread__`."""
    is_narrow: bool = False
    """Whether a filter has an index that finds its rows wherever they are: those of one person, or
    with words in the title."""

    def find(
        self, *, after: Position | None, before: Position | None, size: int, newest_first: bool
    ) -> list[Found]:
        """At most `size` rows between two places, in order. Two queries at most."""
        places = self.places
        rows = self._between(after, before)
        if places == [] or rows.query.is_empty():
            return []
        order = [self._path(name) for name in ("last_activity_at", "uuid")]
        if newest_first:
            order = [f"-{name}" for name in order]
        rows = rows.order_by(*order)
        lateral = connection.vendor == "postgresql" and not self.is_narrow
        if places is not None and lateral:
            pks: Any = self._of_each(places, rows, size, "DESC" if newest_first else "ASC")
        else:
            pks = self._of_all(places, rows, size)
        return self._read(rows.model._default_manager.filter(pk__in=pks).order_by(*order))

    def _path(self, name: str) -> str:
        return f"{self.thread}{name}"

    @cached_property
    def places(self) -> list[int] | None:
        """The ids of the repositories where there are few, else None."""
        if self.principal.sees_all and not self.team:
            return None
        repos = Repo.objects.all()
        if self.team:
            repos = repos.filter(owner_team__in=Team.objects.called(self.team))
        return repos.few_visible_to(self.principal, FEW)

    def _between(self, after: Position | None, before: Position | None) -> QuerySet[Any, Any]:
        """The rows between the two. The bound by time alone is for the index."""
        at, uuid, rows = self._path("last_activity_at"), self._path("uuid"), self.rows
        if before is not None:
            beyond = Q((f"{at}__lt", before.at)) | Q((f"{uuid}__lt", before.uuid))
            rows = rows.filter(beyond, (f"{at}__lte", before.at))
        if after is not None:
            beyond = Q((f"{at}__gt", after.at)) | Q((f"{uuid}__gt", after.uuid))
            rows = rows.filter(beyond, (f"{at}__gte", after.at))
        return rows

    def _of_all(self, places: list[int] | None, rows: Any, size: int) -> QuerySet[Any, Any]:
        """The ids of the first rows, asked for with the condition that they may be read."""
        repo = self._path("repo")
        if places is not None:
            rows = rows.filter((f"{repo}__in", places))
        else:
            rows = rows.filter(Repo.objects.where_readable(self.principal, repo))
            if self.team:
                rows = rows.filter((f"{repo}__owner_team__in", Team.objects.called(self.team)))
        found: QuerySet[Any, Any] = rows.values("pk")[:size]
        return found

    def _of_each(self, places: list[int], rows: Any, size: int, direction: str) -> RawSQL:
        """The same from the first rows of each repository: none is read further than for a page,
        however many rows it has, and however long nothing has happened there.
        """
        rows = rows.filter((self._path("repo"), RawSQL("place.id", ())))
        sorted_by = [self._path("last_activity_at"), self._path("uuid")]
        sql, parameters = rows.values_list(*sorted_by, "pk")[:size].query.sql_with_params()
        text = f"""
            SELECT found.id FROM unnest(%s::bigint[]) AS place(id)
            CROSS JOIN LATERAL ({sql}) AS found(at, uuid, id)
            ORDER BY found.at {direction}, found.uuid {direction} LIMIT %s
        """  # noqa: S608 - the ORM's own SQL and one of two words
        return RawSQL(text, (places, *parameters, size))  # noqa: S611 - as above

    def _read(self, rows: QuerySet[Any, Any]) -> list[Found]:
        place = [self._path("last_activity_at"), self._path("uuid")]
        place += RepoPath.columns(self._path("repo__"))
        end = len(place)
        return [
            Found(Position(*row[:2]), RepoPath(*row[2:end]), row[end:])
            for row in rows.values_list(*place, *self.columns)
        ]


def threads_of(person: User) -> QuerySet[Any, Any]:
    """The ids of the threads, those of pulls too, that have this person among the participants."""
    opened = Thread.objects.filter(created_by=person.pk).values("pk")
    return opened.union(Reply.objects.live().filter(created_by=person.pk).values("thread"))

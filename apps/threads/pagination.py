"""Lists of threads, or of pulls, across repositories: newest activity first, in pages by cursor.

docs/decisions/0011-lists-across-repositories.md explains the queries.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core.access import Principal
from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.core.pagination import PER_PAGE, ApiPagination
from apps.repos.models import Repo, RepoPath
from apps.teams.models import Team

FEW_REPOS = 100
"""Up to this many repositories, a list reads the newest rows of each repository. Beyond it, it
walks through the rows of all repositories in order, and skips those that may not be read.
"""
CURSOR = re.compile(r"([0-9]{1,17})-([0-9a-f]{32})")
"""Microseconds since 1970, and the uuid that orders rows of the same moment."""
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)
LAST_UUID = UUID(int=2**128 - 1)


class Position(NamedTuple):
    """Where a row stands in the order of activity."""

    at: dt.datetime
    uuid: UUID


class CrossRepoRow(NamedTuple):
    """A row of a page: its position, its repository, and the values of the columns."""

    position: Position
    repo: RepoPath
    values: Sequence[Any]


@dataclass(frozen=True)
class CrossRepoList:
    """The threads or pulls of all repositories that a principal may read."""

    rows: QuerySet[Any, Any]
    """The filtered threads or pulls, readable or not."""
    columns: Sequence[str]
    """The paths to the values of a row."""
    principal: Principal
    team: str = ""
    """Restricts the list to the team with this slug, current or former; empty: no restriction."""
    thread: str = ""
    """The path from a row to its thread, such as `thread__`."""
    is_narrow: bool = False
    """Whether a filter has an index of its own across repositories: by person, or by title."""

    def page(
        self, *, after: Position | None, before: Position | None, size: int, newest_first: bool
    ) -> list[CrossRepoRow]:
        """At most `size` rows between two positions, in order; at most two queries."""
        rows = self._between(after, before)
        if self.repo_ids == [] or rows.query.is_empty():
            return []
        order = [f"-{name}" if newest_first else name for name in self._position]
        rows = rows.order_by(*order)
        has_lateral_joins = connection.vendor == "postgresql"
        pks: RawSQL | QuerySet[Any, Any] = self._first_of_all(rows, size)
        if self.repo_ids is not None and has_lateral_joins and not self.is_narrow:
            direction = "DESC" if newest_first else "ASC"
            pks = self._first_of_each(self.repo_ids, rows, size, direction)
        return self._read(rows.model._default_manager.filter(pk__in=pks).order_by(*order))

    def _path(self, name: str) -> str:
        return f"{self.thread}{name}"

    @property
    def _position(self) -> list[str]:
        """The paths to the columns of a `Position`."""
        return [self._path("last_activity_at"), self._path("uuid")]

    @cached_property
    def repo_ids(self) -> list[int] | None:
        """The ids of the repositories to list; None if there are more than `FEW_REPOS`."""
        if self.principal.sees_all and not self.team:
            return None
        repos = Repo.objects.all()
        if self.team:
            repos = repos.filter(owner_team__in=Team.objects.called(self.team))
        return repos.few_visible_to(self.principal, FEW_REPOS)

    def _between(self, after: Position | None, before: Position | None) -> QuerySet[Any, Any]:
        """The rows between two positions. The index uses the condition on the time alone."""
        rows, (at, uuid) = self.rows, self._position
        for end, lookup in ((before, "lt"), (after, "gt")):
            if end is not None:
                beyond = Q((f"{at}__{lookup}", end.at)) | Q((f"{uuid}__{lookup}", end.uuid))
                rows = rows.filter(beyond, (f"{at}__{lookup}e", end.at))
        return rows

    def _first_of_all(self, rows: QuerySet[Any, Any], size: int) -> QuerySet[Any, Any]:
        repo = self._path("repo")
        if self.repo_ids is not None:
            rows = rows.filter((f"{repo}__in", self.repo_ids))
        else:
            rows = rows.filter(Repo.objects.where_readable(self.principal, repo))
            if self.team:
                rows = rows.filter((f"{repo}__owner_team__in", Team.objects.called(self.team)))
        return rows.values("pk")[:size]

    def _first_of_each(
        self, repo_ids: list[int], rows: QuerySet[Any, Any], size: int, direction: str
    ) -> RawSQL:
        """The ids of the first rows, from the first rows of each repository: each costs at most one
        page of its index, however many rows it has.
        """
        rows = rows.filter((self._path("repo"), RawSQL("repo.id", ())))
        sql, parameters = rows.values_list(*self._position, "pk")[:size].query.sql_with_params()
        text = f"""
            SELECT first.id FROM unnest(%s::bigint[]) AS repo(id)
            CROSS JOIN LATERAL ({sql}) AS first(at, uuid, id)
            ORDER BY first.at {direction}, first.uuid {direction} LIMIT %s
        """  # noqa: S608 - the ORM's own SQL and one of two words
        return RawSQL(text, (repo_ids, *parameters, size))  # noqa: S611 - as above

    def _read(self, rows: QuerySet[Any, Any]) -> list[CrossRepoRow]:
        columns = [*self._position, *RepoPath.columns(self._path("repo__"))]
        end = len(columns)
        return [
            CrossRepoRow(Position(*row[:2]), RepoPath(*row[2:end]), row[end:])
            for row in rows.values_list(*columns, *self.columns)
        ]


def cursor_of(position: Position) -> str:
    """A position as the cursor that clients send back."""
    return f"{(position.at - EPOCH) // MICROSECOND}-{position.uuid.hex}"


def read_cursor(name: str, text: str) -> Position:
    """The position that a cursor names; 422 `invalid_cursor`."""
    match = CURSOR.fullmatch(text)
    if match is None:
        raise Invalid("invalid_cursor", f"{name}: {quoted(text)} is no cursor of this list.")
    return Position(EPOCH + int(match[1]) * MICROSECOND, UUID(match[2]))


def cursor_schema(name: str, description: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": f"^{CURSOR.pattern}$"}
    return {"in": "query", "name": name, "schema": schema, "description": description}


class CrossRepoPagination(ApiPagination):
    """Pages of a `CrossRepoList`. `before` gives older activity; `after` gives the page right after
    a position, so that a client that polls misses nothing. An empty page of `after` names itself.
    """

    parameters = (
        cursor_schema("before", "Only what had its newest activity before this: from `next`."),
        cursor_schema("after", "Only what had activity after this, next to it: from `previous`."),
        PER_PAGE,
    )

    def read(self, request: Request, base_url: str) -> None:
        self.before, self.after = (self._cursor(request, name) for name in ("before", "after"))
        super().read(request, base_url)

    def _cursor(self, request: Request, name: str) -> Position | None:
        texts = request.query_params.getlist(name)
        return read_cursor(name, texts[-1]) if texts else None

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        """A page of a `CrossRepoList`, which stands in for the queryset."""
        if self.after is not None and self.before is None:
            return self._page_after(queryset, self.after)
        return self._page_before(queryset, self.before, self.after)

    def _page_before(
        self, rows: CrossRepoList, before: Position | None, after: Position | None
    ) -> list[CrossRepoRow]:
        """The newest rows, or those before a position; `after` only bounds them."""
        size = self.per_page
        rows_and_next = rows.page(after=after, before=before, size=size + 1, newest_first=True)
        page = rows_and_next[:size]
        newest = page[0].position if page else before
        has_next = len(rows_and_next) > size
        self.next = self._link(before=page[-1].position) if has_next else None
        self.previous = None if newest is None else self._link(after=newest, before=None)
        return page

    def _page_after(self, rows: CrossRepoList, after: Position) -> list[CrossRepoRow]:
        size = self.per_page
        page = rows.page(after=after, before=None, size=size, newest_first=False)[::-1]
        oldest = page[-1].position if page else Position(after.at, LAST_UUID)
        older = rows.page(after=None, before=oldest, size=1, newest_first=True)
        self.next = self._link(before=oldest, after=None) if older else None
        self.previous = self._link(after=page[0].position if page else after)
        return page

    def _link(self, **cursors: Position | None) -> str:
        return self.link(**{name: at and cursor_of(at) for name, at in cursors.items()})

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.next, "previous": self.previous})

"""Querysets whose SQL is compiled once: for the lookups of every request.

Django takes longer to compile such a query than the database to answer it, and compiles it anew
each time. Which undocumented parts of Django this uses: docs/decisions/0008.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Expression, Field, QuerySet
from django.db.models.query import get_related_populators
from django.http import Http404


class Parameter(Expression):
    """A value of a statement that is given by this name when it runs."""

    def __init__(self, name: str, index: int | None = None) -> None:
        super().__init__(output_field=Field())  # of no type: it is only compared
        self.name, self.index = name, index

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        return "%s", (self,)

    def value_in(self, values: dict[str, Any]) -> Any:
        value = values[self.name]
        return value if self.index is None else value[self.index]


def parameters(name: str, count: int) -> list[Parameter]:
    """The items of a list with so many values, for `__in`."""
    return [Parameter(name, index) for index in range(count)]


class Statement:
    """A queryset that is compiled once, and gives what the queryset would give.

    `Statement(lambda: Team.objects.filter(slug=Parameter("slug")))` is run by `first(slug="acme")`.
    The values are passed to the database as they are: integers, strings, None. The queryset is
    made on first use, when all models are loaded.
    """

    def __init__(self, queryset: Callable[[], QuerySet[Any, Any]]) -> None:
        self.queryset = queryset

    def first(self, **values: Any) -> Any:
        """The first row: an instance, or values if the queryset gives those. None without a row."""
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute(self._compiled.sql, self._bound(values))
            row = cursor.fetchone()
        return None if row is None else next(self._results([row]))

    def one(self, **values: Any) -> Any:
        """As `first`; 404 without a row."""
        row = self.first(**values)
        if row is None:
            raise Http404
        return row

    def all(self, **values: Any) -> list[Any]:
        """Each row, as `first` gives one."""
        return self._run(self._compiled.sql, self._bound(values))

    def of(self, **values: Any) -> Slices:
        """The rows of these values, to be sliced like a queryset."""
        return Slices(self, values)

    def page(self, start: int, stop: int, **values: Any) -> list[Any]:
        """The rows from `start` on, without the one at `stop`."""
        sql = f"{self._compiled.sql} LIMIT %s OFFSET %s"
        return self._run(sql, [*self._bound(values), stop - start, start])

    def _run(self, sql: str, given: list[Any]) -> list[Any]:
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute(sql, given)
            rows = cursor.fetchall()
        return [*self._results(rows)]

    def _bound(self, values: dict[str, Any]) -> list[Any]:
        return [
            each.value_in(values) if isinstance(each, Parameter) else each
            for each in self._compiled.parameters
        ]

    @cached_property
    def _compiled(self) -> Compiled:
        return Compiled(self.queryset())

    def _results(self, rows: Iterable[Sequence[Any]]) -> Iterator[Any]:
        compiled = self._compiled
        compiler, converters = self._of_connection(connections[DEFAULT_DB_ALIAS])
        if converters:
            rows = compiler.apply_converters(rows, converters)
        return map(tuple, rows) if compiled.model is None else map(compiled.instance, rows)

    def _of_connection(self, connection: BaseDatabaseWrapper) -> tuple[Any, dict[int, Any]]:
        """What converts the database's own values of some columns, by index.

        It is an attribute of the connection, because it refers to it: both go with their thread.
        """
        cached: dict[Statement, tuple[Any, dict[int, Any]]]
        cached = vars(connection).setdefault("statement_converters", {})
        if self not in cached:
            compiler = self._compiled.query.get_compiler(connection=connection)
            cached[self] = compiler, compiler.get_converters(self._compiled.expressions)
        return cached[self]


class Compiled:
    """The SQL of a queryset, and how Django makes instances of its rows."""

    def __init__(self, queryset: QuerySet[Any, Any]) -> None:
        self.query = queryset.query
        compiler: Any = self.query.get_compiler(DEFAULT_DB_ALIAS)
        self.sql, self.parameters = compiler.as_sql()
        self.expressions = [expression for expression, _, _ in compiler.select]
        self.annotations = compiler.annotation_col_map
        self.model: Any = None
        if not self.query.has_select_fields:  # no values(), no values_list()
            self.model = compiler.klass_info["model"]
            columns = compiler.klass_info["select_fields"]
            self.names = [self.expressions[column].target.attname for column in columns]
            self.own = slice(columns[0], columns[-1] + 1)
            # ignored: the stubs are those of a later Django
            self.related = get_related_populators(  # type: ignore[call-arg]
                compiler.klass_info, compiler.select, DEFAULT_DB_ALIAS
            )

    def instance(self, row: Sequence[Any]) -> Any:
        """An instance with its related ones and its annotations, as `ModelIterable` makes it."""
        instance = self.model.from_db(DEFAULT_DB_ALIAS, self.names, row[self.own])
        for related in self.related:
            related.populate(row, instance)
        for name, column in self.annotations.items():
            setattr(instance, name, row[column])
        return instance


@dataclass(frozen=True)
class Slices:
    """The rows of a statement for some values, to be sliced like a queryset."""

    statement: Statement
    values: dict[str, Any]

    def __getitem__(self, part: slice) -> list[Any]:
        return self.statement.page(part.start, part.stop, **self.values)


def values_of(row: models.Model, columns: dict[str, str]) -> list[Any]:
    """What `values_list(*columns.values())` would give for this row, whose relations are loaded."""
    return [_value_at(row, path) for path in columns.values()]


def _value_at(value: Any, path: str) -> Any:
    for name in path.split("__"):
        value = None if value is None else getattr(value, name)
    return value

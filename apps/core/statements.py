"""Querysets whose SQL is compiled once, for lookups of every request.

Django compiles a query each time, which takes longer than its execution. docs/decisions/0008 lists
the undocumented parts of Django that this module uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Expression, Field, QuerySet
from django.db.models.query import get_related_populators
from django.http import Http404


class Parameter(Expression):
    """A named value, passed when the statement is executed."""

    def __init__(self, name: str, index: int | None = None) -> None:
        super().__init__(output_field=Field())  # without a type: it is only compared
        self.name, self.index = name, index

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        return "%s", (self,)

    def value_in(self, values: dict[str, Any]) -> Any:
        value = values[self.name]
        return value if self.index is None else value[self.index]


def parameters(name: str, count: int) -> list[Parameter]:
    """The items of a list of this length, for `__in`."""
    return [Parameter(name, index) for index in range(count)]


def padded(values: Iterable[Any]) -> list[Any]:
    """These values with the last one repeated, until their number is a power of two: a few
    statements with `parameters` serve lists of any length.
    """
    items = [*values]
    return items + items[-1:] * ((1 << (len(items) - 1).bit_length()) - len(items))


class Statement:
    """A queryset that is compiled once.

    `Statement(lambda: Team.objects.filter(slug=Parameter("slug")))` is executed by
    `first(slug="acme")`. The database gets the values unchanged: integers, strings, None. The
    queryset is created on first use, when all models are loaded. `row` is called with the values
    that `values_list` selects; without it a row is a tuple of them.
    """

    def __init__(
        self,
        queryset: Callable[[], QuerySet[Any, Any]],
        row: Callable[..., Any] | None = None,
    ) -> None:
        self.queryset, self.row = queryset, row

    def first(self, **values: Any) -> Any:
        """The first row, as the queryset returns it: an instance or values. None without a row."""
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute(self._compiled.sql, self._bound(values))
            row = cursor.fetchone()
        return None if row is None else next(self._results([row]))

    def one(self, **values: Any) -> Any:
        """The first row; 404 without one."""
        row = self.first(**values)
        if row is None:
            raise Http404
        return row

    def all(self, **values: Any) -> list[Any]:
        """All rows, each as in `first`."""
        return self._execute(self._compiled.sql, self._bound(values))

    def of(self, **values: Any) -> Slices:
        """The rows for these values, to be sliced like a queryset."""
        return Slices(self, values)

    def page(self, start: int, stop: int, **values: Any) -> list[Any]:
        """The rows from `start` to before `stop`."""
        sql = f"{self._compiled.sql} LIMIT %s OFFSET %s"
        return self._execute(sql, [*self._bound(values), stop - start, start])

    def _execute(self, sql: str, parameters: list[Any]) -> list[Any]:
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute(sql, parameters)
            rows = cursor.fetchall()
        return [*self._results(rows)]

    def _bound(self, values: dict[str, Any]) -> list[Any]:
        return [
            parameter.value_in(values) if isinstance(parameter, Parameter) else parameter
            for parameter in self._compiled.parameters
        ]

    @cached_property
    def _compiled(self) -> Compiled:
        return Compiled(self.queryset())

    def _results(self, rows: Iterable[Sequence[Any]]) -> Iterator[Any]:
        compiled = self._compiled
        compiler, converters = self._of_connection(connections[DEFAULT_DB_ALIAS])
        if converters:
            rows = compiler.apply_converters(rows, converters)
        if compiled.model:
            return map(compiled.instance, rows)
        return starmap(self.row, rows) if self.row else map(tuple, rows)

    def _of_connection(self, connection: BaseDatabaseWrapper) -> tuple[Any, dict[int, Any]]:
        """The compiler, and converters of values from the database by index of the column.

        They are cached on the connection, to which they refer: both end with their thread.
        """
        cached: dict[Statement, tuple[Any, dict[int, Any]]]
        cached = vars(connection).setdefault("statement_converters", {})
        if self not in cached:
            compiler = self._compiled.query.get_compiler(connection=connection)
            cached[self] = compiler, compiler.get_converters(self._compiled.expressions)
        return cached[self]


class Compiled:
    """The SQL of a queryset, and the means to make instances of its rows."""

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
            # Ignored, because the stubs are for a later Django.
            self.related = get_related_populators(  # type: ignore[call-arg]
                compiler.klass_info, compiler.select, DEFAULT_DB_ALIAS
            )

    def instance(self, row: Sequence[Any]) -> Any:
        """An instance with related instances and annotations, as `ModelIterable` makes it."""
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
        return self.statement.page(part.start or 0, part.stop, **self.values)


def values_of(row: models.Model, columns: dict[str, str]) -> list[Any]:
    """The values of `values_list(*columns.values())` for this row, whose relations are loaded. A
    reverse relation may have no row.
    """
    return [_value_at(row, path) for path in columns.values()]


def _value_at(value: Any, path: str) -> Any:
    for name in path.split("__"):
        try:
            value = None if value is None else getattr(value, name)
        except ObjectDoesNotExist:
            return None
    return value

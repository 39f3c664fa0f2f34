"""SELECTs of what every request needs, put together once.

Django spends longer on the text of a query than the database on its answer, and each time anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model
from django.db.models.expressions import Col
from django.http import Http404

Converter = Callable[[Any], Any]


@dataclass(frozen=True)
class Columns:
    """Columns of a model's table: those of the named fields, or of all but a few."""

    model: type[Model]
    names: Sequence[str] = ()
    without: Sequence[str] = ()
    """Fields that are read when they are asked for."""

    @cached_property
    def fields(self) -> list[Any]:
        found = self.model._meta
        named = [found.get_field(name) for name in self.names]
        return named or [one for one in found.concrete_fields if one.name not in self.without]


class Statement:
    """A SELECT whose text is ready, and whose rows are instances of models, as the ORM makes them.

    `Statement("SELECT {repo}, {team} FROM repos_repo repo JOIN …", repo=Repo, team=Team)`: the name
    in braces stands for all columns of the model, whose table has that name in the statement. The
    models come first, in their order; what is selected behind them is given as it is. For `rows`,
    `Columns(Reply, ["number", "uuid"])` stands for those of a model that are named.
    """

    def __init__(self, text: str, **sources: type[Model] | Columns) -> None:
        self.text = text.strip()
        self.sources = {
            name: source if isinstance(source, Columns) else Columns(source)
            for name, source in sources.items()
        }

    def first(self, *parameters: Any) -> tuple[Any, ...] | None:
        """The first row: an instance of each model, then the other columns. None without a row."""
        connection = connections[DEFAULT_DB_ALIAS]
        with connection.cursor() as cursor:
            cursor.execute(self.sql, parameters)
            row = cursor.fetchone()
        return None if row is None else tuple(self._instances(connection, row))

    def all(self, *parameters: Any) -> list[tuple[Any, ...]]:
        """Each row, as `first` gives one."""
        connection = connections[DEFAULT_DB_ALIAS]
        return [tuple(self._instances(connection, row)) for row in self._fetched(parameters)]

    def rows(self, *parameters: Any) -> list[list[Any]]:
        """The values of each row, without making instances of them."""
        connection = connections[DEFAULT_DB_ALIAS]
        return [self._values(connection, row) for row in self._fetched(parameters)]

    def _fetched(self, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute(self.sql, parameters)
            found: list[tuple[Any, ...]] = cursor.fetchall()
        return found

    def one(self, *parameters: Any) -> tuple[Any, ...]:
        """As `first`; 404 without a row."""
        found = self.first(*parameters)
        if found is None:
            raise Http404
        return found

    @cached_property
    def sql(self) -> str:
        columns = {
            name: ", ".join(f'{name}."{field.column}"' for field in source.fields)
            for name, source in self.sources.items()
        }
        return self.text.format(**columns)

    @cached_property
    def parts(self) -> list[tuple[type[Model], list[str]]]:
        """Each model with the attributes that its columns fill."""
        return [
            (source.model, [field.attname for field in source.fields])
            for source in self.sources.values()
        ]

    def _values(self, connection: BaseDatabaseWrapper, row: Sequence[Any]) -> list[Any]:
        values = list(row)
        for place, convert in self._converters(connection).items():
            values[place] = convert(values[place])
        return values

    def _instances(self, connection: BaseDatabaseWrapper, row: Sequence[Any]) -> Iterator[Any]:
        values = self._values(connection, row)
        begin = 0
        for model, names in self.parts:
            end = begin + len(names)
            yield model.from_db(connection.alias, names, values[begin:end])
            begin = end
        yield from values[begin:]

    def _converters(self, connection: BaseDatabaseWrapper) -> dict[int, Converter]:
        """What converts the database's own values of some columns, by index.

        Kept by the connection, of which they are a part: they go with it, and it with its thread.
        """
        known: dict[Statement, dict[int, Converter]]
        known = vars(connection).setdefault("statement_converters", {})
        if self not in known:
            columns = [
                Col(name, field) for name, source in self.sources.items() for field in source.fields
            ]
            known[self] = dict(_converting(connection, columns))
        return known[self]


def _converting(
    connection: BaseDatabaseWrapper, columns: list[Col]
) -> Iterator[tuple[int, Converter]]:
    for place, column in enumerate(columns):
        steps = connection.ops.get_db_converters(column) + column.get_db_converters(connection)
        if steps:
            yield place, _through(steps, column, connection)


def _through(steps: list[Any], column: Col, connection: BaseDatabaseWrapper) -> Converter:
    def convert(value: Any) -> Any:
        for step in steps:
            value = step(value, column, connection)
        return value

    return convert

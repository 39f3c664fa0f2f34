"""SELECTs of what every request needs, put together once.

Django spends longer on the text of a query than the database on its answer, and each time anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model
from django.db.models.expressions import Col
from django.http import Http404

Converter = Callable[[Any], Any]


class Statement:
    """A SELECT whose text is ready, and whose rows are instances of models, as the ORM makes them.

    `Statement("SELECT {repo}, {team} FROM repos_repo repo JOIN …", repo=Repo, team=Team)`: the name
    in braces stands for all columns of the model, whose table has that name in the statement. The
    models come first, in their order; what is selected behind them is given as it is.
    """

    def __init__(self, text: str, **models: type[Model]) -> None:
        self.text = text
        self.models = models

    def first(self, *parameters: Any) -> tuple[Any, ...] | None:
        """The first row: an instance of each model, then the other columns. None without a row."""
        connection = connections[DEFAULT_DB_ALIAS]
        with connection.cursor() as cursor:
            cursor.execute(self.sql, parameters)
            row = cursor.fetchone()
        return None if row is None else tuple(self._read(connection, row))

    def one(self, *parameters: Any) -> tuple[Any, ...]:
        """As `first`; 404 without a row."""
        found = self.first(*parameters)
        if found is None:
            raise Http404
        return found

    @cached_property
    def sql(self) -> str:
        columns = {
            name: ", ".join(f'{name}."{field.column}"' for field in model._meta.concrete_fields)
            for name, model in self.models.items()
        }
        return self.text.format(**columns)

    @cached_property
    def parts(self) -> list[tuple[type[Model], list[str]]]:
        """Each model with the attributes that its columns fill."""
        return [
            (model, [field.attname for field in model._meta.concrete_fields])
            for model in self.models.values()
        ]

    def _read(self, connection: BaseDatabaseWrapper, row: Sequence[Any]) -> Iterator[Any]:
        values = list(row)
        for place, convert in self._converters(connection).items():
            values[place] = convert(values[place])
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
                Col(name, field)
                for name, model in self.models.items()
                for field in model._meta.concrete_fields
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

"""Lists that stay quick however long the table is: no COUNT of all rows, searches along indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db import connection
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

MOST = 2_000
"""Rows that can be leafed through. Whoever looks for older ones searches or filters."""
LAST = chr(0x10FFFF)
"""Sorts behind every text that goes on after a prefix."""


if TYPE_CHECKING:
    Base = Paginator[Any]
else:
    Base = Paginator


class FirstPages(Base):
    """The first pages of a list, counted no further than `MOST`."""

    most = MOST

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by().values("pk")[: self.most].count())


class OneOrder(ChangeList):
    """A list in its model's own order, which an index has, whatever the address asks for."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return list(self.model_admin.get_ordering(request))


def begins(field: str, text: str) -> Q:
    """Rows whose field begins with this text, along an index, which is in binary order.

    PostgreSQL has one of patterns; SQLite, whose LIKE asks none here, is given the range.
    """
    if connection.vendor == "sqlite":
        return Q((f"{field}__gte", text), (f"{field}__lt", text + LAST))
    return Q((f"{field}__startswith", text))


class Choices(admin.SimpleListFilter):
    """A filter by words: what the column of its name holds, unless `chosen()` knows better."""

    parameter_name = ""
    words: tuple[str, ...] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterator[tuple[str, str]]:
        return (
            (word, word.replace("_", " ").replace("-", " ").capitalize()) for word in self.words
        )

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        word = self.value()
        return self.chosen(queryset, word) if word in self.words else queryset

    def chosen(self, rows: Any, word: str) -> Any:
        return rows.filter(**{self.parameter_name: word})


class Flag(Choices):
    """A filter by a column that is true or false; the first of two words stands for true."""

    column = ""

    def chosen(self, rows: Any, word: str) -> Any:
        return rows.filter(**{self.column: word == self.words[0]})

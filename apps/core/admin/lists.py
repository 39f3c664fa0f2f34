"""Lists that stay quick however long the table is: no COUNT of all rows, searches along indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

MOST = 2_000
"""Rows that can be leafed through. Whoever looks for older ones searches or filters."""


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

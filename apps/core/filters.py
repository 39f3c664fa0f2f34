"""List filters of django-filter, as strict as request bodies: an invalid value is a 422."""

from __future__ import annotations

import re
from collections import OrderedDict
from copy import copy
from functools import cache
from typing import Any, Self, cast
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django_filters import filters
from django_filters.rest_framework import DjangoFilterBackend, FilterSet
from drf_spectacular.utils import extend_schema_field

from apps.core.durations import EXPECTED, parse_past
from apps.core.errors import Invalid
from apps.core.serializers import NO_NUL, not_one_of

UUID_TEXT = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


class StrictFormField(forms.Field):
    """A form field that all forms share, because nothing changes it after its creation."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class StrictTextFormField(StrictFormField):
    """Any text without NUL, as it was sent."""

    def clean(self, value: Any) -> Any:
        if value and "\0" in value:
            raise ValidationError("NUL is not allowed.")
        return value


class StrictChoiceFormField(StrictFormField):
    """One word of a closed list, which has no empty word."""

    def __init__(self, *, choices: Any, **options: Any) -> None:
        super().__init__(**options)
        self.words = [word for word, _ in choices]

    def clean(self, value: Any) -> Any:
        if value is not None and value not in self.words:
            raise ValidationError(not_one_of(value, self.words))
        return value


class StrictChoicesFormField(StrictChoiceFormField):
    """Words of a closed list, for a parameter that may be repeated."""

    widget = forms.MultipleHiddenInput

    def clean(self, value: Any) -> Any:
        return [super(StrictChoicesFormField, self).clean(word) for word in value]


class StrictFilter(filters.Filter):
    """A filter whose copies, one for each FilterSet, share choices and form field: copying these
    took longer than checking and applying them.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = copy(self)
        copied.method = self.method  # a property, bound to the FilterSet of the copy
        return copied


class TextFilter(StrictFilter):
    """Filters by a text; an empty text is no filter."""

    field_class = StrictTextFormField

    def __init__(self, help_text: str, *, method: str | None = None) -> None:
        super().__init__(method=method, help_text=help_text)
        schema = {"type": "string", "pattern": NO_NUL, "description": help_text}
        extend_schema_field(schema)(cast("Any", self))


class UuidFormField(StrictTextFormField):
    """A uuid with hyphens."""

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if text and not UUID_TEXT.fullmatch(text):
            raise ValidationError("Must be a uuid with hyphens.")
        return UUID(text) if text else None


class UuidFilter(StrictFilter):
    """Filters by a column with uuids; an empty text is no filter."""

    field_class = UuidFormField

    def __init__(self, help_text: str, column: str) -> None:
        super().__init__(field_name=column, help_text=help_text)
        schema = {"type": "string", "format": "uuid", "description": help_text}
        extend_schema_field(schema)(cast("Any", self))


class PastFormField(StrictTextFormField):
    """A time with offset, or a duration before now."""

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        try:
            return parse_past(text) if text else None
        except ValueError as error:
            raise ValidationError(str(error)) from None


class PastFilter(TextFilter):
    """Filters by a time in the past; an empty text is no filter."""

    field_class = PastFormField

    def __init__(self, help_text: str, *, method: str) -> None:
        super().__init__(f"{help_text} A time with offset, or {EXPECTED}.", method=method)


class SearchFilter(TextFilter):
    """Filters by the `search` of the queryset."""

    def filter(self, qs: Any, value: str) -> Any:
        return qs.search(value) if value else qs


class WordFilter(StrictFilter):
    """Filters by a word of a closed list: compared with the column of its name, or by a method."""

    field_class = StrictChoiceFormField

    def __init__(self, words: Any, *, method: str | None = None, help_text: str = "") -> None:
        choices = [(str(word), str(word)) for word in words]
        super().__init__(method=method, choices=choices, help_text=help_text)
        enum = {"type": "string", "enum": [word for word, _ in choices]}
        schema = {**enum, "description": help_text} if help_text else enum
        extend_schema_field(schema)(cast("Any", self))


class FlagFilter(WordFilter):
    """Filters by a boolean column, or by a method: `true` or `false`."""

    def __init__(self, help_text: str, *, method: str | None = None) -> None:
        super().__init__(["true", "false"], method=method, help_text=help_text)
        extend_schema_field({"type": "boolean", "description": help_text})(cast("Any", self))

    def filter(self, qs: Any, value: str) -> Any:
        return qs.filter((self.field_name, value == "true")) if value else qs


class WordsFilter(WordFilter, filters.MultipleChoiceFilter):
    """Filters by several words of a closed list, any of which may match."""

    field_class = StrictChoicesFormField

    def filter(self, qs: Any, value: list[str]) -> Any:
        return qs.filter((f"{self.field_name}__in", sorted({*value})))


class OrderingFilter(WordFilter):
    """Sorts by the `in_order` of the queryset."""

    def filter(self, qs: Any, value: str) -> Any:
        return qs.in_order(value) if value else qs


class StrictFilterSet(FilterSet):
    """The filters of a list. Only those in the request are created: all would take too long."""

    def __init__(self, data: QueryDict, *args: Any, **options: Any) -> None:
        declared = type(self).base_filters
        self.base_filters = OrderedDict((name, declared[name]) for name in declared if name in data)
        super().__init__(data, *args, **options)

    def get_form_class(self) -> type[forms.Form]:
        """The form class that checks these filters, cached: each of its forms copies the fields."""
        return _form_class(type(self), tuple(self.base_filters))


@cache
def _form_class(kind: type[FilterSet], names: tuple[str, ...]) -> type[forms.Form]:
    fields = {name: kind.base_filters[name].field for name in names}
    return type(f"{kind.__name__}Form", (forms.Form,), fields)


class StrictFilterBackend(DjangoFilterBackend):
    """Checks the filters before the operation runs, and applies them to its list."""

    def validate(self, request: Any, view: Any) -> StrictFilterSet | None:
        """The checked filters of a request, None without any; 422 for an invalid value."""
        filterset_class: Any = self.get_filterset_class(view, view.queryset)
        if filterset_class is None or filterset_class.base_filters.keys().isdisjoint(
            request.query_params
        ):
            return None
        filterset: StrictFilterSet = filterset_class(
            request.query_params, queryset=view.queryset, request=request
        )
        if filterset.errors:
            lines = [f"{name}: {' '.join(texts)}" for name, texts in filterset.errors.items()]
            raise Invalid("validation_failed", " ".join(lines))
        return filterset

    def filter_queryset(self, request: Any, queryset: Any, view: Any) -> Any:
        """The queryset of a list, with the checked filters applied."""
        return queryset if view.filterset is None else view.filterset.filter_queryset(queryset)

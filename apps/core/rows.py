"""Rows of models as the values that a query would give."""

from __future__ import annotations

from typing import Any

from django.db import models


def values_of(row: models.Model, columns: dict[str, str]) -> list[Any]:
    """What `values_list(*columns.values())` would give for this row, whose relations are loaded."""
    return [_value_at(row, path) for path in columns.values()]


def _value_at(value: Any, path: str) -> Any:
    for name in path.split("__"):
        value = None if value is None else getattr(value, name)
    return value

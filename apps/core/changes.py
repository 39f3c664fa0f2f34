"""What an action is asked to change of a row, and what of that differs from what is stored."""

from __future__ import annotations

from typing import Any

from django.db.models import Model


def given(**values: Any) -> dict[str, Any]:
    """Those that are not None, which says: leave it as it is."""
    return {name: value for name, value in values.items() if value is not None}


def set_changed(row: Model, wanted: dict[str, Any]) -> list[str]:
    """Set the values that differ, without saving; returns their names."""
    changed = [name for name, value in wanted.items() if getattr(row, name) != value]
    for name in changed:
        setattr(row, name, wanted[name])
    return changed

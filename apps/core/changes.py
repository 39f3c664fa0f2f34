"""What an action is asked to change of a row, and what of that differs from what is stored."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.forms.forms import BaseForm

TOLD_MAX = 1000
"""Characters of one value that an event tells."""


def given(**values: Any) -> dict[str, Any]:
    """The arguments that are not None; None means: leave it as it is."""
    return {name: value for name, value in values.items() if value is not None}


def differing(row: Model, wanted: dict[str, Any]) -> list[str]:
    """The names of the values that differ from what the row has."""
    return [name for name, value in wanted.items() if getattr(row, name) != value]


def set_changed(row: Model, wanted: dict[str, Any]) -> list[str]:
    """Set the values that differ, without saving; returns their names."""
    changed = differing(row, wanted)
    for name in changed:
        setattr(row, name, wanted[name])
    return changed


class Told:
    """What the event of an update tells: the names of what changed and, of these `fields`, which
    every reader of the event may see, the values before and after. Make it once the row is locked.
    """

    def __init__(self, row: Model, *fields: str) -> None:
        self.row = row
        self.before = {name: getattr(row, name) for name in fields}

    def data(self, changed: list[str]) -> dict[str, Any]:
        """Long texts are cut: events are kept for good, and sent to many."""
        shown = [name for name in changed if name in self.before]
        return {
            "changed": changed,
            "before": {name: _cut(self.before[name]) for name in shown},
            "after": {name: _cut(getattr(self.row, name)) for name in shown},
        }


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TOLD_MAX:
        return f"{value[: TOLD_MAX - 1]}…"
    return value


def compare_with_what_was_shown(form: BaseForm) -> None:
    """Let `changed_data` of a form be what its reader changed on the page, however old that is.

    What was shown is sent along, in hidden inputs of Django's. Where it is missing, as on a page
    from before an upgrade, the form compares with what is stored now.
    """
    for name, field in form.fields.items():
        shown = form.add_initial_prefix(name)
        field.show_hidden_initial = not form.is_bound or shown in form.data

"""Changes of a row: the given values, those that differ, and those that an event reports."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.forms.forms import BaseForm

REPORTED_MAX = 1000
"""Maximum characters of one value in an event."""


def given(**values: Any) -> dict[str, Any]:
    """The arguments that are not None; None leaves a value unchanged."""
    return {name: value for name, value in values.items() if value is not None}


def differing(row: Model, values: dict[str, Any]) -> list[str]:
    """The names of the values that differ from those of the row."""
    return [name for name, value in values.items() if getattr(row, name) != value]


def set_changed(row: Model, values: dict[str, Any]) -> list[str]:
    """Set the values that differ, without saving; returns their names."""
    changed = differing(row, values)
    for name in changed:
        setattr(row, name, values[name])
    return changed


class ChangeReport:
    """The data for the event of an update: the names of all changed fields, and the values of these
    `fields` before and after it. Every reader of the event may see those.

    Create it when the row is locked, before the row is changed.
    """

    def __init__(self, row: Model, *fields: str) -> None:
        self.row = row
        self.before = {name: getattr(row, name) for name in fields}

    def data(self, changed: list[str]) -> dict[str, Any]:
        """The data of the event. Long texts are cut, because events are stored for good."""
        reported = [name for name in changed if name in self.before]
        return {
            "changed": changed,
            "before": {name: _cut(self.before[name]) for name in reported},
            "after": {name: _cut(getattr(self.row, name)) for name in reported},
        }


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > REPORTED_MAX:
        return f"{value[: REPORTED_MAX - 1]}…"
    return value


def compare_with_page(form: BaseForm) -> None:
    """Let `changed_data` of a form be the fields that its user changed on the page, even if the
    stored values have changed since then.

    Hidden inputs of Django's send the initial values of the page. If they are missing, as on a page
    from before an upgrade, the form compares with the stored values.
    """
    for name, field in form.fields.items():
        hidden = form.add_initial_prefix(name)
        field.show_hidden_initial = not form.is_bound or hidden in form.data

"""What an action is asked to change of a row, and what of that differs from what is stored."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.forms.forms import BaseForm


def given(**values: Any) -> dict[str, Any]:
    """The arguments that are not None; None means: leave it as it is."""
    return {name: value for name, value in values.items() if value is not None}


def set_changed(row: Model, wanted: dict[str, Any]) -> list[str]:
    """Set the values that differ, without saving; returns their names."""
    changed = [name for name, value in wanted.items() if getattr(row, name) != value]
    for name in changed:
        setattr(row, name, wanted[name])
    return changed


def compare_with_what_was_shown(form: BaseForm) -> None:
    """Let `changed_data` of a form be what its reader changed on the page, however old that is.

    What was shown is sent along, in hidden inputs of Django's. Where it is missing, as on a page
    from before an upgrade, the form compares with what is stored now.
    """
    for name, field in form.fields.items():
        shown = form.add_initial_prefix(name)
        field.show_hidden_initial = not form.is_bound or shown in form.data

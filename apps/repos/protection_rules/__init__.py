"""The conditions that protections set for merging, and their settings.

A new rule is a module here, a line in `RULES`, and a column of `Protection` for each setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django import forms
from rest_framework import serializers

from apps.repos.models import Protection
from apps.repos.protection_rules.reviews import ChangesRequested, RequiredApprovals
from apps.repos.protection_rules.rule import Rule

Fields = dict[str, "serializers.Field[Any, Any, Any, Any]"]
F = TypeVar("F", bound="type[forms.BaseForm]")

RULES: tuple[Rule, ...] = (ChangesRequested(), RequiredApprovals())
"""In the order in which the API lists the blockers of a merge."""
SETTINGS = {setting.name: setting for rule in RULES for setting in rule.settings}


def settings_of(protection: Protection) -> dict[str, Any]:
    """The settings of a protection by name."""
    return {name: getattr(protection, name) for name in SETTINGS}


def defaults() -> dict[str, Any]:
    """The default settings of a new protection."""
    return {name: setting.default for name, setting in SETTINGS.items()}


def check_settings(values: Mapping[str, Any]) -> None:
    """422 for a value that the rule of its setting does not allow."""
    for name, value in values.items():
        SETTINGS[name].check(value)


def with_request_fields(fields: Fields) -> Fields:
    """Append the settings to the fields of a request."""
    return fields | {name: setting.request_field() for name, setting in SETTINGS.items()}


def with_record_fields(fields: Fields) -> Fields:
    """Insert the settings behind `branch` into the fields of a record."""
    settings = {name: setting.record_field() for name, setting in SETTINGS.items()}
    at = [*fields].index("branch") + 1
    items = [*fields.items()]
    return dict([*items[:at], *settings.items(), *items[at:]])


def with_form_fields(form: F) -> F:
    """Class decorator that adds the settings to a form."""
    fields = {name: setting.form_field() for name, setting in SETTINGS.items()}
    for name in ("declared_fields", "base_fields"):
        setattr(form, name, getattr(form, name) | fields)
    return form

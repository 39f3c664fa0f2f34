"""Form fields that pages and the admin share."""

from __future__ import annotations

from typing import Any

from django import forms


class NameLinesField(forms.CharField):
    """A list of names in a form, one on each line."""

    widget = forms.Textarea(attrs={"rows": 3})

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        lines = value if isinstance(value, list) else (value or "").splitlines()
        return [*dict.fromkeys(line.strip() for line in lines if line.strip())]


class RepoPathsField(NameLinesField):
    def clean(self, value: Any) -> Any:
        return super().clean(value) or None


POWERS = {
    "read": "Reads: clone, fetch, and read everything that you may read",
    "write": "Writes: also push, and work in threads and pulls",
    "admin": "Everything that you may do, also settings, members and tokens",
}
"""The permissions of tokens in words."""


def permission_field() -> forms.TypedChoiceField:
    """The permission of a new token."""
    return forms.TypedChoiceField(
        label="Permission",
        choices=[*POWERS.items()],
        required=False,
        initial="admin",
        empty_value="admin",
    )


def repo_paths_field() -> NameLinesField:
    """The repositories of a new token; None if none is named, which is no limit."""
    return RepoPathsField(
        label="Only for these repositories",
        help_text="Paths such as teams/acme/hello, one on each line. Without any, the token is not "
        "limited to repositories.",
    )

"""Names in addresses: their rules, and the path converters for them.

Lookups of names ignore case.
"""

from __future__ import annotations

import re

from django.urls import register_converter
from django.urls.converters import IntConverter, StringConverter, UUIDConverter

PREFIX = "/api/v1"
"""Path of the API."""
RESERVED = frozenset({"self", "new"})
PLACEHOLDER = "deleted-account-"
"""The beginning of the usernames of deleted accounts, which nobody else may have."""
IMPORTED = "imported-"
"""The same for authors of imported texts who have no account here."""
USERNAME = re.compile(r"[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*")
TEAM_SLUG = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*")
REPO_SLUG = re.compile(r"[a-z0-9._-]+")
USERNAME_MAX = 39
TEAM_SLUG_MAX = 64
REPO_SLUG_MAX = 100
ENDINGS = (".git", ".lock", ".atom")


def username_problem(name: str) -> str | None:
    """Why this is not a valid username; None if it is."""
    if len(name) > USERNAME_MAX or not USERNAME.fullmatch(name):
        return (
            f"A username has 1 to {USERNAME_MAX} letters or digits, "
            "with single '-', '_' or '.' between them."
        )
    for beginning in (PLACEHOLDER, IMPORTED):
        if name.lower().startswith(beginning):
            return f'Names that begin with "{beginning}" are reserved.'
    return _reserved(name)


def team_slug_problem(slug: str) -> str | None:
    """Why this is not a valid slug of a team; None if it is."""
    if len(slug) > TEAM_SLUG_MAX or not TEAM_SLUG.fullmatch(slug):
        return (
            f"A team slug has 1 to {TEAM_SLUG_MAX} lower-case letters or digits, "
            "with single '-', '_' or '.' between them."
        )
    return _reserved(slug)


def repo_slug_problem(slug: str) -> str | None:
    """Why this is not a valid slug of a repository; None if it is."""
    if len(slug) > REPO_SLUG_MAX or not REPO_SLUG.fullmatch(slug) or slug in {".", ".."}:
        return (
            f"A repository slug has 1 to {REPO_SLUG_MAX} lower-case letters, digits, "
            "'.', '_' or '-', and is not '.' or '..'."
        )
    if slug.endswith(ENDINGS):
        return f"A repository slug may not end in {', '.join(ENDINGS)}."
    return _reserved(slug)


def _reserved(name: str) -> str | None:
    return f'"{name}" is reserved.' if name.lower() in RESERVED else None


class TeamSlugConverter(StringConverter):
    regex = r"[A-Za-z0-9._-]{1,64}"

    def to_python(self, value: str) -> str:
        return value.lower()


class RepoSlugConverter(TeamSlugConverter):
    regex = r"[A-Za-z0-9._-]{1,100}"


class UsernameConverter(TeamSlugConverter):
    regex = r"[A-Za-z0-9._-]{1,39}"


class NumberConverter(IntConverter):
    regex = r"[0-9]{1,15}"


class UidConverter(UUIDConverter):
    regex = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"


class SegmentConverter(StringConverter):
    """Any text between two slashes; the lookup refuses invalid names."""


class TreePathConverter(StringConverter):
    """The rest of a path: names of files and branches may contain slashes and any character."""

    regex = r"[\s\S]+"


CONVERTERS: dict[str, type[IntConverter | StringConverter | UUIDConverter]] = {
    "team_slug": TeamSlugConverter,
    "repo_slug": RepoSlugConverter,
    "username": UsernameConverter,
    "number": NumberConverter,
    "uid": UidConverter,
    "segment": SegmentConverter,
    "tree_path": TreePathConverter,
}


def path_schemas() -> dict[str, dict[str, object]]:
    """The schema of each converter's parameters, for the OpenAPI document."""
    texts: dict[str, dict[str, object]] = {
        name: {"type": "string", "pattern": f"^(?:{converter.regex})$"}
        for name, converter in CONVERTERS.items()
    }
    texts["path"] = {"type": "string", "minLength": 1}  # Django's own converter
    return {**texts, "number": {"type": "integer", "minimum": 0, "maximum": 999_999_999_999_999}}


def register_converters() -> None:
    """Register the converters with Django; `config/urls.py` calls it once."""
    for name, converter in CONVERTERS.items():
        register_converter(converter, name)

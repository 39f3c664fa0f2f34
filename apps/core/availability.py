"""Whether a name is available, and a suggestion if it is not.

It knows no model: the caller finds out, in one query, which candidates are taken.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.response import Response

from apps.core.query import QuerySerializer, TextParameter
from apps.core.serializers import RecordSerializer
from apps.core.slugs import (
    ENDINGS,
    REPO_SLUG_MAX,
    TEAM_SLUG_MAX,
    USERNAME_MAX,
    repo_slug_problem,
    team_slug_problem,
    username_problem,
)

NUMBERS = (*range(2, 100), *(10**zeros for zeros in range(2, 10)))
"""Suffixes for a name that is taken. The powers of ten give popular names a suggestion as well,
and one query still looks up all candidates.
"""
SEPARATORS = "-_."
Taken = Callable[[list[str]], Iterable[str]]


@extend_schema_field({"type": "string"})
class AnyText(TextParameter):
    """Any text: an invalid name is not available."""

    def to_internal_value(self, data: Any) -> Any:
        return data


class SlugQuery(QuerySerializer):
    slug = AnyText(required=False, help_text="Name to check.")


class Availability(RecordSerializer):
    available = serializers.BooleanField()
    suggestion = serializers.CharField(allow_null=True)


@dataclass(frozen=True)
class NameRules:
    """The rules for names of one kind. Names that differ only in case are the same name."""

    problem: Callable[[str], str | None]
    max_length: int
    is_lower: bool = True
    has_single_separators: bool = True
    """Whether separators stand only between letters and digits, one at a time."""

    def answer(self, requested: str | None, taken: Taken) -> Response:
        """200 for an available name, else 409 with a suggestion.

        `taken` gets names in lower case and returns those that are taken.
        """
        text = requested or ""
        name = text if self.problem(text) is None else self.clean(text)
        names = self.candidates(name) if name else []
        in_use = set(taken([name.lower() for name in names])) if names else set()
        free = [name for name in names if name.lower() not in in_use]
        if requested in free[:1]:
            return Response({"available": True, "suggestion": None})
        suggestion = free[0] if free else None
        return Response({"available": False, "suggestion": suggestion}, status=409)

    def clean(self, text: str) -> str:
        """The nearest valid name; empty if no character is valid."""
        plain = unicodedata.normalize("NFKD", text[: 4 * self.max_length]).encode("ascii", "ignore")
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", plain.decode())
        name = name.lower() if self.is_lower else name
        if self.has_single_separators:
            name = re.sub(rf"[{SEPARATORS}]+", lambda match: match[0][0], name).strip(SEPARATORS)
        while name.endswith(ENDINGS) and not self.has_single_separators:
            name = name.rpartition(".")[0]
        return self.cut(name, self.max_length) if re.search("[A-Za-z0-9]", name) else ""

    def candidates(self, name: str) -> list[str]:
        """The name, and the name with numeric suffixes, without those that are not allowed."""
        suffixes = [f"-{number}" for number in NUMBERS]
        numbered = [self.cut(name, self.max_length - len(suffix)) + suffix for suffix in suffixes]
        return [candidate for candidate in (name, *numbered) if self.problem(candidate) is None]

    def cut(self, name: str, length: int) -> str:
        return name[:length].rstrip(SEPARATORS) if self.has_single_separators else name[:length]


USERNAMES = NameRules(username_problem, USERNAME_MAX, is_lower=False)
TEAM_SLUGS = NameRules(team_slug_problem, TEAM_SLUG_MAX)
REPO_SLUGS = NameRules(repo_slug_problem, REPO_SLUG_MAX, has_single_separators=False)

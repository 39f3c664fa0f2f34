"""Whether a name is to be had, and if not, the nearest one that is.

Knows no model: the caller says in one query which of some candidates are taken.
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
APART = "-_."
Taken = Callable[[list[str]], Iterable[str]]


@extend_schema_field({"type": "string"})
class AnyText(TextParameter):
    """Any text at all: what cannot be a name is not available."""

    def to_internal_value(self, data: Any) -> Any:
        return data


class SlugQuery(QuerySerializer):
    slug = AnyText(required=False, help_text="The name in question.")


class Availability(RecordSerializer):
    available = serializers.BooleanField()
    suggestion = serializers.CharField(allow_null=True)


@dataclass(frozen=True)
class Naming:
    """The rules of one sort of name. Names that differ in case alone are the same name."""

    problem: Callable[[str], str | None]
    most: int
    lower: bool = True
    single: bool = True
    """Whether the marks between letters and digits stand alone."""

    def answer(self, wanted: str | None, taken: Taken) -> Response:
        """200 for a name that can be had, else 409 with a suggestion.

        `taken` gets names in lower case and returns those of them that are taken.
        """
        text = wanted or ""
        name = text if self.problem(text) is None else self.clean(text)
        names = self.candidates(name) if name else []
        gone = set(taken([name.lower() for name in names])) if names else set()
        free = [name for name in names if name.lower() not in gone]
        if wanted in free[:1]:
            return Response({"available": True, "suggestion": None})
        suggestion = free[0] if free else None
        return Response({"available": False, "suggestion": suggestion}, status=409)

    def clean(self, text: str) -> str:
        """The nearest text that could be a name; empty where nothing is left of it."""
        plain = unicodedata.normalize("NFKD", text[: 4 * self.most]).encode("ascii", "ignore")
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", plain.decode())
        name = name.lower() if self.lower else name
        if self.single:
            name = re.sub(rf"[{APART}]+", lambda found: found[0][0], name).strip(APART)
        while name.endswith(ENDINGS) and not self.single:
            name = name.rpartition(".")[0]
        return self.cut(name, self.most) if re.search("[A-Za-z0-9]", name) else ""

    def candidates(self, name: str) -> list[str]:
        """The name itself, then with numbers behind it, those only that are allowed."""
        numbered = [f"{self.cut(name, self.most - len(f'-{n}'))}-{n}" for n in NUMBERS]
        return [one for one in (name, *numbered) if self.problem(one) is None]

    def cut(self, name: str, most: int) -> str:
        return name[:most].rstrip(APART) if self.single else name[:most]


USERNAMES = Naming(username_problem, USERNAME_MAX, lower=False)
TEAM_SLUGS = Naming(team_slug_problem, TEAM_SLUG_MAX)
REPO_SLUGS = Naming(repo_slug_problem, REPO_SLUG_MAX, single=False)

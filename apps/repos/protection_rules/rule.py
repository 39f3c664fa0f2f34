"""Interfaces of a protection rule: a condition that a protected branch sets for merging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django import forms
from rest_framework import serializers

from apps.repos.models import Protection


@dataclass(frozen=True)
class Setting:
    """A column of `Protection` that admins of a repository set, by the same name everywhere.

    `check` raises 422 for a value that no protection may have; the action calls it.
    """

    name: str
    default: Any
    request_field: Callable[[], serializers.Field[Any, Any, Any, Any]]
    record_field: Callable[[], serializers.Field[Any, Any, Any, Any]]
    form_field: Callable[[], forms.Field]
    check: Callable[[Any], None]


class MergeCandidate(Protocol):
    """A pull as rules judge it, with the protections of its target."""

    @property
    def protections(self) -> Sequence[Protection]: ...
    @property
    def head_sha(self) -> str | None: ...
    @property
    def changes_requested_by(self) -> Sequence[str]: ...
    def given(self, protection: Protection) -> int: ...


class Rule(Protocol):
    """A condition for merging. Write one in a module of its own and add it to `RULES`.

    `code` is that of the refusal. `met` and `remedy` are for pages: the text of a condition that
    holds, and how to make one hold.
    """

    code: str
    settings: Sequence[Setting]
    met: str
    remedy: str

    def blocks(self, candidate: MergeCandidate) -> str | None:
        """Why the pull cannot be merged; None when this rule allows it.

        Asked before a merge, and again under its locks. Only called if there are protections.
        """

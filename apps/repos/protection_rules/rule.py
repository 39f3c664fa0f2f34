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
    """A column of `Protection` that admins set. It has the same name in API, pages and events.

    `check` raises 422 for a value that no protection may have; the action calls it.
    """

    name: str
    default: Any
    request_field: Callable[[], serializers.Field[Any, Any, Any, Any]]
    record_field: Callable[[], serializers.Field[Any, Any, Any, Any]]
    form_field: Callable[[], forms.Field]
    check: Callable[[Any], None]


class MergeCandidate(Protocol):
    """The parts of a pull that rules read, with the protections of its target."""

    @property
    def protections(self) -> Sequence[Protection]: ...
    @property
    def head_sha(self) -> str | None: ...
    @property
    def changes_requested_by(self) -> Sequence[str]: ...
    def given(self, protection: Protection) -> int: ...


class Rule(Protocol):
    """A condition for merging. Write one in a module of its own and add it to `RULES`.

    `code` is the error code of a refused merge. Pages show `met` if the condition holds, else
    `remedy`, which tells how to fulfil it.
    """

    code: str
    settings: Sequence[Setting]
    met: str
    remedy: str

    def blocks(self, candidate: MergeCandidate) -> str | None:
        """The reason why the pull cannot be merged; None if this rule allows it.

        Called before a merge and again under its locks, if the target has protections.
        """

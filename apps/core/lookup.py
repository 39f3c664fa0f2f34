"""Lookups by the names in a path, with a 404 that says which of them does not exist."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.shortcuts import get_object_or_404

from apps.core.json import quoted


class Missing(Http404):
    """404 with a text for the client: raise it if the client may know that there is none."""

    def __init__(self, noun: str, name: object, place: str = "") -> None:
        text = name if isinstance(name, int) else quoted(str(name))
        super().__init__(f"There is no {noun} {text}{place and f' in {place}'}.")


def get_or_missing(rows: Any, noun: str, place: str = "", **named: Any) -> Any:
    """The row that matches `named`, a single condition; raises `Missing`."""
    try:
        return get_object_or_404(rows, **named)
    except Http404:
        [name] = named.values()
        raise Missing(noun, name, place) from None

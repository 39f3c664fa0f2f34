"""What pages show of texts: HTML with links for who looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.safestring import mark_safe

from apps.repos.access import RepoAccess
from apps.threads.serializers import add_html, kept_html


def with_html(
    access: RepoAccess, records: Sequence[dict[str, Any]], *kept: Any
) -> Sequence[dict[str, Any]]:
    """Add `body_html` to records, ready for a template; `kept`: managers of rows that have it,
    which one query asks for.
    """
    rows = [kept_html(manager.all(), records) for manager in kept]
    together = [rows[0].union(*rows[1:], all=True)] if rows else []
    add_html(access, "", records, *together)
    for record in records:
        # The renderer writes what it lets through by itself: see `apps/core/markdown.py`.
        record["body_html"] = mark_safe(record["body_html"])  # noqa: S308 - as said above
    return records

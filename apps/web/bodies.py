"""What pages show of texts: HTML with links for who looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.safestring import mark_safe

from apps.core.pagination import with_parameters
from apps.repos.access import RepoAccess
from apps.threads.serializers import add_html, kept_html
from apps.web.responses import PageRequest


def with_html(
    request: PageRequest, access: RepoAccess, records: Sequence[dict[str, Any]], *kept: Any
) -> Sequence[dict[str, Any]]:
    """Add `body_html` to records, ready for a template; `kept`: managers of rows that have it,
    which one query asks for.

    A record for which the page has no room gets `body_url`, the same page with that body first.
    """
    rows = [kept_html(manager.all(), records) for manager in kept]
    together = [rows[0].union(*rows[1:], all=True)] if rows else []
    first = request.GET.get("show")
    add_html(access, "", sorted(records, key=lambda record: key_of(record) != first), *together)
    for record in records:
        if record["body_html"] is None:
            record["body_url"] = f"?{with_parameters(request.GET, show=key_of(record))}"
        else:
            # The renderer writes what it lets through by itself: see `apps/core/markdown.py`.
            record["body_html"] = mark_safe(record["body_html"])  # noqa: S308 - as said above
    return records


def key_of(record: dict[str, Any]) -> str:
    """The value of `show` that names a record: its uuid, or the number of a version."""
    return str(record.get("uuid") or record.get("version", ""))

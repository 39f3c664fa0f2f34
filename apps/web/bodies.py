"""What pages show of texts: HTML with links for who looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import QueryDict
from django.utils.safestring import mark_safe

from apps.core.pagination import with_parameters
from apps.repos.access import RepoAccess
from apps.threads.serializers import StoredHtml, add_html
from apps.web.responses import PageRequest


def with_html(
    request: PageRequest,
    access: RepoAccess,
    records: Sequence[dict[str, Any]],
    *managers: Any,
    address: str = "",
) -> Sequence[dict[str, Any]]:
    """Add `body_html` to records, ready for a template; `managers`: of rows that have it stored.

    A record for which the page has no room gets `body_url`: `address`, with that body first. It is
    the request's own unless that may be the POST of a form.
    """
    first = request.GET.get("show")
    in_order = sorted(records, key=lambda record: key_of(record) != first)
    add_html(access, "", in_order, *map(StoredHtml, managers))
    path, _, query = (address or request.get_full_path()).partition("?")
    for record in records:
        if record["body_html"] is None:
            record["body_url"] = f"{path}?{with_parameters(QueryDict(query), show=key_of(record))}"
        else:
            # The renderer writes what it lets through by itself: see `apps/core/markdown.py`.
            record["body_html"] = mark_safe(record["body_html"])  # noqa: S308 - as said above
    return records


def key_of(record: dict[str, Any]) -> str:
    """The value of `show` that names a record: its uuid, or the number of a version."""
    return str(record.get("uuid") or record.get("version", ""))

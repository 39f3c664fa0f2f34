"""The pages of the audit log: that of the site for staff, and that of a team for its owners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from django.http import HttpResponse, QueryDict
from django.http.response import HttpResponseBase

from apps.audit.exporting import export_response
from apps.audit.filters import AuditFilterSet
from apps.audit.queries import list_entries, list_team_entries
from apps.audit.serializers import audit_records
from apps.core.access import Level
from apps.core.errors import Invalid
from apps.core.pagination import with_parameters
from apps.events.audit import AuditQuerySet
from apps.events.kinds import AUDITED, words_of
from apps.teams.access import TeamAccess
from apps.web.activity import before_id
from apps.web.decorators import page, team_page
from apps.web.frame import team_context
from apps.web.responses import PageRequest, render_page

ENTRIES_PER_PAGE = 50
TARGET_NAMES = ("username", "slug", "branch", "name")
"""The values of a target that the pages show."""
REASONS = {
    "unknown_account": "there is no such account",
    "wrong_password": "wrong password",
    "wrong_code": "wrong second factor",
    "single_sign_on": "single sign-on failed",
    "inactive_account": "the account is deactivated",
}


@page(Level.STAFF)
def site_audit(request: PageRequest) -> HttpResponse:
    """The audit log of the site."""
    return audit_page(request, list_entries(request.principal))


@page(Level.STAFF)
def export_site_audit(request: PageRequest) -> HttpResponseBase:
    """The filtered audit log of the site as JSON lines."""
    rows = filtered(request, list_entries(request.principal))
    return export_response(request, request.principal, rows)


@team_page(Level.OWNER)
def team_audit(request: PageRequest, access: TeamAccess) -> HttpResponse:
    """The audit log of a team, for its owners."""
    return audit_page(request, list_team_entries(access), **team_context(access, "settings"))


@team_page(Level.OWNER)
def export_team_audit(request: PageRequest, access: TeamAccess) -> HttpResponseBase:
    """The filtered audit log of a team as JSON lines."""
    rows = filtered(request, list_team_entries(access))
    return export_response(request, request.principal, rows)


def audit_page(request: PageRequest, rows: AuditQuerySet, **context: Any) -> HttpResponse:
    """A page of these entries by the filters of the query. Invalid ones are named, with 422."""
    problem, entries = "", []
    try:
        selected = filtered(request, rows)
        entries = selected.page(
            after=0, before=before_id(request), size=ENTRIES_PER_PAGE + 1, newest_first=True
        )
    except Invalid as refusal:
        problem = refusal.detail
    first, query = entries[:ENTRIES_PER_PAGE], with_parameters(request.GET, before_id=None)
    older = with_parameters(request.GET, before_id=first[-1].pk) if first else ""
    return render_page(
        request,
        "audit",
        status=422 if problem else 200,
        problem=problem,
        items=[item_of(record) for record in audit_records(first)],
        kinds=[(str(kind), words_of(kind)) for kind in AUDITED],
        next=f"{request.path}?{older}" if len(entries) > ENTRIES_PER_PAGE else None,
        previous=f"{request.path}?{query}" if "before_id" in request.GET else None,
        export=f"{request.path}/export?{query}".removesuffix("?"),
        filters={name: request.GET.get(name, "") for name in AuditFilterSet.base_filters},
        **context,
    )


def filtered(request: PageRequest, rows: AuditQuerySet) -> AuditQuerySet:
    """The entries by the filters of the query, without empty ones; 422."""
    sent = QueryDict(mutable=True)
    for name, texts in request.GET.lists():
        sent.setlist(name, [text for text in texts if text])
    sent = QueryDict(with_parameters(sent))
    filterset = AuditFilterSet(sent, queryset=rows, request=request)
    if filterset.errors:
        lines = (f"{name}: {' '.join(texts)}" for name, texts in filterset.errors.items())
        raise Invalid("validation_failed", " ".join(lines))
    return cast("AuditQuerySet", filterset.qs)


def item_of(record: dict[str, Any]) -> dict[str, Any]:
    """The template's item of a record."""
    target = record["target"]
    names = [str(target[name]) for name in TARGET_NAMES if name in target]
    return {
        "entry": record,
        "words": words_of(record["kind"]),
        "target": " ".join([target["kind"].replace("_", " "), *names]),
        "details": [*details_of(record["data"])],
    }


def details_of(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The names and the texts of the data of an entry; changes as `old → new`."""
    before, after, changed = data.get("before"), data.get("after"), data.get("changed", [])
    for name, value in data.items():
        if name == "reason":
            yield name, REASONS.get(value, value)
        elif name not in {"before", "after", "changed"}:
            yield name, text_of(value)
    if isinstance(before, dict):
        new = after if isinstance(after, dict) else data
        for name in changed:
            if name in before:
                yield name, f"{text_of(before[name])} → {text_of(new.get(name))}"
    elif before is not None:
        yield "before", text_of(before)
    if silent := [name for name in changed if not isinstance(before, dict) or name not in before]:
        yield "changed", text_of(silent)


def text_of(value: Any) -> str:
    """A value of JSON for people."""
    if value is None or value in ("", []):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(text_of, value)) if isinstance(value, list) else str(value)

"""Rows that store their body as HTML too, with the version of the renderer."""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.core import markdown
from apps.core.lexers import Budget


class Rendered(models.Model):
    """A row with a body. Rows of an older renderer are rendered again on reading."""

    body: Any
    body_html = models.TextField(default="", editable=False)
    """The result of `markdown.render`, which is input of `markdown.with_links`: do not show it."""
    html_version = models.PositiveSmallIntegerField(default=0, editable=False)
    """Version of the renderer; 0 if not rendered."""

    class Meta:
        abstract = True


def rendered(body: str | None) -> dict[str, Any]:
    """The columns of `Rendered` for a body; empty for None. Call it before taking a lock.

    If code stayed plain because the lexers were busy, the body is rendered again on reading.
    """
    if body is None:
        return {}
    budget = Budget(markdown.CODE_SECONDS_MAX)
    html = markdown.render(body, budget=budget)
    return {"body_html": html, "html_version": 0 if budget.is_busy else markdown.VERSION}


def rendered_for_edit(row: Rendered, body: str | None) -> dict[str, Any]:
    """As `rendered`, for a row that gets a new body. HTML of another renderer is first rendered
    again and saved: the stored version is compared under the lock, where nothing should be
    rendered.
    """
    if body is not None and row.html_version != markdown.VERSION:
        unchanged: dict[str, Any] = {"pk": row.pk, "body": row.body}
        type(row)._default_manager.filter(**unchanged).update(**rendered(row.body))
    return rendered(body)


def set_html(row: Rendered, html: dict[str, Any] | None, changed: list[str]) -> list[str]:
    """Set the columns of `rendered` if the body has changed; returns the names to save."""
    if "body" not in changed:
        return []
    columns = html or {"body_html": "", "html_version": 0}
    row.body_html, row.html_version = columns["body_html"], columns["html_version"]
    return [*columns]

"""Bodies that are kept as HTML as well, beside their text and with the renderer's version."""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.core import markdown
from apps.core.lexers import Budget


class Rendered(models.Model):
    """A row with a body. Rows that are older than the renderer are rendered when they are read."""

    body: Any
    body_html = models.TextField(default="", editable=False)
    """What `markdown.render` made: for `markdown.with_links`, not to be shown as it is."""
    html_version = models.PositiveSmallIntegerField(default=0, editable=False)
    """The renderer's version; 0: not rendered."""

    class Meta:
        abstract = True


def rendered(body: str | None) -> dict[str, Any]:
    """The columns of `Rendered` for this body, none for None. Call it before a lock is taken.

    Where code stayed plain because others kept the lexers busy, the body is rendered again when it
    is read.
    """
    if body is None:
        return {}
    budget = Budget(markdown.CODE_SECONDS_MAX)
    html = markdown.render(body, budget=budget)
    return {"body_html": html, "html_version": 0 if budget.is_busy else markdown.VERSION}


def rendered_for_edit(row: Rendered, body: str | None) -> dict[str, Any]:
    """The same for a row that gets another body. What the row has from another renderer is rendered
    anew and saved, so that under the lock nothing has to be rendered to compare the two.
    """
    if body is not None and row.html_version != markdown.VERSION:
        same: dict[str, Any] = {"pk": row.pk, "body": row.body}
        type(row)._default_manager.filter(**same).update(**rendered(row.body))
    return rendered(body)


def set_html(row: Rendered, html: dict[str, Any] | None, changed: list[str]) -> list[str]:
    """Set what `rendered` made, without saving, if the body has changed; the columns to save."""
    if "body" not in changed:
        return []
    known = html or {"body_html": "", "html_version": 0}
    row.body_html, row.html_version = known["body_html"], known["html_version"]
    return [*known]

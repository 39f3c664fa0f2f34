"""How columns and fields are shown. Whatever people wrote is escaped."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from urllib.parse import urlencode

from django.db.models import Model
from django.urls import reverse
from django.utils.formats import localize
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

NONE = "-"


def row_link(row: Model | None, text: str = "") -> str:
    """A link to the admin's page of a row, under its own name or this text; a dash for none."""
    if row is None:
        return NONE
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return format_html('<a href="{}">{}</a>', reverse(name, args=[row.pk]), text or str(row))


def link_to(model: type[Model], text: str, page: str = "changelist", **query: str) -> str:
    """A link to the list of a model (or its page `add`), narrowed by the query."""
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}")
    return format_html('<a href="{}?{}">{}</a>', address, urlencode(query), text)


def moment(when: dt.datetime | None) -> str:
    """A time as all others are shown; "never" for none."""
    return str(localize(when)) if when else "never"


def badge(word: str, good: bool | None = None) -> SafeString:
    """A state in one word, in the colour of something good, bad or neither."""
    look = {True: "good", False: "bad", None: "none"}[good]
    return format_html('<span class="state {}">{}</span>', look, word)


def bulleted(lines: Iterable[str], *, more: str = "") -> str:
    """A list of lines, with a last one where there are more; a dash for none."""
    found = [(line,) for line in [*lines, *([more] if more else [])]]
    items = format_html_join("", "<li>{}</li>", found)
    return format_html('<ul class="rows">{}</ul>', items) if items else NONE

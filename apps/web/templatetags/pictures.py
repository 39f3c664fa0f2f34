"""SVG pictures: icons, and an avatar for each person and team."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from uuid import UUID

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()
PULL = (
    '<circle cx="4" cy="3.5" r="1.75"/><circle cx="4" cy="12.5" r="1.75"/>'
    '<path d="M4 5.25v5.5M12 10.75V6.5a2 2 0 0 0-2-2H7.5m1.75-2-2 2 2 2"/>'
    '<circle cx="12" cy="12.5" r="1.75"/>'
)
ICONS = {
    "search": '<circle cx="7" cy="7" r="4.25"/><path d="m10.25 10.25 3.75 3.75"/>',
    "new": '<path d="M8 3v10M3 8h10"/>',
    "pull": PULL,
    "inbox": '<path d="M2 9.5 4 3h8l2 6.5V13H2zM2 9.5h3.5l1 1.5h3l1-1.5H14"/>',
    "lock": '<rect x="3" y="7" width="10" height="7" rx="1"/><path d="M5 7V5a3 3 0 0 1 6 0v2"/>',
    "code": '<path d="M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5"/>',
    "thread": '<path d="M2 3.5h12v8H7.5l-3 2.5v-2.5H2z"/>',
    "activity": '<path d="M1.5 8.5h3l2-5.5 3 10 2-4.5h3"/>',
    "settings": (
        '<circle cx="8" cy="8" r="2.25"/><path d="M8 1.75v2M8 12.25v2M1.75 8h2M12.25 8h2'
        'M3.6 3.6 5 5M11 11l1.4 1.4M3.6 12.4 5 11M11 5l1.4-1.4"/>'
    ),
    "fork": (
        '<circle cx="4" cy="3.5" r="1.75"/><circle cx="12" cy="3.5" r="1.75"/>'
        '<circle cx="8" cy="12.5" r="1.75"/><path d="M4 5.25V6.5L8 9v1.75M12 5.25V6.5L8 9"/>'
    ),
    "branch": (
        '<circle cx="4.5" cy="3.5" r="1.75"/><circle cx="4.5" cy="12.5" r="1.75"/>'
        '<circle cx="11.5" cy="5" r="1.75"/>'
        '<path d="M4.5 5.25v5.5M11.5 6.75c0 2.5-4 2-6.2 4.1"/>'
    ),
    "commit": '<circle cx="8" cy="8" r="2.5"/><path d="M1.5 8h4M10.5 8h4"/>',
    "folder": '<path d="M1.75 4v8.25h12.5V5.5H7.5L6 4z"/>',
    "file": '<path d="M3.5 1.75h6l3 3v9.5h-9zM9.5 1.75v3h3"/>',
    "webhook": '<path d="M8 10V2.25M4.75 5.25 8 2l3.25 3.25M2.5 9v4.5h11V9"/>',
    "yes": '<path d="M3 8.5l3.25 3.25L13 4.75"/>',
    "no": '<path d="m4 4 8 8m0-8-8 8"/>',
    "wait": '<circle cx="8" cy="8" r="6"/><path d="M8 4.75V8l2.25 1.5"/>',
    "team": (
        '<circle cx="5.5" cy="5" r="2.25"/><path d="M1.5 13c0-2.5 1.75-4 4-4s4 1.5 4 4'
        'M10.5 3a2.25 2.25 0 0 1 0 4.25M11.5 9.25c1.75.5 3 1.75 3 3.75"/>'
    ),
}
"""16 by 16 pixels, drawn in the colour of the text."""
HUES = 6
COLOURS = ("#8a3b2b", "#4c5d1c", "#1f5f6b", "#3f4c97", "#7b3b73", "#8a5d0b")
"""Colours of avatars as files; in pages the hues are CSS classes, which follow the theme."""
SIZE = 5


@register.simple_tag
def icon(name: str, tint: str = "") -> SafeString:
    """One of `ICONS`, hidden from screen readers: put a word beside it."""
    drawn = mark_safe(ICONS[name])  # noqa: S308 - a constant of this file
    tinted = format_html(' class="{}"', tint) if tint else ""
    return format_html(
        '<svg{} width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">{}</svg>',
        tinted,
        drawn,
    )


@register.simple_tag
def face(uuid: UUID | str, size: str = "") -> SafeString:
    """The avatar of a person or team, inside a page."""
    hue, path = drawing(str(uuid))
    return format_html(
        '<svg class="face{} h{}" viewBox="0 0 7 7" aria-hidden="true"><path d="{}"/></svg>',
        f" {size}" if size else "",
        hue,
        path,
    )


def picture(uuid: UUID) -> SafeString:
    """The avatar as a file, in colours that are visible on light and dark pages."""
    hue, path = drawing(str(uuid))
    return format_html(
        '<svg xmlns="http://www.w3.org/2000/svg" width="70" height="70" viewBox="0 0 7 7">'
        '<rect width="7" height="7" fill="#f2efe9"/><path fill="{}" d="{}"/></svg>',
        COLOURS[hue],
        path,
    )


@lru_cache(4096)
def drawing(uuid: str) -> tuple[int, str]:
    """The hue and the path of an avatar, computed from a uuid: 5 by 5 cells, mirrored."""
    digest = hashlib.sha256(uuid.encode()).digest()
    cells = [
        f"M{column + 1} {row + 1}h1v1h-1z"
        for row in range(SIZE)
        for column in range(SIZE)
        if digest[row * 3 + min(column, SIZE - 1 - column)] % 2
    ]
    return digest[-1] % HUES, "".join(cells)

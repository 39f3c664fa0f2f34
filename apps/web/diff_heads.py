"""The heads of changed files as HTML.

Python makes them, because a page may have hundreds, and a template is too slow for those.
"""

from __future__ import annotations

from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from apps.web.colours import escaped
from apps.web.hidden_characters import spelled
from apps.web.templatetags.pictures import icon

YES = icon("yes")


def file_head(file: dict[str, Any], *, has_tools: bool, may_mark: bool) -> SafeString:
    """The start of the section of a file up to the end of its header; `file`: the context of
    `_diff_file.html`. `has_tools`: whether scripts and buttons may change the file in place.
    """
    is_viewed, label = file["is_viewed"], escape(spelled(file["path"]))
    data = ""
    if has_tools:
        viewed = "yes" if is_viewed else "no"
        data = f' data-file="{escape(file["path"])}" data-viewed="{viewed}"'
    parts = [f'<section class="sheet diff" id="{file["anchor"]}" aria-label="{label}"{data}>']
    former = file["previous_path"]
    arrow = f"<span>{escaped(former)}</span> → " if former else ""
    parts.append(f"<header><h3>{arrow}{file['name']}</h3>")
    if file["additions"] is not None:
        parts.append(long_stat(file["additions"], file["deletions"]))
    mode = f"mode {file['mode']}" if file["mode"] else ""
    parts += [f'<span class="small soft">{text}</span>' for text in (file["status"], mode) if text]
    unseen = f'<span class="unseen"> {file["name"]}</span>'
    parts.append(f'<a class="small" href="{escape(file["address"])}">View file{unseen}</a>')
    if may_mark and file["table"]:
        href = file["lines_link"]
        parts.append(f'<a class="small" href="{href}" data-part>Lines{unseen}</a>')
    if count := file["comment_count"]:
        parts.append(f'<span class="small soft">{count} comment{"" if count == 1 else "s"}</span>')
    if may_mark:
        name, pressed = ("unviewed", "true") if is_viewed else ("viewed", "false")
        parts.append(
            f'<button class="plain" form="viewed" name="{name}" value="{file["anchor"]}" '
            f'aria-pressed="{pressed}">{YES}Viewed{unseen}</button>'
        )
    if has_tools:
        parts.append(hops(file))
    return mark_safe("".join([*parts, "</header>"]))  # noqa: S308 - each part is escaped


def long_stat(added: int, removed: int) -> str:
    """The numbers of lines, with words for those who do not see the colours."""
    plus = f'<span class="p">+{added}<span class="unseen"> added</span></span>'
    minus = f'<span class="m">\u2212{removed}<span class="unseen"> removed</span></span>'
    return f'<span class="stat">{plus}{minus}</span>'


def hops(file: dict[str, Any]) -> str:
    """The links to the files before and after."""
    words = (("previous", "Previous file", "↑"), ("next", "Next file", "↓"))
    links = [
        f'<a href="#{file[name]}" aria-label="{label}">{sign}</a>'
        for name, label, sign in words
        if file.get(name)
    ]
    return f'<span class="hop">{"".join(links)}</span>'

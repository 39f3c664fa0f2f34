"""`…/files/<path>` and `…/raw/<path>`: a folder or file of a commit, as a page or as bytes."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase

from apps.browse.cache import ForNow, cached
from apps.browse.downloads import kind_of, raw_response
from apps.browse.names import path_in_tree, quick, revision, shown_path
from apps.browse.serializers import target_of
from apps.browse.trees import Content, content_of, read_entry
from apps.core.files import PICTURES
from apps.core.lexers import Budget
from apps.core.pagination import count_parameter
from apps.git.tree import Entry, start_of_blob
from apps.repos.access import RepoAccess
from apps.web.code import (
    Location,
    find_location,
    folder_context,
    history_address,
    path_address,
    ref_menu,
)
from apps.web.colours import (
    CHARACTERS_MAX,
    LINES_MAX,
    SECONDS_MAX,
    VERSION,
    Line,
    coloured_lines,
    language_of,
    plain_lines,
    text_of,
)
from apps.web.decorators import repo_page
from apps.web.diff_tables import file_table
from apps.web.frame import render_repo_page
from apps.web.hidden_characters import has_hidden
from apps.web.responses import PageRequest

CACHED_FROM = 16 * 1024
"""Size in bytes from which coloured lines are cached: below, colouring is as fast as the cache."""
START = 512 * 1024
"""Bytes read from the start of a file that is too large to be read whole."""


@repo_page()
def files(request: PageRequest, access: RepoAccess, path: str = "") -> HttpResponse:
    """A folder or a file; `?line=` redirects to a line."""
    location = find_location(request, access, path)
    entry = read_entry(location.repo, location.commit, location.path)
    context: dict[str, Any] = {
        "location": location,
        "menu": ref_menu(location.repo, location.shown_ref),
        "history": history_address(location.repo, location.path, location.ref),
        "permalink": path_address(location.repo, "files", location.path, location.commit),
        "is_pinned": location.ref == location.commit,
    }
    if entry.kind == "directory":
        context["folder"] = folder_context(request, access, location, entry)
        return render_repo_page(request, access, "folder", tab="code", **context)
    context |= file_context(location, entry)
    if "line" in request.GET:
        line = min(count_parameter(request.GET, "line", 1), context["line_count"] or 1)
        return HttpResponseRedirect(f"{location.address()}#L{line}")
    return render_repo_page(request, access, "file", tab="code", **context)


def file_context(location: Location, entry: Entry) -> dict[str, Any]:
    """The context of `file.html`, for a file, a symlink or a submodule."""
    is_file = entry.kind == "file"
    with quick():
        found = content_of(location.repo, location.commit, entry)
        content = found.content
        if content is None and is_file:
            content = start_of_blob(location.repo.git, entry.sha, START)
    context: dict[str, Any] = {
        "entry": entry,
        "name": shown_path(entry.path.rpartition(b"/")[2]),
        "raw": location.address("raw"),
        "lfs": found.lfs if is_file else None,
        "target": target_of(found),
        "is_binary": found.is_binary,
        "line_count": 0,
    }
    if not is_file or content is None:
        return context
    if found.is_binary:
        is_whole = found.content is not None
        is_picture = is_whole and kind_of(content, is_whole=is_whole) in PICTURES
        return {**context, "is_picture": is_picture}
    return {**context, **text_context(location, found, content)}


def text_context(location: Location, found: Content, content: bytes) -> dict[str, Any]:
    """The lines of a text file: coloured, or the first ones without colours if it is large."""
    total = content.count(b"\n") + (content[-1:] not in {b"", b"\n"})
    is_whole = found.content is not None
    if is_whole and len(content) <= CHARACTERS_MAX and total <= LINES_MAX:
        lines = lines_of(location, found.entry, content)
    else:
        first = b"\n".join(content.split(b"\n", LINES_MAX)[:LINES_MAX])
        lines = plain_lines(first.decode("utf-8", "replace"))
    return {
        "table": file_table(lines),
        "line_count": len(lines),
        "has_hidden": has_hidden("\n".join(map(text_of, lines))),
        "total": total if is_whole else None,
        "is_cut": not is_whole or len(lines) < total,
    }


def lines_of(location: Location, entry: Entry, content: bytes) -> list[Line]:
    """All lines of a file, coloured; from `CACHED_FROM` bytes they are cached."""
    text, name = content.decode("utf-8", "replace"), shown_path(entry.path)
    budget = Budget(SECONDS_MAX)

    def coloured() -> list[Line] | ForNow:
        lines = coloured_lines(name, text, budget)
        return ForNow(lines) if budget.is_busy else lines

    language = language_of(name)
    if not language or len(content) < CACHED_FROM:
        return coloured_lines(name, text, budget)
    lines: list[Line] = cached(location.repo, ("colours", VERSION, entry.sha, language), coloured)
    return lines


@repo_page(is_compressed=False)
def raw(request: PageRequest, access: RepoAccess, path: str) -> HttpResponseBase:
    """The bytes of a file, with headers that keep browsers from running them."""
    commit = revision(access.repo, request.GET.get("ref") or None)
    at = path_in_tree(path, request.GET.get("path_base64"))
    return raw_response(request, request.principal, access.repo, commit, at)

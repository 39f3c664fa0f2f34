"""Addresses of code: what a path is read by, and what the links in a README lead to."""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote, urlencode, urlsplit

from apps.browse.names import path_fields
from apps.core.markdown import ABSOLUTE, TAG, UPLOAD
from apps.repos.models import Repo

LINK = re.compile(r' (href|src)="([^"]*)"')
HEADING = re.compile(r"(</?h)([1-6])")
LOWER = 2
"""By how much the headings of a README are lower on a page that has some of its own."""


def path_address(repo: Repo, kind: str, path: bytes, ref: str = "", **query: str) -> str:
    """The address of a path in one of the kinds of pages: `files`, `raw`. Without a ref it is that
    of the default branch.
    """
    fields = path_fields(path)
    wanted = {"ref": ref, "path_base64": fields.get("path_base64"), **query}
    end = f"/{quote(fields['path'] or '')}" if path else ""
    return with_query(f"/{repo.path}/{kind}{end}", wanted)


def history_address(repo: Repo, path: bytes, ref: str = "") -> str:
    """The address of the commits that change a path."""
    fields = path_fields(path) if path else {}
    return with_query(f"/{repo.path}/commits", {"ref": ref, **fields})


def with_query(address: str, query: dict[str, str | None]) -> str:
    """An address with those of these parameters that say something."""
    text = urlencode({name: value for name, value in query.items() if value})
    return f"{address}?{text}" if text else address


def resolved(kept: str, repo: Repo, folder: bytes, ref: str) -> str:
    """The HTML of a README in this folder: its relative links lead to files of the same ref, and
    its headings are lower.
    """

    def place(found: re.Match[str]) -> str:
        kind = "raw" if found[1] == "src" else "files"
        to = link_target(html.unescape(found[2]), repo, folder, ref, kind)
        return f' {found[1]}="{html.escape(to)}"'

    def parts() -> Iterator[str]:
        for at, part in enumerate(TAG.split(kept)):
            if at % 2 == 0:
                yield part
            elif part.startswith(("<a ", "<img ")):
                yield LINK.sub(place, part)
            else:
                yield HEADING.sub(lambda found: f"{found[1]}{min(6, int(found[2]) + LOWER)}", part)

    return "".join(parts())


def link_target(address: str, repo: Repo, folder: bytes, ref: str, kind: str) -> str:
    """Where a link of a README leads: as it is, unless it names another file of the repository."""
    if not address or ABSOLUTE.match(address) or UPLOAD.fullmatch(address):
        return address
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    named = unquote(parts.path).encode("utf-8", "surrogateescape")
    path = posixpath.normpath(posixpath.join(b"/", folder, named)).strip(b"/")
    end = f"#{parts.fragment}" if parts.fragment else ""
    return f"{path_address(repo, kind, path, ref)}{end}"

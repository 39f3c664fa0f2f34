"""Addresses of pages of code, and the targets of links in a README."""

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
HEADING_SHIFT = 2
"""Levels by which the headings of a README are lowered, below those of the page."""


def path_address(repo: Repo, kind: str, path: bytes, ref: str = "", **query: str) -> str:
    """The address of a path on the pages `files` or `raw`; without a ref, on the default branch."""
    fields = path_fields(path)
    parameters = {"ref": ref, "path_base64": fields.get("path_base64"), **query}
    end = f"/{quote(fields['path'] or '')}" if path else ""
    return with_query(f"/{repo.path}/{kind}{end}", parameters)


def history_address(repo: Repo, path: bytes, ref: str = "") -> str:
    """The address of the list of commits that change a path."""
    fields = path_fields(path) if path else {}
    return with_query(f"/{repo.path}/commits", {"ref": ref, **fields})


def with_query(address: str, query: dict[str, str | None]) -> str:
    """An address with these query parameters; empty ones are left out."""
    text = urlencode({name: value for name, value in query.items() if value})
    return f"{address}?{text}" if text else address


def resolved(readme_html: str, repo: Repo, folder: bytes, ref: str) -> str:
    """The HTML of a README in this folder, with relative links resolved to files at the same ref
    and headings lowered.
    """

    def resolve(link: re.Match[str]) -> str:
        kind = "raw" if link[1] == "src" else "files"
        target = link_target(html.unescape(link[2]), repo, folder, ref, kind)
        return f' {link[1]}="{html.escape(target)}"'

    def lower_heading(tag: re.Match[str]) -> str:
        return f"{tag[1]}{min(6, int(tag[2]) + HEADING_SHIFT)}"

    def resolved_parts() -> Iterator[str]:
        for at, part in enumerate(TAG.split(readme_html)):
            if at % 2 == 0:
                yield part
            elif part.startswith(("<a ", "<img ")):
                yield LINK.sub(resolve, part)
            else:
                yield HEADING.sub(lower_heading, part)

    return "".join(resolved_parts())


def link_target(address: str, repo: Repo, folder: bytes, ref: str, kind: str) -> str:
    """The target of a link in a README: unchanged unless it is a path inside the repository."""
    if not address or ABSOLUTE.match(address) or UPLOAD.fullmatch(address):
        return address
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    relative = unquote(parts.path).encode("utf-8", "surrogateescape")
    path = posixpath.normpath(posixpath.join(b"/", folder, relative)).strip(b"/")
    end = f"#{parts.fragment}" if parts.fragment else ""
    return f"{path_address(repo, kind, path, ref)}{end}"

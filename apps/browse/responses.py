"""The bytes of a file as an answer that no browser runs anything of."""

from __future__ import annotations

import re
from contextlib import ExitStack
from functools import cache, partial

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from apps.accounts.principal import Principal
from apps.browse.cache import cached
from apps.browse.names import Revision, shown_path
from apps.browse.objects import quick
from apps.browse.trees import INLINE_MAX, read_file
from apps.core.conditional import not_modified
from apps.core.content_types import is_text, picture_type
from apps.core.errors import Invalid
from apps.core.files import inert_headers
from apps.core.json import quoted
from apps.core.locks import give_back_connection
from apps.git.tree import Entry, stream_blob
from apps.repos.http import streams
from apps.repos.http.transfer_slots import transfer_slot
from apps.repos.models import Repo

RAW_MAX = 512 * 1024 * 1024
"""Bytes of a file that is sent; git sends larger ones."""
LOOKED_AT = 64 * 1024
"""Bytes that say what a file is."""
TEXT, OTHER = "text/plain; charset=utf-8", "application/octet-stream"
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def raw_response(
    request: HttpRequest, principal: Principal, repo: Repo, wanted: Revision, path: bytes
) -> HttpResponseBase:
    """The bytes of what a commit has at a path; 304 for who has them, without git where anybody has
    asked before. Who may read them has been asked before. 404, 422 `is_directory`, `not_a_file`,
    `file_too_large`.
    """

    @cache
    def file() -> tuple[Entry, bytes]:
        with quick():
            _, entry, start = read_file(repo, wanted, path, most=INLINE_MAX, start=LOOKED_AT)
        if entry.kind == "submodule":
            raise Invalid("not_a_file", "A submodule is a commit of another repository.")
        return entry, start

    tag = f'"{cached(repo, ("raw", wanted.sha, path), lambda: file()[0].sha)}"'
    if answer := not_modified(request, tag):
        return answer
    entry, start = file()
    size = entry.size or 0
    if size > RAW_MAX:
        text = f"{quoted(shown_path(path))} has {size} bytes. Files of more than {RAW_MAX} are"
        raise Invalid("file_too_large", f"{text} to be had with git.")
    is_small = size <= INLINE_MAX
    headers = headers_of(kind_of(start, is_whole=is_small), path)
    headers |= {"ETag": tag, "Content-Length": str(size)}
    if request.method == "HEAD":
        return HttpResponse(headers=headers)
    if is_small:
        return HttpResponse(start, headers=headers)
    return streamed(request, principal, repo, entry.sha, headers)


def streamed(
    request: HttpRequest, principal: Principal, repo: Repo, blob: str, headers: dict[str, str]
) -> HttpResponseBase:
    """A large file; it takes a transfer slot, because a client may be slow: 429 if none is free."""
    give_back_connection()
    with ExitStack() as held:
        held.enter_context(transfer_slot(request, principal))
        start = partial(stream_blob, repo.git, blob)
        answer = streams.answer(request, start, headers["Content-Type"], held=held)
    for name, value in headers.items():
        answer[name] = value
    return answer


def headers_of(kind: str, path: bytes) -> dict[str, str]:
    """Headers for a file of this type, which is shown by browsers if the type is known."""
    name = CONTROL.sub("_", shown_path(path.rpartition(b"/")[2]))
    return inert_headers(kind, name, is_attachment=kind == OTHER)


def kind_of(start: bytes, *, is_whole: bool) -> str:
    """The Content-Type by the first bytes: text, a picture, or unknown."""
    ends = is_whole and len(start) <= LOOKED_AT
    if is_text(start[:LOOKED_AT], is_whole=ends):
        return TEXT
    return picture_type(start) or OTHER

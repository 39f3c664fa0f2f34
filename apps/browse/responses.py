"""The bytes of a file as an answer that no browser runs anything of."""

from __future__ import annotations

import codecs
import re
from contextlib import ExitStack
from functools import cache, partial

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from apps.accounts.principal import Principal
from apps.browse.cache import cached
from apps.browse.conditional import CACHE_CONTROL, not_modified
from apps.browse.names import Revision, shown_path
from apps.browse.objects import quick
from apps.browse.trees import INLINE_MAX, read_file
from apps.core.errors import Invalid
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
PICTURES = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
    ("image/avif", re.compile(rb"....ftypavi[fs]", re.DOTALL)),
)
"""What a browser may show by itself: none of them can run anything."""
POLICY = "default-src 'none'; sandbox"
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
    """A large file, sent as fast as the client takes it: in one of the places of git over HTTP,
    because that may be slow. 429 when there is none.
    """
    give_back_connection()
    with ExitStack() as held:
        held.enter_context(transfer_slot(request, principal))
        start = partial(stream_blob, repo.git, blob)
        answer = streams.answer(request, start, headers["Content-Type"], held=held)
    for name, value in headers.items():
        answer[name] = value
    return answer


def headers_of(kind: str, path: bytes) -> dict[str, str]:
    """What keeps a browser from taking it for anything else, and from keeping it for later."""
    name = CONTROL.sub("_", shown_path(path.rpartition(b"/")[2]))
    return {
        "Content-Type": kind,
        "Content-Disposition": content_disposition_header(kind == OTHER, name) or "",
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": CACHE_CONTROL,
    }


def kind_of(start: bytes, *, is_whole: bool) -> str:
    """The Content-Type by the first bytes: text, a picture, or nothing that is known."""
    looked_at = start[:LOOKED_AT]
    try:
        ends = is_whole and len(start) <= LOOKED_AT
        codecs.getincrementaldecoder("utf-8")().decode(looked_at, ends)
        if b"\0" not in looked_at:
            return TEXT
    except UnicodeDecodeError:
        pass
    return next((kind for kind, begin in PICTURES if begin.match(looked_at)), OTHER)

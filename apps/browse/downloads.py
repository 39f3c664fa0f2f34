"""Texts and archives as answers."""

from __future__ import annotations

import zlib
from contextlib import ExitStack
from functools import partial
from io import SEEK_END
from typing import IO

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from apps.accounts.principal import Principal
from apps.browse.archives import Archive
from apps.browse.read_slots import archive_slots
from apps.core.files import inert_headers, pieces_of
from apps.core.locks import give_back_connection
from apps.git import archive as git_archive
from apps.repos.http import streams
from apps.repos.http.transfer_slots import caller_of, transfer_slot

SMALL = 1024 * 1024
"""Bytes of a text that is sent whole."""
GZIP = 16 + zlib.MAX_WBITS
LEVEL = 6
TEXTS = {"diff": "text/x-diff", "patch": "text/plain; charset=utf-8"}
"""The Content-Type of each format of a comparison that is no JSON."""
KINDS = {"tar.gz": "application/gzip", "zip": "application/zip", "tar": "application/x-tar"}
"""The Content-Type of each format of an archive."""


class HeldFile(StreamingHttpResponse):
    """A file as an answer, which holds its slot until it has been sent."""

    held: ExitStack

    def close(self) -> None:
        super().close()
        self.held.close()


def text_response(
    request: HttpRequest, principal: Principal, file: IO[bytes], kind: str
) -> HttpResponseBase:
    """A text from the beginning of this file, which is closed in the end. One that is not small
    takes a transfer slot, because a client may be slow: 429.
    """
    size = file.seek(0, SEEK_END)
    file.seek(0)
    headers = {**inert_headers(kind), "Content-Length": str(size)}
    if size <= SMALL or request.method == "HEAD":
        with file:
            return HttpResponse(b"" if request.method == "HEAD" else file.read(), headers=headers)
    with ExitStack() as held:
        held.callback(file.close)
        held.enter_context(transfer_slot(request, principal))
        answer = HeldFile(pieces_of(file, request), headers=headers)
        answer.held = held.pop_all()
    return answer


def archive_response(
    request: HttpRequest, principal: Principal, archive: Archive, form: str
) -> HttpResponseBase:
    """An archive as `tar`, `tar.gz` or `zip`, made while it is sent. It takes a
    transfer slot: 429. A caller has one archive at a time: 503.
    """
    headers = inert_headers(KINDS[form], f"{archive.name}.{form}", is_attachment=True)
    if request.method == "HEAD":
        return HttpResponse(headers=headers)
    give_back_connection()
    with ExitStack() as held:
        held.enter_context(archive_slots.slot(caller_of(request, principal)))
        held.enter_context(transfer_slot(request, principal))
        written = "zip" if form == "zip" else "tar"
        of = archive.repo.git, archive.commit, written, f"{archive.name}/", archive.path
        start = partial(git_archive.stream_archive, *of)
        is_packed = form == "tar.gz"
        packer = streams.Bounded(
            zlib.compressobj(LEVEL, wbits=GZIP) if is_packed else streams.Unpacked(),
            git_archive.WRITTEN_MAX,
        )
        answer = streams.answer(request, start, KINDS[form], held=held, packer=packer)
    for name, value in headers.items():
        answer[name] = value
    return answer

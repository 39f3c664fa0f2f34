"""Responses with raw files, archives, and diffs and patches as text."""

from __future__ import annotations

import re
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from io import SEEK_END
from typing import IO
from wsgiref.util import FileWrapper

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from apps.accounts.principal import Principal
from apps.browse.cache import cached
from apps.browse.names import Revision, find_commit, find_tree, quick, shown_path
from apps.browse.read_slots import archive_slots, heavy_slots
from apps.browse.trees import INLINE_MAX, name_of, read_file
from apps.core.conditional import not_modified
from apps.core.errors import Invalid
from apps.core.files import PIECE, inert_headers, is_text, picture_type
from apps.core.json import quoted
from apps.core.locks import give_back_connection
from apps.git import exports
from apps.git.exports import BYTES_MAX, ENTRIES_MAX, check_size
from apps.git.run import GitTooLarge
from apps.git.tree import Entry, stream_blob
from apps.repos.http import streams
from apps.repos.http.transfer_slots import caller_of, transfer_slot
from apps.repos.models import Repo

SHORT = 12
"""Digits of the commit in the name of an archive."""
SMALL = 1024 * 1024
"""Most bytes of a text that is sent at once, without a transfer slot."""
GZIP = 16 + zlib.MAX_WBITS
LEVEL = 6
TEXTS = {"diff": "text/x-diff", "patch": "text/plain; charset=utf-8"}
"""Content types of the formats of a comparison besides JSON."""
KINDS = {"tar.gz": "application/gzip", "zip": "application/zip", "tar": "application/x-tar"}
"""Content types of the formats of an archive."""
RAW_MAX = 512 * 1024 * 1024
"""Most bytes of a raw file. Larger ones can be read with git."""
LOOKED_AT = 64 * 1024
"""First bytes of a file, from which its type is detected."""
TEXT, OTHER = "text/plain; charset=utf-8", "application/octet-stream"
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True)
class Archive:
    """All files of a commit below `path`, which is empty or a folder."""

    repo: Repo
    commit: str
    path: bytes

    @property
    def name(self) -> str:
        """The name of the archive without an extension, and of the folder that it contains."""
        return f"{self.repo.slug}-{self.commit[:SHORT]}"


def find_archive(repo: Repo, rev: Revision, path: bytes, throttle_key: str) -> Archive:
    """The archive of a revision. Slots are counted by `throttle_key`; see `caller_of`.

    404, 422 `not_a_directory`, `archive_too_large`, `too_expensive`.
    """
    with quick():
        commit = find_commit(repo, rev)
        tree = find_tree(repo, commit, path)

    def fits() -> bool:
        with heavy_slots.slot(throttle_key):
            try:
                check_size(repo.git, tree)
            except GitTooLarge:
                return False
        return True

    if not cached(repo, ("archive", tree), fits):
        text = f"It has more than {ENTRIES_MAX} files and directories, or {BYTES_MAX} bytes."
        raise Invalid("archive_too_large", f"{text} Clone the repository with git.")
    return Archive(repo, commit, path)


class HeldFile(StreamingHttpResponse):
    """Holds a slot until it has been sent."""

    held: ExitStack

    def close(self) -> None:
        super().close()
        self.held.close()


def text_response(
    request: HttpRequest, principal: Principal, file: IO[bytes], kind: str
) -> HttpResponseBase:
    """A response with the text in this file, which is closed at the end.

    A large text needs a transfer slot, because a client may be slow: 429 if none is free.
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
        answer = HeldFile(FileWrapper(file, PIECE), headers=headers)
        answer.held = held.pop_all()
    return answer


def archive_response(
    request: HttpRequest, principal: Principal, archive: Archive, form: str
) -> HttpResponseBase:
    """A response with an archive as `tar`, `tar.gz` or `zip`, created while it is sent.

    It needs a transfer slot: 429. Each caller may read one archive at a time: 503.
    """
    headers = inert_headers(KINDS[form], f"{archive.name}.{form}", is_attachment=True)
    if request.method == "HEAD":
        return HttpResponse(headers=headers)
    give_back_connection()
    with ExitStack() as held:
        held.enter_context(archive_slots.slot(caller_of(request, principal)))
        held.enter_context(transfer_slot(request, principal))
        git_format = "zip" if form == "zip" else "tar"
        arguments = archive.commit, git_format, f"{archive.name}/", archive.path
        start = partial(exports.stream_archive, archive.repo.git, *arguments)
        is_packed = form == "tar.gz"
        packer = streams.Bounded(
            zlib.compressobj(LEVEL, wbits=GZIP) if is_packed else None,
            exports.WRITTEN_MAX,
        )
        answer = streams.answer(start, KINDS[form], held=held, packer=packer)
    return _with_headers(answer, headers)


def _with_headers(answer: HttpResponseBase, headers: dict[str, str]) -> HttpResponseBase:
    for name, value in headers.items():
        answer[name] = value
    return answer


def raw_response(
    request: HttpRequest, principal: Principal, repo: Repo, rev: Revision, path: bytes
) -> HttpResponseBase:
    """A response with the bytes of a file; 304 if the client has them. The caller has checked read
    access. 404, 422 `is_directory`, `not_a_file`, `file_too_large`.

    The ETag is cached, so that a 304 usually needs no git.
    """

    @cache
    def file() -> tuple[Entry, bytes]:
        with quick():
            _, entry, start = read_file(repo, rev, path, most=INLINE_MAX, start=LOOKED_AT)
        if entry.kind == "submodule":
            raise Invalid("not_a_file", "A submodule is a commit of another repository.")
        return entry, start

    tag = f'"{cached(repo, ("raw", rev.sha, path), lambda: file()[0].sha)}"'
    if answer := not_modified(request, tag):
        return answer
    entry, start = file()
    size = entry.size or 0
    if size > RAW_MAX:
        text = f"{quoted(shown_path(path))} has {size} bytes. Read files of more than"
        raise Invalid("file_too_large", f"{text} {RAW_MAX} with git.")
    is_small = size <= INLINE_MAX
    kind = kind_of(start, is_whole=is_small)
    name = CONTROL.sub("_", shown_path(name_of(entry)))
    headers = inert_headers(kind, name, is_attachment=kind == OTHER)
    headers |= {"ETag": tag, "Content-Length": str(size)}
    if request.method == "HEAD":
        return HttpResponse(headers=headers)
    if is_small:
        return HttpResponse(start, headers=headers)
    return streamed(request, principal, repo, entry.sha, headers)


def streamed(
    request: HttpRequest, principal: Principal, repo: Repo, blob: str, headers: dict[str, str]
) -> HttpResponseBase:
    """A response with a large file. It needs a transfer slot, because a client may be slow: 429."""
    give_back_connection()
    with ExitStack() as held:
        held.enter_context(transfer_slot(request, principal))
        start = partial(stream_blob, repo.git, blob)
        answer = streams.answer(start, headers["Content-Type"], held=held)
    return _with_headers(answer, headers)


def kind_of(start: bytes, *, is_whole: bool) -> str:
    """The content type of a file by its first bytes: text, a picture, or unknown."""
    ends = is_whole and len(start) <= LOOKED_AT
    if is_text(start[:LOOKED_AT], is_whole=ends):
        return TEXT
    return picture_type(start) or OTHER

"""The bytes of an upload as an answer that no browser runs anything of."""

from __future__ import annotations

import logging

from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotModified,
    StreamingHttpResponse,
)
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header, parse_etags

from apps.core.file_pieces import pieces_of
from apps.uploads import files
from apps.uploads.kinds import IMAGES, TEXT
from apps.uploads.models import Upload

POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Opened by itself it runs nothing and loads nothing; a browser styles a picture that it shows."""
logger = logging.getLogger(__name__)


def content_response(request: HttpRequest, upload: Upload) -> HttpResponseBase:
    """The bytes, in pieces; 304 for who has them. Who may read them has been asked before."""
    headers = headers_of(upload)
    known = {
        tag.removeprefix("W/") for tag in parse_etags(request.headers.get("If-None-Match", ""))
    }
    if not known.isdisjoint({headers["ETag"], "*"}):
        return HttpResponseNotModified(headers=headers)
    try:
        file = files.path_of(upload.sha256).open("rb")
    except FileNotFoundError:
        logger.error("The file of upload %s is missing: %s", upload.uuid, upload.sha256)
        raise Http404 from None
    headers |= {"Content-Type": type_with_charset(upload), "Content-Length": str(upload.size)}
    if request.method == "HEAD":
        file.close()
        return HttpResponse(headers=headers)
    return StreamingHttpResponse(pieces_of(file, request), headers=headers)


def headers_of(upload: Upload) -> dict[str, str]:
    """What keeps a browser from taking it for anything else, and from keeping it for later.

    A copy may be kept, but has to be asked for each time: who reads here today may not tomorrow.
    """
    is_attachment = upload.content_type not in IMAGES
    return {
        "Content-Disposition": content_disposition_header(is_attachment, upload.filename) or "",
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-cache, no-transform",
        "ETag": f'"{upload.sha256}"',
    }


def type_with_charset(upload: Upload) -> str:
    """The Content-Type. All text was found to be UTF-8."""
    is_text = upload.content_type == TEXT
    return f"{upload.content_type}; charset=utf-8" if is_text else upload.content_type

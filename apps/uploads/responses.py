"""Responses with the bytes of uploads, from which browsers execute nothing."""

from __future__ import annotations

import logging

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from apps.core.conditional import not_modified
from apps.core.files import inert_headers, pieces_of
from apps.uploads import files
from apps.uploads.kinds import IMAGES, TEXT
from apps.uploads.models import Upload

logger = logging.getLogger(__name__)


def content_response(request: HttpRequest, upload: Upload) -> HttpResponseBase:
    """The bytes, in pieces; 304 if If-None-Match matches. The caller has checked read access."""
    headers = headers_of(upload)
    if answer := not_modified(request, headers["ETag"], headers):
        return answer
    try:
        file = files.path_of(upload.sha256).open("rb")
    except FileNotFoundError:
        logger.error("The file of upload %s is missing: %s", upload.uuid, upload.sha256)
        raise Http404 from None
    headers["Content-Length"] = str(upload.size)
    if request.method == "HEAD":
        file.close()
        return HttpResponse(headers=headers)
    return StreamingHttpResponse(pieces_of(file, request), headers=headers)


def headers_of(upload: Upload) -> dict[str, str]:
    """Headers: images are displayed, all else is an attachment; proxies may not transform it."""
    charset = "; charset=utf-8" if upload.content_type == TEXT else ""
    is_attachment = upload.content_type not in IMAGES
    headers = inert_headers(
        f"{upload.content_type}{charset}", upload.filename, is_attachment=is_attachment
    )
    return {
        **headers,
        "Cache-Control": f"{headers['Cache-Control']}, no-transform",
        "ETag": f'"{upload.sha256}"',
    }

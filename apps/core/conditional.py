"""ETags, and 304 for clients that have the answer.

Django's `get_conditional_response` also answers `If-Match`, with a 412 that has no error body.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase
from django.utils.http import parse_etags
from rest_framework.response import Response

from apps.core import json

VERSION = 2
"""Raised when records, or archives, get another form."""
CACHE_CONTROL = "private, no-cache"
"""Ask each time: access may be lost."""


def by_names(
    request: HttpRequest,
    names: tuple[Any, ...],
    answer: Callable[[], Any],
    *,
    check: Callable[[], Any] | None = None,
) -> HttpResponseBase:
    """What `answer` gives, a record or an answer, unless the client has it: then 304.

    `names` are all full object names that the answer follows from. Only for answers that git
    decides alone. The caller has asked for access before. `check` refuses what `answer` would, for
    an answer that holds a git until it has been sent: who sends `*` is sent none.
    """
    query = sorted((name, values) for name, values in request.GET.lists())
    text = repr((VERSION, request.path, query, names))
    tag = etag_of(text.encode("utf-8", "backslashreplace"))
    if tag in known_tags(request):
        return unchanged(tag)
    if "*" in known_tags(request):
        (check or answer)()
        return unchanged(tag)
    return tagged(answer(), tag)


def by_body(request: HttpRequest, record: Any) -> HttpResponseBase:
    """This record, unless the client has it: for answers in which rows speak too."""
    body = json.dumps(record)
    tag = etag_of(body)
    answer = HttpResponse(body, content_type="application/json")
    return not_modified(request, tag) or tagged(answer, tag)


def etag_of(content: bytes) -> str:
    """A strong validator, RFC 9110 section 8.8.3."""
    return f'"{hashlib.sha256(content).hexdigest()[:40]}"'


def known_tags(request: HttpRequest) -> set[str]:
    """The tags that the client has sent; `*` stands for any."""
    sent = parse_etags(request.headers.get("If-None-Match", ""))
    return {tag.removeprefix("W/") for tag in sent}


def not_modified(
    request: HttpRequest, tag: str, headers: Mapping[str, str] = MappingProxyType({})
) -> HttpResponseNotModified | None:
    """304 if If-None-Match matches, else None. Call it only once the resource is known to exist."""
    return None if known_tags(request).isdisjoint({tag, "*"}) else unchanged(tag, headers)


def unchanged(
    tag: str, headers: Mapping[str, str] = MappingProxyType({})
) -> HttpResponseNotModified:
    """304, with these headers beside those of every tagged answer."""
    both = {"Cache-Control": CACHE_CONTROL, **headers, "ETag": tag}
    return HttpResponseNotModified(headers=both)


def tagged(answer: Any, tag: str) -> HttpResponseBase:
    response = answer if isinstance(answer, HttpResponseBase) else Response(answer)
    response["ETag"], response["Cache-Control"] = tag, CACHE_CONTROL
    return response

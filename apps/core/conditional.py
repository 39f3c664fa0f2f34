"""ETags, and 304 for clients that have the current answer.

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

VERSION = 2
"""Raise it when records or archives change their form."""
CACHE_CONTROL = "private, no-cache"
"""Clients ask each time: access may be lost."""
NO_STORE = "no-store"
"""For answers with a secret, errors and answers to writes: without an ETag, and not compressed."""


def by_names(
    request: HttpRequest,
    names: tuple[Any, ...],
    answer: Callable[[], Any],
    *,
    check: Callable[[], Any] | None = None,
) -> HttpResponseBase:
    """The record or response that `answer` makes; 304 if the client has it.

    Only for answers that depend on git objects alone: `names` are the full names of all of them.
    The caller has checked access. `check` raises the errors of `answer` without making it, for a
    client that sends `*`: it gets no response, which might hold a git process.
    """
    query = sorted((name, values) for name, values in request.GET.lists())
    text = repr((VERSION, request.path, query, names))
    tag = etag_of(text.encode("utf-8", "backslashreplace"))
    sent = sent_tags(request)
    if not sent.keys() & {tag, "*"}:
        return tagged(answer(), tag)
    if tag not in sent:
        (check or answer)()
    return unchanged(sent.get(tag, tag))


def by_body(request: HttpRequest, response: HttpResponse) -> HttpResponseBase:
    """The response with the ETag of its body, or 304 if the client has it."""
    tag = etag_of(response.content)
    return not_modified(request, tag) or tagged(response, tag)


def etag_of(content: bytes) -> str:
    """A strong validator, RFC 9110 section 8.8.3."""
    return f'"{hashlib.sha256(content).hexdigest()[:40]}"'


def sent_tags(request: HttpRequest) -> dict[str, str]:
    """The tags of If-None-Match without `W/`, each with the form in which it was sent; `*` stands
    for any.
    """
    sent = request.META.get("HTTP_IF_NONE_MATCH")
    return {tag.removeprefix("W/"): tag for tag in parse_etags(sent)} if sent else {}


def not_modified(
    request: HttpRequest, tag: str, headers: Mapping[str, str] = MappingProxyType({})
) -> HttpResponseNotModified | None:
    """304 if If-None-Match matches, else None. Call it only once the resource is known to exist.

    The tag of a 304 is weak if the client's is: caches would not find their answer by another one.
    """
    sent = sent_tags(request)
    return unchanged(sent.get(tag, tag), headers) if sent.keys() & {tag, "*"} else None


def unchanged(
    tag: str, headers: Mapping[str, str] = MappingProxyType({})
) -> HttpResponseNotModified:
    """304 with these headers and those of every answer with a tag."""
    return HttpResponseNotModified(headers={"Cache-Control": CACHE_CONTROL, **headers, "ETag": tag})


def tagged(answer: Any, tag: str) -> HttpResponseBase:
    response = answer if isinstance(answer, HttpResponseBase) else Response(answer)
    response["ETag"], response["Cache-Control"] = tag, CACHE_CONTROL
    return response

"""The base of every resource of the API: the steps of a request, each a class of DRF's kind.

The order is the same everywhere: method 405, another site 403, authentication 401, throttles 429,
the resource of the path 404, access level 403, former slug 301, the objects below it 404, query and
body 400, 413, 415, 422; then the method, which only acts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from time import monotonic
from typing import Any, ClassVar, cast

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import get_resolver
from django.utils.encoding import escape_uri_path
from django.utils.module_loading import import_string
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.core.access import Access, Level, Principal
from apps.core.errors import Forbidden, Moved, Unauthenticated, method_not_allowed
from apps.core.filters import StrictFilterBackend, StrictFilterSet
from apps.core.operation import Operation
from apps.core.pagination import ApiPagination
from apps.core.parsers import body_stream
from apps.core.query import IGNORED, ignored_names, refuse_unknown
from apps.core.requests import set_answer_header
from apps.core.serializers import RequestSerializer, ready, validated
from apps.core.slugs import PREFIX

UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
ANY_HOST = {"0.0.0.0", "::"}  # noqa: S104 - read, not bound
"""All addresses of this machine, to which no link leads."""
SLOW_BODY = 0.5
"""Seconds after which what the caller may do is asked anew, when the body has come."""


def base_url(request: HttpRequest) -> str:
    """Scheme and host of the URLs in answers: `BASE_URL`, else as the request came."""
    return settings.BASE_URL or f"{request.scheme}://{request.get_host()}"


def site_url() -> str:
    """`BASE_URL`, else the address of this server: nothing that a request says.

    For what is sent to others: whoever asks could name a port or a host of their own.
    """
    return settings.BASE_URL or server_url()


def server_url() -> str:
    """The address at which this machine can reach the server, by `HOST` and `PORT`."""
    host = "localhost" if settings.HOST in ANY_HOST else settings.HOST
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.PORT}"


def check_same_site(request: HttpRequest) -> None:
    """403 `cross_site_request` for a change that a browser says another site asks for.

    A browser keeps Basic credentials, and sends them with whatever form any site has. Newer ones
    say `Sec-Fetch-Site` where the connection is safe, all of them `Origin`; programs neither. Who
    sends a bearer token has it from nowhere but the request: no browser adds one by itself.
    """
    bearer = request.headers.get("Authorization", "").lower().startswith("bearer ")
    if request.method not in UNSAFE or bearer:
        return
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is None:
        scheme = "https" if settings.BASE_URL.startswith("https://") else request.scheme
        own = {f"{scheme}://{request.get_host()}", *settings.CSRF_TRUSTED_ORIGINS}
        ours = origin is None or origin in own
    else:
        ours = site in {"same-origin", "none"}
    if not ours:
        raise Forbidden("cross_site_request", "Another site has made your browser send this.")


class ApiViewSet(GenericViewSet[Any]):
    """A resource. Subclasses say where it is (`open`, `load_objects`) and what it does."""

    schema_tags: ClassVar[list[str]] = []
    """Its tags in the OpenAPI document; the first is a rate scope as well."""
    rate_scopes: ClassVar[tuple[str, ...]] = ()
    """Rate scopes that its requests count for, beside those of every request."""
    unlimited_for_staff = False
    """Whether requests of staff count for no rate limit."""
    format_kwarg = None
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    operation: Operation
    principal: Principal
    access: Access
    filterset: StrictFilterSet | None = None
    sent: dict[str, Any]
    """The body as it came."""
    validated_data: dict[str, Any]
    validated_query: dict[str, Any]
    asked_since: dt.datetime | None = None
    """When this very request first came, where it was tried before and nobody got an answer."""

    def open(self) -> Access | None:
        """The caller's access to the team, user's space or repository of the path; 404, 403.

        None for the site itself.
        """
        return None

    def load_objects(self) -> None:
        """Load the objects below the resource that the path names; 404."""

    def check_again(self, kept: Any) -> None:
        """Ask what the operation itself asks of the caller, before a kept answer is given again.

        For what depends on query and body, such as the space that they name; 403, 404. `kept` is
        the body of that answer.
        """
        self.principal.check_may_change()

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        self.http_request = request
        return super().initialize_request(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Take the steps in order. Stock DRF throttles after permissions: guesses would be free."""
        self.operation = self.get_operation()
        check_same_site(self.http_request)
        self.perform_authentication(request)
        self.check_throttles(request)
        self.find(request)
        self.validate(request)

    def find(self, request: Request) -> None:
        """Open the resource of the path, as far as the caller may, and load what is below it."""
        access = self.open()
        if access is not None:
            self.access = access
        self.check_permissions(request)
        if access is not None and access.moved:
            self.redirect_to(access)
        self.load_objects()

    def get_operation(self) -> Operation:
        """The operation that this method and path lead to; 405 where there is none."""
        method = getattr(self, self.action or "", None)
        found = getattr(method, "operation", None)
        if found is None:
            raise method_not_allowed(self.allowed_methods)
        return cast("Operation", found)

    def perform_authentication(self, request: Request) -> None:
        """Find out who calls; 401. A failure is throttled as well, by address, to end guessing."""
        try:
            super().perform_authentication(request)
            if self.operation.level is not Level.PUBLIC and not request.user.is_authenticated:
                raise Unauthenticated(
                    "not_authenticated", "Send an API token: Authorization: Bearer <token>."
                )
        except Unauthenticated:
            request.user = AnonymousUser()  # else DRF would authenticate once more
            self.check_throttles(request)
            raise
        self.principal = cast("Principal", request.auth)

    def redirect_to(self, access: Access) -> None:
        """Send a reader who asked by a former slug to where the resource is today: 301."""
        path = escape_uri_path(self.request.path).removeprefix(PREFIX).split("/")
        rest = path[len(access.api_path.split("/")) :]
        address = "/".join([f"{self.base_url}{PREFIX}{access.api_path}", *rest])
        query = self.request.META.get("QUERY_STRING", "")
        raise Moved(f"{address}?{query}" if query else address)

    def validate(self, request: Request) -> None:
        """Check filters, page, query and body: empty or `{}` where no request serializer is."""
        self.check_parameters(request)
        if self.action == "list":
            self.filterset = StrictFilterBackend().validate(request, self)
            if self.paginator is not None:
                self.paginator.read(request, self.base_url)
        if self.operation.query is not None:
            self.validated_query = ready.of(self.operation.query).read(request)
        if self.is_writing:
            serializer = ready.of(self.operation.request or RequestSerializer)
            began = monotonic()
            self.sent = self.parse_body()
            if monotonic() - began > SLOW_BODY:
                self.ask_again(request)
            self.validated_data = validated(serializer, self.sent)

    def respond(self, answer: Callable[[], HttpResponseBase]) -> HttpResponseBase:
        """The answer of the operation; to a POST with an `Idempotency-Key` the one that it had."""
        key = self.http_request.headers.get("Idempotency-Key")
        if key is None or self.request.method != "POST":
            return answer()
        return answer_once()(self, key, answer)

    def check_parameters(self, request: Request) -> None:
        """Refuse query parameters of a write that it does not know; name those of a read."""
        sent = request.query_params
        if not sent:
            return
        known = self.known_parameters()
        unknown = [name for name in sent if name not in known]
        if unknown and self.is_writing:
            refuse_unknown(unknown, known)
        if names := ignored_names(unknown):
            set_answer_header(self.http_request, IGNORED, names)

    def known_parameters(self) -> list[str]:
        """The query parameters of the operation, in the order in which they are described."""
        query, found = self.operation.query, []
        if self.action == "list":
            filters: type[StrictFilterSet] | None = getattr(self, "filterset_class", None)
            found += [] if filters is None else [*filters.base_filters]
            found += [] if self.paginator is None else self.paginator.names()
        return found if query is None else [*ready.of(query).names(), *found]

    def ask_again(self, request: Request) -> None:
        """Ask once more who calls, and what they may do. 401, and all that `find` refuses.

        A token that has been revoked would otherwise make another one with a request that it had
        begun before, and who was removed from a team change what is protected there.
        """
        now = self.principal.renewed()
        if now is None:
            raise Unauthenticated("invalid_token", "This API token is not valid any more.")
        self.principal = now
        self.find(request)

    def parse_body(self) -> dict[str, Any]:
        """The body as `parser_classes` read it. DRF itself would see no chunked body."""
        parser: Any = self.get_parsers()[0]
        stream, declared = body_stream(self.http_request)
        context = {"required": self.operation.request is not None, "declared": declared}
        body: dict[str, Any] = parser.parse(
            stream, self.http_request.META.get("CONTENT_TYPE", ""), context
        )
        return body

    @property
    def is_writing(self) -> bool:
        return self.request.method in UNSAFE

    @cached_property
    def base_url(self) -> str:
        return base_url(self.http_request)

    @property
    def paginator(self) -> ApiPagination | None:
        """DRF's own property, with the type that ours has."""
        return cast("ApiPagination | None", super().paginator)

    def page_of(self, rows: Any, record: Callable[[Any], dict[str, Any]]) -> Response:
        """The page of these rows that the request asks for, as records."""
        return self.get_paginated_response([record(row) for row in self.paginate(rows)])

    def paginate(self, rows: Any) -> list[Any]:
        """The rows of the page that the request asks for, after its filters."""
        return list(self.paginate_queryset(self.filter_queryset(rows)) or [])


@cache
def answer_once() -> Callable[[ApiViewSet, str, Callable[[], HttpResponseBase]], HttpResponseBase]:
    """What keeps answers: `settings.ANSWER_ONCE`."""
    found: Any = import_string(settings.ANSWER_ONCE)
    return cast("Callable[[ApiViewSet, str, Any], HttpResponseBase]", found)


def schema_tags() -> list[str]:
    """The tags of all routed operations, sorted."""
    return sorted({tag for tag in _schema_tags(get_resolver().url_patterns) if tag})


def _schema_tags(patterns: Iterable[Any]) -> Iterator[str]:
    for pattern in patterns:
        yield from _schema_tags(getattr(pattern, "url_patterns", ()))
        yield from getattr(
            getattr(getattr(pattern, "callback", None), "cls", None), "schema_tags", ()
        )

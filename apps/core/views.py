"""The base class of all viewsets, with the steps of a request.

Their order is always the same: method 405, other site 403, authentication 401, throttles 429, the
resource of the path 404, level of access 403, former slug 301, objects below the resource 404,
query and body 400, 413, 415, 422; then the method of the operation.
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
from apps.core.errors import Forbidden, Invalid, Moved, Unauthenticated, method_not_allowed
from apps.core.filters import StrictFilterBackend, StrictFilterSet
from apps.core.operation import Operation
from apps.core.pagination import ApiPagination
from apps.core.parsers import body_stream
from apps.core.query import IGNORED, ignored_names
from apps.core.requests import set_answer_header
from apps.core.serializers import RequestSerializer, ready, unknown_text, validated
from apps.core.slugs import PREFIX

UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
ANY_HOST = {"0.0.0.0", "::"}  # noqa: S104 - read, not bound
"""Addresses that stand for all of this machine, and are not valid in links."""
SLOW_BODY = 0.5
"""Seconds of receiving a body, after which the caller's access is checked again."""


def base_url(request: HttpRequest) -> str:
    """Scheme and host of URLs in answers: `BASE_URL`, else those of the request."""
    return settings.BASE_URL or f"{request.scheme}://{request.get_host()}"


def site_url() -> str:
    """Scheme and host of URLs for other people: `BASE_URL`, else the address of this server.

    The host of a request is not used: its sender can choose it.
    """
    return settings.BASE_URL or server_url()


def server_url() -> str:
    """The address of the server on this machine, by `HOST` and `PORT`."""
    host = "localhost" if settings.HOST in ANY_HOST else settings.HOST
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.PORT}"


def check_same_site(request: HttpRequest) -> None:
    """403 `cross_site_request` for a change that a browser sends for another site.

    A browser stores Basic credentials and sends them with forms of any site. Newer browsers send
    `Sec-Fetch-Site` over a secure connection, and all send `Origin`; programs send neither. A
    request with a bearer token is accepted: no browser adds one by itself.
    """
    bearer = request.headers.get("Authorization", "").lower().startswith("bearer ")
    if request.method not in UNSAFE or bearer:
        return
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is None:
        scheme = "https" if settings.BASE_URL.startswith("https://") else request.scheme
        origins = {f"{scheme}://{request.get_host()}", *settings.CSRF_TRUSTED_ORIGINS}
        is_same_site = origin is None or origin in origins
    else:
        is_same_site = site in {"same-origin", "none"}
    if not is_same_site:
        raise Forbidden("cross_site_request", "Another site has made your browser send this.")


class ApiViewSet(GenericViewSet[Any]):
    """A resource. Subclasses load it (`open`, `load_objects`) and declare its operations."""

    schema_tags: ClassVar[list[str]] = []
    """Its tags in the OpenAPI document, which are rate scopes as well."""
    rate_scopes: ClassVar[tuple[str, ...]] = ()
    """Rate scopes of its requests, besides those of every request."""
    unlimited_for_staff = False
    """Whether rate limits do not count requests of staff."""
    format_kwarg = None
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    operation: Operation
    principal: Principal
    access: Access
    filterset: StrictFilterSet | None = None
    sent: dict[str, Any]
    """The parsed body, before validation."""
    validated_data: dict[str, Any]
    validated_query: dict[str, Any]
    asked_since: dt.datetime | None = None
    """Time of the first attempt, if this request repeats one that was not answered."""

    def open(self) -> Access | None:
        """The caller's access to the team, user's space or repository of the path; 404, 403.

        None for the site itself.
        """
        return None

    def load_objects(self) -> None:
        """Load the objects below the resource that the path names; 404."""

    def check_again(self, stored: Any) -> None:
        """Repeat the operation's own checks of access before a stored answer is replayed; 403, 404.

        They depend on query and body, such as the space named there. `stored` is the body of the
        answer. The level and the permission of a token were checked before.
        """

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer the request, and release the objects of this view: its body, rows and answer.

        Views, requests and responses of DRF refer to each other. They would stay in memory until
        the garbage collector runs, which counts objects and not bytes.
        """
        try:
            response = super().dispatch(request, *args, **kwargs)
        finally:
            vars(self).clear()
        if isinstance(response, Response):
            response.add_post_render_callback(release_context)
        return response

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        self.http_request = request
        return super().initialize_request(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Run the steps in order. DRF throttles after permissions and would not count guesses."""
        self.operation = self.get_operation()
        check_same_site(self.http_request)
        self.perform_authentication(request)
        self.check_throttles(request)
        self.find(request)
        self.validate(request)

    def find(self, request: Request) -> None:
        """Check access to the resource of the path, and load the objects below it."""
        access = self.open()
        if access is not None:
            self.access = access
        self.check_permissions(request)
        if access is not None and access.moved:
            self.redirect_to(access)
        self.load_objects()

    def get_operation(self) -> Operation:
        """The operation of this method and path; 405 if there is none."""
        method = getattr(self, self.action or "", None)
        operation = getattr(method, "operation", None)
        if operation is None:
            raise method_not_allowed(self.allowed_methods)
        return cast("Operation", operation)

    def perform_authentication(self, request: Request) -> None:
        """Authenticate the caller; 401. Failures are throttled by address, to end guessing."""
        try:
            super().perform_authentication(request)
            if self.operation.level is not Level.PUBLIC and not request.user.is_authenticated:
                raise Unauthenticated(
                    "not_authenticated", "Send an API token: Authorization: Bearer <token>."
                )
        except Unauthenticated:
            request.user = AnonymousUser()  # else DRF would authenticate again
            self.check_throttles(request)
            raise
        self.principal = cast("Principal", request.auth)

    def redirect_to(self, access: Access) -> None:
        """301 to the current address, for a read by a former slug."""
        path = escape_uri_path(self.request.path).removeprefix(PREFIX).split("/")
        rest = path[len(access.api_path.split("/")) :]
        address = "/".join([f"{self.base_url}{PREFIX}{access.api_path}", *rest])
        query = self.request.META.get("QUERY_STRING", "")
        raise Moved(f"{address}?{query}" if query else address)

    def validate(self, request: Request) -> None:
        """Validate filters, page, query and body, which is empty without a request serializer."""
        self.check_parameters(request)
        if self.is_filtered:
            self.filterset = StrictFilterBackend().validate(request, self)
            if self.paginator is not None:
                self.paginator.read(request, self.base_url)
        if self.operation.query is not None:
            self.validated_query = ready.of(self.operation.query).read(request)
        if self.is_writing:
            body = self.operation.request_of(request.method)
            serializer = ready.of(body or RequestSerializer)
            began = monotonic()
            self.sent = self.parse_body()
            if monotonic() - began > SLOW_BODY:
                self.recheck_access(request)
            self.validated_data = validated(serializer, self.sent)

    def respond(self, answer: Callable[[], HttpResponseBase]) -> HttpResponseBase:
        """The answer of the operation; a POST with an `Idempotency-Key` may replay a stored one."""
        key = self.http_request.headers.get("Idempotency-Key")
        if key is None or self.request.method != "POST":
            return answer()
        return answer_once()(self, key, answer)

    def check_parameters(self, request: Request) -> None:
        """Name unknown query parameters of a read in a header; 422 `unknown_parameter` for a write:
        a typo in `expected_head_sha` must not disable it.
        """
        sent = request.query_params
        if not sent:
            return
        known = self.known_parameters()
        unknown = [name for name in sent if name not in known]
        if unknown and self.is_writing:
            text = unknown_text(unknown, known, "query parameters")
            raise Invalid("unknown_parameter", text)
        if names := ignored_names(unknown):
            set_answer_header(self.http_request, IGNORED, names)

    def known_parameters(self) -> list[str]:
        """The query parameters of the operation, in the order of the OpenAPI document."""
        query, names = self.operation.query, []
        if self.is_filtered:
            filters: type[StrictFilterSet] | None = getattr(self, "filterset_class", None)
            names += [] if filters is None else [*filters.base_filters]
            names += [] if self.paginator is None else self.paginator.names()
        return names if query is None else [*ready.of(query).names(), *names]

    def recheck_access(self, request: Request) -> None:
        """Authenticate the caller and check access once more; 401, and refusals of `find`.

        Else a request that began before its token was revoked could create another token, and a
        former member of a team could change its protections.
        """
        principal = self.principal.renewed()
        if principal is None:
            raise Unauthenticated("invalid_token", "This API token is not valid any more.")
        self.principal = principal
        self.find(request)

    def parse_body(self) -> dict[str, Any]:
        """The body, parsed by `parser_classes`. DRF itself would take a chunked body for empty."""
        parser: Any = self.get_parsers()[0]
        stream, declared = body_stream(self.http_request)
        context = {"required": self.operation.request is not None, "declared": declared}
        body: dict[str, Any] = parser.parse(
            stream, self.http_request.META.get("CONTENT_TYPE", ""), context
        )
        return body

    @property
    def is_filtered(self) -> bool:
        """Whether the operation takes filters and a page, as lists do. An export takes filters."""
        return self.action == "list"

    @property
    def is_writing(self) -> bool:
        return self.request.method in UNSAFE

    @cached_property
    def base_url(self) -> str:
        return base_url(self.http_request)

    @property
    def paginator(self) -> ApiPagination | None:
        """DRF's property, with our type."""
        return cast("ApiPagination | None", super().paginator)

    def page_of(self, rows: Any, record: Callable[[Any], dict[str, Any]]) -> Response:
        """The requested page of these rows, as records."""
        return self.get_paginated_response([record(row) for row in self.paginate(rows)])

    def paginate(self, rows: Any) -> list[Any]:
        """The filtered rows of the requested page."""
        return list(self.paginate_queryset(self.filter_queryset(rows)) or [])


def release_context(response: Any) -> None:
    """End the reference of a rendered response of DRF to itself."""
    response.renderer_context = {}


@cache
def answer_once() -> Callable[[ApiViewSet, str, Callable[[], HttpResponseBase]], HttpResponseBase]:
    """The function that stores and replays answers: `settings.ANSWER_ONCE`."""
    function: Any = import_string(settings.ANSWER_ONCE)
    return cast("Callable[[ApiViewSet, str, Any], HttpResponseBase]", function)


def schema_tags() -> list[str]:
    """The tags of all routed operations, sorted."""
    return sorted({*_schema_tags(get_resolver().url_patterns)})


def _schema_tags(patterns: Iterable[Any]) -> Iterator[str]:
    for pattern in patterns:
        yield from _schema_tags(getattr(pattern, "url_patterns", ()))
        viewset = getattr(getattr(pattern, "callback", None), "cls", None)
        yield from getattr(viewset, "schema_tags", ())

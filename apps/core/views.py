"""The door of the API: every request passes the same steps in the same order (behaviour.md §2).

405 → authenticate 401 → charge 429 → place 404 → level 403 → former slug 301 → inner parents and
the row 404 → query and body 400, 413, 415, 422 → the method, which only acts. Core owns the order
and knows no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.http import HttpRequest
from django.urls import get_resolver
from django.utils.module_loading import import_string
from rest_framework.request import Request
from rest_framework.viewsets import ViewSet

from apps.core.access import Level, Place, check_level
from apps.core.errors import Moved, Unauthenticated, plain_error
from apps.core.openapi import PREFIX
from apps.core.operation import Operation
from apps.core.pagination import Sliceable, page_of
from apps.core.parsers import read_json
from apps.core.serializers import Input, parse

if TYPE_CHECKING:
    from apps.accounts.models import User

UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def base_url(request: HttpRequest) -> str:
    """Scheme and host of the URLs in answers: `BASE_URL`, else as the request came."""
    return settings.BASE_URL or f"{request.scheme}://{request.get_host()}"


class ApiViewSet(ViewSet):
    """A resource. Subclasses say where it is (`find_place`, `enter`) and what it does."""

    family = ""
    charged_as: tuple[str, ...] = ()
    """Rate limits that its requests count for, beside those of every request."""
    free_for_staff = False
    """Whether staff passes without being charged."""
    format_kwarg = None
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    place: Place | None
    caller: User
    found_level: Level | None = None
    """The caller's level on the place, where finding it tells that too."""
    level: Level
    input: dict[str, Any]
    params: dict[str, Any]
    moved_to = ""
    """Where the place is today, below the API's prefix, when the path has a former slug of it."""

    def find_place(self) -> Place | None:
        """The team, user or repository of the path; raises 404. None: the site itself."""
        return None

    def enter(self) -> None:
        """Load the inner parents and the row that the path names; raises 404."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        declared = self.declared()
        self.caller = self.authenticate(request, declared.level)
        self.place = self.find_place()
        self.check_access(declared)
        self.follow_move()
        self.enter()
        self.read(request, declared)

    def declared(self) -> Operation:
        """The operation that this method and path lead to; 405 where there is none."""
        method = getattr(self, self.action or "", None)
        found = getattr(method, "operation", None)
        if found is None:
            raise plain_error(405)
        return cast("Operation", found)

    def authenticate(self, request: Request, level: Level) -> User:
        """The caller, charged for this request; 401, 429.

        A failure is charged as well, to the address, so that guessing comes to an end.
        """
        charge = import_string(settings.CHARGE)
        try:
            caller = self.identify(request, level)
        except Unauthenticated:
            charge(self, None)
            raise
        charge(self, caller if request.user.is_authenticated else None)
        return caller

    def identify(self, request: Request, level: Level) -> User:
        """Who is calling; anonymous is refused unless the operation is public."""
        if not request.user.is_authenticated and level is not Level.PUBLIC:
            raise Unauthenticated(
                "not_authenticated", "Send an API token: Authorization: Bearer <token>."
            )
        return cast("User", request.user)

    def check_access(self, declared: Operation) -> None:
        if self.place is not None:
            writing = self.writing and not declared.even_inactive
            self.place.check_open(self.caller, writing=writing)
        self.level = check_level(self.place, self.caller, declared.level, known=self.found_level)

    def follow_move(self) -> None:
        """Send a reader who may read the place on to where it is now."""
        if self.moved_to:
            path = self.request.path.removeprefix(PREFIX).split("/")
            rest = path[len(self.moved_to.split("/")) :]
            address = "/".join([f"{self.base}{PREFIX}{self.moved_to}", *rest])
            query = self.request.META.get("QUERY_STRING", "")
            raise Moved(f"{address}?{query}" if query else address)

    def read(self, request: Request, declared: Operation) -> None:
        """Parse query and body; a method without an input takes nothing, or `{}`."""
        plain: HttpRequest = request._request
        self.params = {query.name: query.value(plain) for query in declared.query}
        if self.writing:
            body = read_json(plain, required=declared.body_required)
            self.input = parse(declared.takes or Input, body)
            if self.place is not None:
                self.place.check_writable()

    @property
    def writing(self) -> bool:
        return self.request.method in UNSAFE

    @cached_property
    def base(self) -> str:
        return base_url(self.request._request)

    def page(self, rows: Sliceable, record: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        """The asked page of `rows`, each made by `record(row, base)`."""
        return page_of(
            rows,
            lambda row: record(row, self.base),
            request=self.request._request,
            base=self.base,
            page=self.params["page"],
            per_page=self.params["per_page"],
        )


def families() -> list[str]:
    """The families of all routed operations, sorted: the tags of the OpenAPI document."""
    return sorted({family for family in _families(get_resolver().url_patterns) if family})


def _families(patterns: Iterable[Any]) -> Iterator[str]:
    for pattern in patterns:
        yield from _families(getattr(pattern, "url_patterns", ()))
        yield getattr(getattr(getattr(pattern, "callback", None), "cls", None), "family", "")

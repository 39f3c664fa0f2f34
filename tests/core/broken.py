"""Routes with views that raise errors, for tests of the answers."""

from __future__ import annotations

from typing import Any

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from apps.core.access import Level
from apps.core.operation import operation
from apps.core.views import ApiViewSet
from config.urls import urlpatterns as addresses


class BrokenViewSet(ApiViewSet):
    """/broken"""

    @operation(Level.PUBLIC)
    def list(self) -> dict[str, Any]:
        """Divide by zero."""
        return {"never": 1 / 0}

    @operation(Level.PUBLIC)
    def create(self) -> None:
        """Raise the error of a locked database."""
        raise OperationalError("database is locked: secret-of-the-house")

    @operation(Level.PUBLIC)
    def update(self) -> dict[str, Any]:
        """Return a value that JSON cannot represent."""
        return {"never": object()}

    def destroy(self, *_: Any, **__: Any) -> None:
        """A method without an operation."""


def plain(request: HttpRequest) -> HttpResponse:
    """A refusal of Django."""
    return HttpResponseForbidden("<h1>No</h1>")


@csrf_exempt
def telltale(request: HttpRequest, word: str) -> HttpResponse:
    """Raise an error that quotes everything, with everything in its variables."""
    meta, body = {name: str(value) for name, value in request.META.items()}, request.body
    raise ValueError(f"{meta} {body!r} {request.COOKIES} {request.GET} {word}")


ROUTES: Any = {"get": "list", "post": "create", "put": "update", "delete": "destroy"}
urlpatterns = [
    path("api/v1/broken", BrokenViewSet.as_view(ROUTES)),
    path("api/v1/plain", plain),
    path("api/v1/telltale/<word>", telltale),
    *addresses,
]

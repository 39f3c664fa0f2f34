"""git over HTTP: clone, fetch and push at `/{owner}/{repo}.git`.

Refusals come in the order of the API: 401 → 429 → 404 → 403. They are plain text, which git
prints behind `remote:`. Bodies stream both ways; nothing is held whole but a fetch's request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from apps.accounts.auth import credentials_of, usable_token
from apps.accounts.models import User
from apps.core.access import Level, check_level
from apps.core.errors import (
    ApiError,
    Forbidden,
    Moved,
    Unauthenticated,
    UnsupportedMediaType,
    as_api_error,
    plain_error,
)
from apps.core.locks import give_back_connection
from apps.core.views import base_url
from apps.git.protocol import Service, advertisement
from apps.repos.doors import find_repo, has_moved
from apps.repos.http import push, streams
from apps.repos.models import Repo
from apps.site.limits import charge_git

FETCH_LIMIT = 16 * 1024 * 1024
"""Bytes of a fetch's request: what the client has and wants, not objects."""
SERVICES = {f"git-{service}": service for service in Service}

View = Callable[..., HttpResponseBase]


def git_view(method: str) -> Callable[[View], View]:
    """Answer this method only, and every refusal in the form that git prints."""

    def wrap(view: View) -> View:
        @csrf_exempt
        @wraps(view)
        def answer(request: HttpRequest, **names: Any) -> HttpResponseBase:
            try:
                if request.method != method:
                    raise plain_error(405)
                return view(request, names)
            except Exception as exception:
                error = as_api_error(exception)
                if error is None:
                    raise
                return refusal(error)

        return answer

    return wrap


def refusal(error: ApiError) -> HttpResponse:
    """An error as git shows it; 401 asks for Basic only, which is all that git speaks."""
    headers = dict(error.headers)
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="Guildhall"'
    text = f"{error.detail}\n"
    return HttpResponse(text, status=error.status, content_type="text/plain", headers=headers)


@git_view("GET")
def info_refs(request: HttpRequest, names: dict[str, Any]) -> HttpResponseBase:
    """`info/refs?service=…`: what the repository has, before a fetch or a push."""
    service = SERVICES.get(request.GET.get("service", ""))
    if service is None:
        raise Forbidden("forbidden", "Only git's smart protocol is served here. Update git.")
    _, repo = enter(request, names, service)
    start = partial(repo.git.serve, service, advertise=True, protocol=protocol_of(request))
    kind = f"application/x-git-{service}-advertisement"
    return streams.answer(request, start, kind, first=advertisement(service))


@git_view("POST")
def upload_pack(request: HttpRequest, names: dict[str, Any]) -> HttpResponseBase:
    """A clone or fetch: a small request, an answer of any size."""
    _, repo = enter(request, names, Service.UPLOAD_PACK)
    check_content_type(request, Service.UPLOAD_PACK)
    wanted = streams.whole_body(request, FETCH_LIMIT)
    start = partial(repo.git.serve, Service.UPLOAD_PACK, protocol=protocol_of(request))
    fed = streams.fed_aside(start, wanted)
    return streams.answer(request, fed, "application/x-git-upload-pack-result")


@git_view("POST")
def receive_pack(request: HttpRequest, names: dict[str, Any]) -> HttpResponseBase:
    """A push: a request of any size, and a small answer once rows and events are written."""
    caller, repo = enter(request, names, Service.RECEIVE_PACK)
    check_content_type(request, Service.RECEIVE_PACK)
    report = push.receive(actor=caller, repo=repo, body=streams.pieces(request))
    return HttpResponse(
        report,
        content_type="application/x-git-receive-pack-result",
        headers={"Cache-Control": "no-cache"},
    )


def enter(request: HttpRequest, names: dict[str, Any], service: Service) -> tuple[User, Repo]:
    """The caller and the repository, if that person may do this there.

    Over git any username goes: the token decides. Anonymous people may fetch
    what is public; for anything else they are asked to sign in, whether it exists or not. Then
    the database connection is given back: what follows may take minutes.
    """
    caller = caller_of(request)
    repo, level = find(names, caller)
    writing = service is Service.RECEIVE_PACK
    needed = Level.WRITE if writing else Level.READ
    if caller.is_anonymous and level < needed:
        raise Unauthenticated("not_authenticated", "Sign in with an API token as the password.")
    if caller.is_anonymous:
        charge_git(request, None)
    if repo is None:
        raise plain_error(404)
    repo.check_open(caller, writing=writing)
    check_level(repo, caller, needed, known=level)
    if request.method == "GET" and has_moved(repo, names):
        raise Moved(f"{base_url(request)}/{repo.path}.git/info/refs?service=git-{service}")
    if writing:
        repo.check_writable()
    give_back_connection()
    return caller, repo


def find(names: dict[str, Any], caller: Any) -> tuple[Repo | None, Level]:
    """The repository of the path, also by a former slug, and the caller's level on it.

    git follows the move of the GET that begins each exchange, but none of a POST: those are
    answered where they arrive, so that a rename cuts no push or fetch that is under way.
    """
    try:
        return find_repo(names, caller, former=True)
    except Http404:
        return None, Level.NONE


def caller_of(request: HttpRequest) -> Any:
    """Who the token stands for, charged for this request; anonymous without one. 401, 429.

    A token that is not valid is charged to the address. That git asks without one first is not
    charged here: it does so whenever it signs in.
    """
    try:
        credentials = credentials_of(request)
        if credentials is None:
            return AnonymousUser()
        caller = usable_token(credentials[1]).user
    except Unauthenticated:
        charge_git(request, None)
        raise
    charge_git(request, caller)
    return caller


def check_content_type(request: HttpRequest, service: Service) -> None:
    expected = f"application/x-git-{service}-request"
    if request.META.get("CONTENT_TYPE") != expected:
        raise UnsupportedMediaType("unsupported_media_type", f"Expected {expected}.")


def protocol_of(request: HttpRequest) -> str | None:
    """The `Git-Protocol` header, which asks for version 2."""
    return request.META.get("HTTP_GIT_PROTOCOL")

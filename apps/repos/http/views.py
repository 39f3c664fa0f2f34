"""git over HTTP: clone, fetch and push at `/{owner}/{repo}.git`.

Errors have the order of the API: 403 for another site → 401 → 429 → 404 → 403, and last 429 while
too many git requests are under way (transfer_slots.py). They are plain text, which git prints
behind `remote:`. Bodies are streamed both ways; only a fetch's request is held in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from apps.accounts.authentication import credentials_of, principal_of
from apps.accounts.principal import ANONYMOUS, Principal
from apps.core.access import Level
from apps.core.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Moved,
    Unauthenticated,
    UnsupportedMediaType,
    as_api_error,
    plain_error,
)
from apps.core.locks import give_back_connection
from apps.core.middleware import add_headers
from apps.core.views import base_url, check_same_site
from apps.git.protocol import ProtocolError, Service, advertisement, check_fetch
from apps.repos.access import RepoAccess, open_repo, owner_path
from apps.repos.http import push, streams
from apps.repos.http.transfer_slots import caller_of, transfer_slot
from apps.site import limits

FETCH_LIMIT = 16 * 1024 * 1024
"""Most bytes of a fetch request. It names the objects that the client has and wants."""
SERVICES = {f"git-{service}": service for service in Service}

logger = logging.getLogger(__name__)

View = Callable[..., HttpResponseBase]


def git_view(method: str) -> Callable[[View], View]:
    """Accept only this method, answer errors as the plain text that git prints, and add the rate
    limit headers of the API.

    The view gets an `ExitStack` for contexts that end with the request, such as its slot.
    """

    def wrap(view: View) -> View:
        @csrf_exempt
        @wraps(view)
        def answer(request: HttpRequest, **names: Any) -> HttpResponseBase:
            try:
                if request.method != method:
                    raise plain_error(405)
                check_same_site(request)
                with ExitStack() as held:
                    response = view(request, names, held)
            except Exception as exception:
                error = as_api_error(exception)
                if error is None:
                    raise
                response = refusal(error)
            add_headers(request, response)
            return response

        return answer

    return wrap


def refusal(error: ApiError) -> HttpResponse:
    """An error as plain text. A 401 asks for Basic only, because git supports nothing else."""
    headers = dict(error.headers)
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="Guildhall"'
    text = f"{error.detail}\n"
    return HttpResponse(text, status=error.status, content_type="text/plain", headers=headers)


@git_view("GET")
def info_refs(request: HttpRequest, names: dict[str, Any], held: ExitStack) -> HttpResponseBase:
    """`info/refs?service=…`: the refs of the repository, before a fetch or a push."""
    service = SERVICES.get(request.GET.get("service", ""))
    if service is None:
        raise Forbidden("forbidden", "Only git's smart protocol is supported here. Update git.")
    repo = open_for(request, names, service, held).repo
    protocol = request.headers.get("Git-Protocol", "")
    start = partial(repo.git.serve, service, advertise=True, protocol=protocol)
    kind = f"application/x-git-{service}-advertisement"
    return streams.answer(request, start, kind, first=advertisement(service), held=held)


@git_view("POST")
def upload_pack(request: HttpRequest, names: dict[str, Any], held: ExitStack) -> HttpResponseBase:
    """A clone or fetch: a small request, an answer of any size."""
    access = open_for(request, names, Service.UPLOAD_PACK, held)
    check_content_type(request, Service.UPLOAD_PACK)
    caller = caller_of(request, access.principal)
    fetch = streams.collected(streams.pieces(request), FETCH_LIMIT, held, caller)
    check_cost(fetch)
    protocol = request.headers.get("Git-Protocol", "")
    start = partial(access.repo.git.serve, Service.UPLOAD_PACK, protocol=protocol)
    feeding = streams.feeding(start, fetch)
    return streams.answer(request, feeding, "application/x-git-upload-pack-result", held=held)


@git_view("POST")
def receive_pack(request: HttpRequest, names: dict[str, Any], held: ExitStack) -> HttpResponseBase:
    """A push: a request of any size, and a small answer once rows and events are written."""
    access = open_for(request, names, Service.RECEIVE_PACK, held)
    check_content_type(request, Service.RECEIVE_PACK)
    pieces = streams.pieces(request)
    return streams.PushAnswer(push.receive(by=access, body=pieces), pieces, held)


@contextmanager
def refusal_logged(path: str, principal: Principal) -> Iterator[None]:
    """Log the refusal of a whole push, but not of an anonymous one: git always asks once without a
    token before it sends the token.
    """
    try:
        yield
    except (ApiError, Http404) as error:
        if principal.person is not None and not isinstance(error, Moved):
            reason = f"{error.status} {error.code}" if isinstance(error, ApiError) else "not found"
            logger.info("Refused push to %s by %s: %s", path, principal.user, reason)
        raise


def open_for(
    request: HttpRequest, names: dict[str, Any], service: Service, held: ExitStack
) -> RepoAccess:
    """Check the caller's access to the repository and take a slot.

    git may send any username: the token decides. Anonymous callers may fetch public repositories;
    for all other paths they get 401, whether the repository exists or not. The database connection
    is given back, because the transfer may take minutes.
    """
    principal = principal_in(request)
    writing = service is Service.RECEIVE_PACK
    needs = Level.WRITE if writing else Level.READ
    owner, slug = owner_path(names), names["repo_slug"]
    if writing:
        held.enter_context(refusal_logged(f"{owner}/{slug}", principal))
    try:
        access = open_repo(principal, owner, slug, needs=needs, writing=writing, former=True)
    except (Http404, Forbidden):
        if principal.person is None:
            raise Unauthenticated(
                "not_authenticated", "Sign in with an API token as the password."
            ) from None
        raise
    if principal.person is None:
        limits.throttle_git(request, None)
    repo = access.repo
    # git follows a redirect of the GET that begins each exchange, but none of a POST. A POST to a
    # former path is served, so that a rename interrupts no push or fetch.
    if request.method == "GET" and access.moved:
        raise Moved(f"{base_url(request)}/{repo.path}.git/info/refs?service=git-{service}")
    if writing:
        access.require_change(needs)
    give_back_connection()
    held.enter_context(transfer_slot(request, principal))
    return access


def principal_in(request: HttpRequest) -> Principal:
    """The principal of the request, after counting it for the rate limits. 401, 429.

    A request with an invalid token is counted for the address. A request without one is not counted
    here, because git always sends one before it signs in.
    """
    try:
        credentials = credentials_of(request.META)
        principal = principal_of(credentials[1]) if credentials else ANONYMOUS
    except Unauthenticated:
        limits.throttle_git(request, None)
        raise
    if principal.person is not None:
        limits.throttle_git(request, principal.user)
    return principal


def check_cost(fetch: bytes) -> None:
    """400 for a fetch request that git would take too long to parse."""
    try:
        check_fetch(fetch)
    except ProtocolError as error:
        raise BadRequest("malformed_request", f"{error}.") from None


def check_content_type(request: HttpRequest, service: Service) -> None:
    expected = f"application/x-git-{service}-request"
    if request.META.get("CONTENT_TYPE") != expected:
        raise UnsupportedMediaType("unsupported_media_type", f"Expected {expected}.")

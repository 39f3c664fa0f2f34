"""git over HTTP: clone, fetch and push at `/{owner}/{repo}.git`.

Errors have the order of the API, and last 429 while too many git requests are under way. They are
plain text, which git prints behind `remote:`. git prints no text of a failed POST: callers with a
token get a 429 as a report or an `ERR` packet, with status 200. Bodies are streamed both ways.
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
    TooMany,
    Unauthenticated,
    UnsupportedMediaType,
    as_api_error,
    plain_error,
)
from apps.core.locks import give_back_connection
from apps.core.middleware import add_headers
from apps.core.request_ids import with_request_id
from apps.core.views import base_url, check_same_site
from apps.git.protocol import (
    ProtocolError,
    Service,
    advertisement,
    check_fetch,
    error_packet,
)
from apps.repos.access import RepoAccess, open_repo, owner_path
from apps.repos.http import push, streams
from apps.repos.http.transfer_slots import caller_of, transfer_slot
from apps.site import limits
from apps.site.models import DailyCount

FETCH_LIMIT = 16 * 1024 * 1024
"""Most bytes of a fetch request. It names the objects that the client has and wants."""
SMALL_PUSH = 1024 * 1024
"""Most bytes that git sends in one piece (`http.postBuffer`)."""
RESULT = "application/x-git-{}-result"
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
                    logger.error("Defect at %s", request.path, exc_info=exception)
                    DailyCount.add("server_errors")
                    error = plain_error(500)
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
    text = error.detail if error.status < 500 else with_request_id(error.detail)
    return HttpResponse(
        f"{text}\n", status=error.status, content_type="text/plain", headers=headers
    )


@git_view("GET")
def info_refs(request: HttpRequest, names: dict[str, Any], held: ExitStack) -> HttpResponseBase:
    """`info/refs?service=…`: the refs of the repository, before a fetch or a push."""
    service = SERVICES.get(request.GET.get("service", ""))
    if service is None:
        raise Forbidden("forbidden", "Only git's smart protocol is supported here. Update git.")
    repo = open_for(request, principal_in(request), names, service, held).repo
    protocol = request.headers.get("Git-Protocol", "")
    start = partial(repo.git.serve, service, advertise=True, protocol=protocol)
    kind = f"application/x-git-{service}-advertisement"
    return streams.answer(start, kind, first=advertisement(service), held=held)


@git_view("POST")
def upload_pack(request: HttpRequest, names: dict[str, Any], held: ExitStack) -> HttpResponseBase:
    """A clone or fetch: a small request, an answer of any size."""
    principal = principal_in(request)
    try:
        access = open_for(request, principal, names, Service.UPLOAD_PACK, held)
    except TooMany as error:
        if principal.person is None:
            raise
        return HttpResponse(error_packet(error.detail), content_type=RESULT.format("upload-pack"))
    check_content_type(request, Service.UPLOAD_PACK)
    caller = caller_of(request, access.principal)
    fetch = streams.collected(streams.pieces(request), FETCH_LIMIT, held, caller)
    try:
        check_fetch(fetch)
    except ProtocolError as error:
        raise BadRequest("malformed_request", f"{error}.") from None
    protocol = request.headers.get("Git-Protocol", "")
    start = partial(access.repo.git.serve, Service.UPLOAD_PACK, protocol=protocol)
    feeding = streams.feeding(start, fetch)
    return streams.answer(feeding, RESULT.format("upload-pack"), held=held)


@git_view("POST")
def receive_pack(request: HttpRequest, names: dict[str, Any], held: ExitStack) -> HttpResponseBase:
    """A push: a request of any size, and a small answer once rows and events are written."""
    principal = principal_in(request)
    try:
        access = open_for(request, principal, names, Service.RECEIVE_PACK, held)
    except TooMany as error:
        if principal.person is None:
            raise
        answer = refused_push(request, principal, error, held)
        log_refusal(f"{owner_path(names)}/{names['repo_slug']}", principal, error)
        return answer
    check_content_type(request, Service.RECEIVE_PACK)
    pieces = streams.pieces(request)
    return streams.PushAnswer(push.receive(access=access, body=pieces), pieces, held)


def refused_push(
    request: HttpRequest, principal: Principal, error: TooMany, held: ExitStack
) -> HttpResponseBase:
    """The report that refuses each ref of a push, because of `error`.

    The client reads it once it has sent everything. A push for which no slot is free either is
    answered so only if it is small: it would hold one of the server's threads.
    """
    check_content_type(request, Service.RECEIVE_PACK)
    pieces = streams.pieces(request)
    caller = caller_of(request, principal)
    try:
        held.enter_context(transfer_slot(request, principal))
    except TooMany:
        if not 0 < int(request.META.get("CONTENT_LENGTH") or 0) <= SMALL_PUSH:
            raise error from None
        pieces = iter([streams.collected(pieces, SMALL_PUSH, held, caller)])
    report = push.refuse_all(pieces, error, caller)
    return streams.PushAnswer(report, pieces, held)


def log_refusal(path: str, principal: Principal, error: ApiError | Http404) -> None:
    reason = f"{error.status} {error.code}" if isinstance(error, ApiError) else "not found"
    logger.info("Refused push to %s by %s: %s", path, principal.person, reason)


@contextmanager
def refusal_logged(path: str, principal: Principal) -> Iterator[None]:
    """Log the refusal of a push, but not of an anonymous one: git first asks without a token."""
    try:
        yield
    except (ApiError, Http404) as error:
        if principal.person is not None and not isinstance(error, Moved):
            log_refusal(path, principal, error)
            if not isinstance(error, TooMany):  # rate limits keep clients from the database
                DailyCount.add("refused_pushes")
        raise


def open_for(
    request: HttpRequest,
    principal: Principal,
    names: dict[str, Any],
    service: Service,
    held: ExitStack,
) -> RepoAccess:
    """Check the caller's access to the repository and take a slot.

    Any username will do: the token decides. Anonymous callers may fetch public repositories; for
    all other paths they get 401, which is not counted, because git always begins without a token.
    The database connection is given back, because the transfer may take minutes.
    """
    writing = service is Service.RECEIVE_PACK
    needs = Level.WRITE if writing else Level.READ
    owner, slug = owner_path(names), names["repo_slug"]
    if writing:
        held.enter_context(refusal_logged(f"{owner}/{slug}", principal))
    if principal.person is not None:
        limits.throttle_git(request, principal.user)
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
    """The principal, `ANONYMOUS` without a token. 401, which counts for the address, 429."""
    try:
        credentials = credentials_of(request.META)
        return principal_of(credentials[1]) if credentials else ANONYMOUS
    except Unauthenticated:
        limits.throttle_git(request, None)
        raise


def check_content_type(request: HttpRequest, service: Service) -> None:
    expected = f"application/x-git-{service}-request"
    if request.META.get("CONTENT_TYPE") != expected:
        raise UnsupportedMediaType("unsupported_media_type", f"Expected {expected}.")

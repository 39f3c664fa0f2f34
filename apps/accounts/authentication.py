"""The principal of a request, from an API token (bearer or basic authentication) or a session."""

from __future__ import annotations

import base64
import datetime as dt
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NoReturn, cast

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user
from django.db.models import F, Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject
from drf_spectacular.drainage import set_override
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from apps.accounts.models import ApiToken, User, digest
from apps.accounts.principal import ANONYMOUS, Principal, inactive_user
from apps.core.access import Level, Permission
from apps.core.errors import Unauthenticated
from apps.core.middleware import Next
from apps.core.request_ids import UsedToken, note_person
from apps.core.requests import SiteRequest
from apps.core.statements import Parameter, Statement

WAYS = "Send an API token as Authorization: Bearer <token>, or as the password of Basic."
BY_DIGEST = Statement(
    lambda: (
        ApiToken.objects.filter(
            Q(digest=Parameter("digest")) | Q(former_digest=Parameter("digest"))
        )
        .select_related("user")
        .annotate(repo_id=F("repos"))
    )
)
"""A token with its user, once for each of its repositories, and once if it has none."""
HOLDER = Statement(lambda: ApiToken.objects.filter(pk=Parameter("pk")).select_related("user"))


class TokenAuthentication(BaseAuthentication):
    """Sets `request.auth` to the principal. The username of basic is empty or the token owner's."""

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:
        credentials = credentials_of(request.META)
        if credentials is None:
            return None
        username, text = credentials
        principal = principal_of(text, username)
        return principal.user, principal

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="Guildhall", Basic realm="Guildhall"'


class SameOriginSession(BaseAuthentication):
    """Authenticates reads by the session of the pages, because an `<img>` cannot send a token.

    The browser must say that a page of this site makes the request. Otherwise another site could
    find out what a person may read.
    """

    def is_ours(self, request: Request) -> bool:
        """Whether a page of this site sends a read."""
        ours = request.headers.get("Sec-Fetch-Site") == "same-origin"
        return ours and request.method in {"GET", "HEAD"}

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:
        if not self.is_ours(request):
            return None
        principal = principal_of_session(cast("HttpRequest", request))
        return (principal.user, principal) if principal.is_signed_in else None


@dataclass(frozen=True)
class SentToken:
    """A token, and the digest of the text that was sent: the present or the former one."""

    token: ApiToken
    digest: str

    @property
    def expires_at(self) -> dt.datetime | None:
        return self.token.ends_at(self.digest)

    def holder(self) -> User | None:
        """Its owner, read from the database; None if the text or the account is not usable."""
        token: ApiToken | None = HOLDER.first(pk=self.token.pk)
        if token is None or not token.accepts(self.digest) or not token.user.is_active:
            return None
        return token.user


@dataclass(frozen=True)
class Session:
    """The session of a browser with an open live stream. The stream ends with the session."""

    key: str
    expires_at: dt.datetime | None = None
    """Not known: each day of use prolongs it."""

    def holder(self) -> User | None:
        """The person who is signed in; None if the session is no longer valid for pages."""
        session = import_module(settings.SESSION_ENGINE).SessionStore(self.key).load()
        person = User.objects.filter(pk=session.get(SESSION_KEY), is_active=True).first()
        if person is None:
            return None
        stored_hash = session.get(HASH_SESSION_KEY, "")
        is_valid = constant_time_compare(stored_hash, person.get_session_auth_hash())
        return person if is_valid else None


class StreamSession(SameOriginSession):
    """Authenticates the live stream of an open page. The stream ends with the session.

    Over plain HTTP browsers send no `Sec-Fetch-Site`, but `Origin` if another site makes the
    request.
    """

    def is_ours(self, request: Request) -> bool:
        if request.method != "GET":
            return False
        has_origin = {"Sec-Fetch-Site", "Origin"} & set(request.headers)
        return not has_origin or super().is_ours(request)

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:
        authenticated = super().authenticate(request)
        if authenticated is None:
            return None
        user, principal = authenticated
        return user, replace(principal, credential=Session(str(request.session.session_key)))


# ignored: drf-spectacular registers a subclass in an __init_subclass__() without types
class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes `TokenAuthentication` in the OpenAPI document, where drf-spectacular finds it."""

    target_class = TokenAuthentication
    name = ["bearer", "basic"]

    def get_security_requirement(self, auto_schema: Any) -> Any:
        public = auto_schema.operation.level is Level.PUBLIC
        return None if public else [{"bearer": []}, {"basic": []}]

    def get_security_definition(self, auto_schema: Any) -> Any:
        basic = "Empty username, the API token as the password."
        return [
            {"type": "http", "scheme": "bearer"},
            {"type": "http", "scheme": "basic", "description": basic},
        ]


# ignored: as above
class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes `SameOriginSession`, for the operations that accept it besides a token."""

    target_class = SameOriginSession
    match_subclasses = True
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> Any:
        text = "The session of a person who is signed in. Only pages of this site may use it."
        name = settings.SESSION_COOKIE_NAME
        return {"type": "apiKey", "in": "cookie", "name": name, "description": text}


# One scheme for both: drf-spectacular would warn that two classes have its name.
set_override(StreamSession, "suppress_collision_warning", True)


def principal_of_session(request: HttpRequest) -> Principal:
    """The principal who is signed in to the pages."""
    user = get_user(request)
    if not isinstance(user, User):
        return ANONYMOUS
    note_person(user.username)
    return Principal(user)


def credentials_of(meta: dict[str, Any]) -> tuple[str, str] | None:
    """`(username, token text)` of the Authorization header; None without one, 401 if invalid."""
    header = meta.get("HTTP_AUTHORIZATION", "")
    if not header:
        return None
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return "", value.strip()
    if scheme.lower() != "basic":
        raise Unauthenticated("invalid_token", WAYS)
    try:
        decoded = base64.b64decode(value.strip(), validate=True).decode()
    except ValueError:  # neither base64 nor ASCII, or not UTF-8
        refuse()
    username, colon, text = decoded.partition(":")
    return (username, text) if colon else refuse()


def principal_of(text: str, username: str = "") -> Principal:
    """The principal of the token with this text. All invalid tokens get the same 401.

    `username` is empty or the owner's. Only a successful call counts as use of the token.
    """
    token, sent = token_of(text), digest(text)
    if token is None or not token.accepts(sent):
        refuse()
    if username and username.lower() != token.user.username_key:
        refuse()
    if not token.user.is_active:
        raise inactive_user()
    token.touch()
    note_person(token.user.username, UsedToken(token.uuid, token.name))
    permission = Permission(token.permission)
    return Principal(token.user, SentToken(token, sent), permission, token.repo_ids)


def token_of(text: str) -> ApiToken | None:
    """The token with this text, present or former, with its user and `repo_ids`; one query."""
    rows = BY_DIGEST.all(digest=digest(text))
    if not rows:
        return None
    token: ApiToken = rows[0]
    repo_ids = frozenset(row.repo_id for row in rows if row.repo_id is not None)
    token.repo_ids = repo_ids if token.is_limited else None
    return token


def refuse() -> NoReturn:
    """401. It does not tell whether the token is unknown, expired or revoked."""
    raise Unauthenticated("invalid_token", "This API token is not valid.")


def session_principal(get_response: Next) -> Next:
    """Middleware that sets `request.principal` of pages and admin, lazily, from the session.

    Its person is a `User`. Django's `request.user` is a lazy object, which actions cannot lock.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        principal = SimpleLazyObject(lambda: principal_of_session(request))
        cast("SiteRequest", request).principal = cast("Principal", principal)
        return get_response(request)

    return answer

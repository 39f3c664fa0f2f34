"""Who is calling: bearer and basic authentication, both with an API token; and the session of who
is signed in, where a page of this site asks.
"""

from __future__ import annotations

import base64
import datetime as dt
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NoReturn, cast

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from drf_spectacular.drainage import set_override
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from apps.accounts.models import ApiToken, User, digest
from apps.accounts.principal import ANONYMOUS, Principal, inactive_user
from apps.core.access import Level
from apps.core.errors import Unauthenticated
from apps.core.statements import Parameter, Statement

WAYS = "Send an API token as Authorization: Bearer <token>, or as the password of Basic."
BY_DIGEST = Statement(
    lambda: ApiToken.objects.filter(digest=Parameter("digest")).select_related("user")
)


class TokenAuthentication(BaseAuthentication):
    """`request.auth` is the principal. Basic takes an empty username or the token owner's."""

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
    """The session of who is signed in, for what pages of this site show: a browser's `<img>` can
    send no token. Only for reading, and only where the browser says that a page of this very site
    asks: no other site learns by it what somebody may read.
    """

    def is_ours(self, request: Request) -> bool:
        """Whether a page of this site reads something."""
        ours = request.headers.get("Sec-Fetch-Site") == "same-origin"
        return ours and request.method in {"GET", "HEAD"}

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:
        if not self.is_ours(request):
            return None
        principal = principal_of_session(cast("HttpRequest", request))
        return (principal.user, principal) if principal.is_signed_in else None


@dataclass(frozen=True)
class Session:
    """The session of a browser that follows the live stream: the stream ends with it."""

    key: str
    expires_at: dt.datetime | None = None
    """Not known: each day on which it is used prolongs it."""

    def holder(self) -> User | None:
        """Who is signed in by it; None when it has ended, by whatever also ends it for pages."""
        session = import_module(settings.SESSION_ENGINE).SessionStore(self.key).load()
        person = User.objects.filter(pk=session.get(SESSION_KEY), is_active=True).first()
        if person is None:
            return None
        began_with = session.get(HASH_SESSION_KEY, "")
        same = constant_time_compare(began_with, person.get_session_auth_hash())
        return person if same else None


class StreamSession(SameOriginSession):
    """The same for the live stream of a page that is open, which ends when the session does.

    Over plain HTTP browsers send no `Sec-Fetch-Site`: there they say which other site asks.
    """

    def is_ours(self, request: Request) -> bool:
        if request.method != "GET":
            return False
        unsaid = not {"Sec-Fetch-Site", "Origin"} & set(request.headers)
        return unsaid or super().is_ours(request)

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:
        found = super().authenticate(request)
        if found is None:
            return None
        user, principal = found
        return user, replace(principal, credential=Session(str(request.session.session_key)))


# ignored: drf-spectacular registers a subclass in an __init_subclass__() without types
class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes it: bearer or basic, either of which will do. drf-spectacular finds this itself."""

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
# drf-spectacular writes no types at the hooks that run when its classes are derived from.
class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes it, for the operations that take it beside a token."""

    target_class = SameOriginSession
    match_subclasses = True
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> Any:
        text = "Of who is signed in to the pages; for requests of the pages of this site alone."
        name = settings.SESSION_COOKIE_NAME
        return {"type": "apiKey", "in": "cookie", "name": name, "description": text}


# One scheme for both: drf-spectacular would warn that two classes have its name.
set_override(StreamSession, "suppress_collision_warning", True)


def principal_of_session(request: HttpRequest) -> Principal:
    """Who is signed in to the pages."""
    user = get_user(request)
    return Principal(user) if isinstance(user, User) else ANONYMOUS


def credentials_of(meta: dict[str, Any]) -> tuple[str, str] | None:
    """`(username, token text)` of the Authorization header; None without one, 401 for a bad one."""
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
    except ValueError:  # no base64, text beyond ASCII, no UTF-8
        refuse()
    username, colon, text = decoded.partition(":")
    return (username, text) if colon else refuse()


def principal_of(text: str, username: str = "") -> Principal:
    """The principal of the token with this text; 401, the same for every text that is none.

    `username`, where one is given, has to be its owner's. Only a call that passes counts as a use.
    """
    token = token_of(text)
    if token is None or not token.is_usable:
        refuse()
    if username and username.lower() != token.user.username_key:
        refuse()
    if not token.user.is_active:
        raise inactive_user()
    token.touch()
    return Principal(token.user, token)


def token_of(text: str) -> ApiToken | None:
    """The token with this text, and its person with it."""
    token: ApiToken | None = BY_DIGEST.first(digest=digest(text))
    return token


def refuse() -> NoReturn:
    """Unknown, expired and revoked are one answer, so that nobody learns which it was."""
    raise Unauthenticated("invalid_token", "This API token is not valid.")

"""The responses of pages: a template, a redirect after a POST, or an error page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from apps.accounts.models import Deletion, Theme, User
from apps.accounts.principal import Principal
from apps.core.errors import ApiError, plain_error
from apps.core.pagination import Sliceable, count_parameter, slice_page, with_parameters
from apps.core.requests import SiteRequest
from apps.site.kinds import RateScope
from apps.site.limits import BY_ADDRESS

PAGE_SIZE = 50
"""Items per page of a list."""
WITHOUT_DATABASE = (500, 503)
"""Errors that a failing database may cause: their pages make no query."""
TITLES = {
    400: "We could not read that request",
    401: "You are signed out",
    403: "You do not have access",
    404: "Page not found",
    405: "Not allowed here",
    409: "Something has changed",
    413: "Too large",
    422: "Check what you entered",
    429: "Too many attempts",
}
TEXTS = {
    400: "We could not read that request. Go back, reload the page, and try again.",
    404: "The address may be mistyped, or the page may have been removed.",
    413: "The request is larger than this page accepts.",
}
TOO_MANY_REQUESTS = "You have sent too many requests in a short time. This one was not processed."
TOO_MANY_PAGES = (
    "Too many pages were requested from your address in a short time. Sign in to continue now."
)
TOO_MANY_FROM_ADDRESS = "Too many attempts came from your address in a short time."
GONE = (403, 404, 409)
"""Errors of a form whose resource or access has changed while somebody was writing."""
ORIGIN_ONLY = "strict-origin"
"""The Referrer-Policy of pages with a secret."""
NOT_TYPED = {"csrfmiddlewaretoken", "next", "invite", "token", "password", "again", "current"}
NOT_TYPED |= {"code", "credential"}
"""Fields that `typed_values` leaves out: tokens, links and passwords."""
HIDDEN_FIELDS = {"expected_head_sha", "expected_target_branch", "preview"}
"""Fields that a redisplayed form must send again, but that nobody has typed."""
INITIAL_PREFIX = "initial-"
"""The prefix of the hidden inputs in which Django sends a form's initial values."""
THEME = "theme"
"""The cookie with the theme of a browser in which nobody is signed in."""


class PageRequest(SiteRequest):
    user: User
    """The person who is signed in; an AnonymousUser on public pages."""
    principal: Principal
    restored: dict[str, str]
    """The typed values of an outdated form; only `errors.csrf_failure` sets it."""


def render_page(
    request: HttpRequest,
    template: str,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    **context: Any,
) -> HttpResponse:
    """Render `templates/web/<template>.html`."""
    html = render_to_string(f"web/{template}.html", context, request)
    return HttpResponse(html, status=status, headers=headers)


def redirect_to(to: str, request: HttpRequest | None = None, message: str = "") -> HttpResponse:
    """303 to a path, or to a page by its name in `routes`: a reload then does not repeat the POST.
    With a request and a message, that page shows the message.
    """
    if request is not None:
        messages.success(request, message)
    return HttpResponseRedirect(resolve_url(to), status=303)


def page_number(request: HttpRequest) -> int:
    """The value of `?page=`, from 1; 422."""
    return count_parameter(request.GET, "page", 1)


def page_of(
    request: HttpRequest,
    rows: Sliceable,
    record: Callable[[Any], Any] | None = None,
    *,
    number: int | None = None,
    size: int = PAGE_SIZE,
) -> dict[str, Any]:
    """A page of a list, with links to the next and the previous page. `record` makes the template's
    item from a row. `number`: that of `?page=` by default; 422.
    """
    number = number or page_number(request)
    items, more = slice_page(rows, number, size)
    following, previous = (
        f"{request.path}?{with_parameters(request.GET, page=number + step)}" for step in (1, -1)
    )
    return {
        "results": [*(map(record, items) if record else items)],
        "next": following if more else None,
        "previous": previous if number > 1 else None,
    }


def safe_path(path: str) -> str:
    """The path if it is on this site, else that of the home page: `next` must not leave it."""
    ours = path.startswith("/") and url_has_allowed_host_and_scheme(path, allowed_hosts=None)
    return path if ours else reverse("home")


def keep_secret(response: HttpResponse) -> HttpResponse:
    """Keep a page with a secret in its address or text out of caches and `Referer` headers. It is
    not compressed either.

    Not by `no-referrer`: browsers then send `Origin: null`, which the CSRF check rejects.
    """
    response["Cache-Control"] = "no-store"
    response["Referrer-Policy"] = ORIGIN_ONLY
    return response


def is_secret(response: HttpResponseBase) -> bool:
    """Whether `keep_secret` has had this response."""
    return response.get("Referrer-Policy") == ORIGIN_ONLY


def set_cookie(
    response: HttpResponseBase, name: str, value: str, seconds: int, *, path: str = "/"
) -> None:
    """Set a cookie that scripts cannot read and other sites do not send."""
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=path,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def ask_to_sign_in(request: HttpRequest) -> HttpResponse:
    """302 to the sign-in page; for a POST, 401 with a page that shows the submitted texts. Both are
    kept secret because the requested address, in `next`, may have a secret.
    """
    signin = f"{reverse('signin')}?next={quote(request.get_full_path())}"
    if request.method != "POST":
        return keep_secret(HttpResponseRedirect(signin))
    sent = labelled(typed_values(request))
    page = render_page(
        request, "signed_out", status=401, title=TITLES[401], signin=signin, sent=sent
    )
    return keep_secret(page)


def theme_of(request: HttpRequest) -> str:
    """The theme of the person's account; if nobody is signed in, that of the cookie."""
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        return str(user.theme)
    chosen = request.COOKIES.get(THEME, "")
    return chosen if chosen in {*Theme} else Theme.SYSTEM


def parameter(request: HttpRequest, name: str) -> str:
    """The value of this name in the form or else in the query; "" for none."""
    return str(request.POST.get(name) or request.GET.get(name, ""))


def typed_values(request: HttpRequest) -> dict[str, str]:
    """The values typed into the submitted form, without passwords and tokens."""
    return {
        name: str(text)
        for name, text in request.POST.items()
        if name not in NOT_TYPED and not name.startswith(INITIAL_PREFIX)
    }


def labelled(sent: dict[str, str]) -> dict[str, str]:
    values = {name: text for name, text in sent.items() if name not in HIDDEN_FIELDS}
    return {name.replace("_", " ").capitalize(): text for name, text in values.items()}


def unsaved_values(request: HttpRequest, error: ApiError) -> dict[str, str]:
    """The typed values that the error page shows, because no form can show them: all after a 429,
    those of several words if the form's resource has changed.
    """
    if error.status == 429:
        return typed_values(request)
    texts = typed_values(request) if error.status in GONE else {}
    return {name: text for name, text in texts.items() if len(text.split()) > 1}


def render_error(
    request: HttpRequest, error: ApiError, *, keeps_texts: bool = False
) -> HttpResponse:
    """The page of an error. `keeps_texts`: for a POST, with the typed values that would be lost."""
    unsaved = unsaved_values(request, error) if keeps_texts and request.method == "POST" else {}
    if error.status in WITHOUT_DATABASE:
        context = {"id": getattr(request, "id", ""), "is_full": error.code == "storage_full"}
        html = render_to_string(f"web/{error.status}.html", context)
        response = HttpResponse(html, status=error.status, headers=error.headers)
    else:
        response = render_page(
            request,
            "error",
            status=error.status,
            headers=error.headers,
            code=error.status,
            title=TITLES.get(error.status, TITLES[400]),
            text=error_text(error),
            seconds=error.headers.get("Retry-After"),
            sent=labelled(unsaved),
        )
    return keep_secret(response)


def error_text(error: ApiError) -> str:
    """The text of the page: that of the error, or a text for the status if it has none."""
    if resource := error.headers.get("X-RateLimit-Resource"):
        if resource == RateScope.ANONYMOUS:
            return TOO_MANY_PAGES
        return TOO_MANY_FROM_ADDRESS if resource in BY_ADDRESS else TOO_MANY_REQUESTS
    plain = error.detail == plain_error(error.status).detail
    return TEXTS.get(error.status, error.detail) if plain else error.detail


def deleted_message(deletion: Deletion) -> str:
    """The message after a deletion."""
    until = deletion.purge_at
    return f"{deletion} is deleted. Staff can restore it until {until:%Y-%m-%d}."

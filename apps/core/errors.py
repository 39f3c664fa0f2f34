"""The errors that actions and rules raise, and their form in answers: ErrorBody.

docs/api.md lists all codes with their statuses.
"""

from __future__ import annotations

import errno
import logging
import sqlite3
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError, OperationalError
from django.http import Http404
from rest_framework import exceptions as drf

from apps.core.lookup import Missing
from apps.git.run import GitDiskFull, GitError

logger = logging.getLogger(__name__)


class ApiError(Exception):
    """A refusal with a status, a code for programs and a text for people."""

    status = 500

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        headers: dict[str, str] | None = None,
        conflict_paths: list[str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.headers = headers or {}
        self.conflict_paths = conflict_paths

    def body(self) -> dict[str, Any]:
        """The ErrorBody; with `conflict_paths` only if there are any."""
        body: dict[str, Any] = {"error": self.code, "detail": self.detail}
        if self.conflict_paths is not None:
            body["conflict_paths"] = self.conflict_paths
        return body


class Moved(ApiError):
    """301: the path has a former slug."""

    status = 301

    def __init__(self, url: str) -> None:
        super().__init__("moved", f"This is at {url} now.", headers={"Location": url})


class BadRequest(ApiError):
    status = 400


class Unauthenticated(ApiError):
    """401; `WWW-Authenticate` names both schemes for a token."""

    status = 401

    def __init__(self, code: str, detail: str) -> None:
        realm = 'realm="Guildhall"'
        super().__init__(
            code, detail, headers={"WWW-Authenticate": f"Bearer {realm}, Basic {realm}"}
        )


class Forbidden(ApiError):
    status = 403


class NotFound(ApiError):
    status = 404


class Conflict(ApiError):
    status = 409


class PayloadTooLarge(ApiError):
    status = 413


class UnsupportedMediaType(ApiError):
    status = 415


class Invalid(ApiError):
    status = 422


class TooMany(ApiError):
    status = 429


class Unavailable(ApiError):
    status = 503


PLAIN = {
    400: ("malformed_request", "The server could not understand this request."),
    403: ("forbidden", "You are not allowed to do this."),
    404: ("not_found", "Nothing exists at this address."),
    405: ("method_not_allowed", "This address does not support that method."),
    413: ("payload_too_large", "The request body is too large."),
    414: ("uri_too_long", "The address is longer than 8,000 characters."),
    431: ("header_too_long", "A header is longer than 8,000 characters."),
    500: ("internal_error", "Something went wrong on our side. The error has been logged."),
    503: ("unavailable", "The service is busy. Try again in a moment."),
}


def plain_error(status: int) -> ApiError:
    """The error for a status alone, for answers of Django or of a server."""
    code, detail = PLAIN.get(status, PLAIN[500 if status >= 500 else 400])
    error = ApiError(code, detail)
    error.status = status
    return error


def method_not_allowed(methods: list[str]) -> ApiError:
    """405; DRF names the methods in `Allow` as well."""
    error = plain_error(405)
    error.detail = f"This address does not support that method; it supports {', '.join(methods)}."
    return error


def unavailable() -> Unavailable:
    """503 for a lock or a database that was not available in time, or for a failure of git."""
    return Unavailable(*PLAIN[503], headers={"Retry-After": "1"})


FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_FILE_ERRNOS = (errno.EMFILE, errno.ENFILE)
"""The process, or the machine, has no file descriptor left."""
FULL_SQLSTATE = "53100"
FULL_SQLITE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
"""The codes of files, PostgreSQL (`disk_full`) and SQLite for a full disk. `EFBIG` is a limit of
the operator.
"""


def storage_full() -> Unavailable:
    """503 while the server's disk is full."""
    text = "The server has no disk space left, so nothing was saved. Its operators must free some."
    return Unavailable("storage_full", text, headers={"Retry-After": "60"})


def git_failed(error: GitError) -> Unavailable:
    """503 for a failure of git, which may succeed the next time."""
    return storage_full() if isinstance(error, GitDiskFull) else unavailable()


def is_storage_full(exception: BaseException) -> bool:
    """Whether a full disk, or a used-up quota, is the cause."""
    if isinstance(exception, OSError):
        return exception.errno in FULL_ERRNOS
    if isinstance(exception, DatabaseError):  # its cause is the error of the driver
        cause = exception.__cause__
        return (
            getattr(cause, "sqlstate", None) == FULL_SQLSTATE
            or getattr(cause, "sqlite_errorcode", None) in FULL_SQLITE
        )
    return isinstance(exception, GitDiskFull)


STATUS_OF: tuple[tuple[type[Exception], int], ...] = (
    (Http404, 404),
    (PermissionDenied, 403),
    (RequestDataTooBig, 413),
    (SuspiciousOperation, 400),
    (drf.MethodNotAllowed, 405),
    (drf.NotFound, 404),
)


def as_api_error(exception: BaseException) -> ApiError | None:
    """The ApiError for this exception; None for a defect, which becomes a 500."""
    if isinstance(exception, ApiError):
        return exception
    if is_storage_full(exception):
        logger.error("The disk is full", exc_info=exception)
        return storage_full()
    if isinstance(exception, OperationalError):
        return unavailable()
    if isinstance(exception, GitError) or getattr(exception, "errno", 0) in NO_FILE_ERRNOS:
        # The repository was deleted meanwhile, or git was packing it. Or an object is damaged, or
        # the limit of open files is too low, and an operator has to look at it.
        logger.error("git failed, or no file can be opened", exc_info=exception)
        return unavailable()
    if isinstance(exception, Missing):
        return NotFound("not_found", str(exception))
    statuses = (status for kind, status in STATUS_OF if isinstance(exception, kind))
    return next(map(plain_error, statuses), None)

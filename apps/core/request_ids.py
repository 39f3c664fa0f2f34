"""The request that the current thread or task answers: its id, and the counts for its log line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

HEADER = "X-Request-Id"
SECRET = re.compile(r"(invites/)[/\s]*[^/\s]+")
"""The uuid of an invite, which allows signing up."""


class UsedToken(NamedTuple):
    """The API token of a request, by which the audit log names it. Its text is never kept."""

    uuid: UUID
    name: str


@dataclass(slots=True)
class CurrentRequest:
    """The id of a request, the values of its log line that other modules know, and its origin."""

    id: str
    meta: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The headers and the connection, as `request.META`."""
    token: UsedToken | None = None
    username: str = "-"
    """The person whose token or session was accepted."""
    queries: int = 0

    def count(self, execute: Callable[..., Any], *query: Any) -> Any:
        """A wrapper for `connection.execute_wrapper`."""
        self.queries += 1
        return execute(*query)


current: ContextVar[CurrentRequest | None] = ContextVar("current_request", default=None)


def note_person(username: str, token: UsedToken | None = None) -> None:
    """Name the person of the current request, for its log line, and the token for the audit log."""
    if request := current.get():
        request.username, request.token = username, token


def with_request_id(text: str) -> str:
    """A text for people, with the id by which operators find the request in the log."""
    request = current.get()
    return f"{text} (request {request.id})" if request else text


def without_invites(text: str) -> str:
    """A path, or a text with one, without the uuids of invites."""
    return SECRET.sub(r"\1-", text)

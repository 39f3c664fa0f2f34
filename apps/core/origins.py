"""The origin of the present change: the address and the program of its request, or a command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from django.conf import settings

from apps.core.request_ids import UsedToken, current
from apps.core.requests import address_of

PROGRAM_MAX = 200
"""Most characters of a program's name that are stored."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
ADMIN = "/admin/"
"""The beginning of the paths of Django's admin."""

command: ContextVar[str] = ContextVar("command", default="")
"""The management command that runs, such as `manage.py create_user`."""


class Origin(NamedTuple):
    """Where a change comes from. The address is empty outside requests."""

    address: str
    program: str
    token: UsedToken | None


def origin() -> Origin:
    """The origin of the change that the current thread or task makes.

    `program` is the `User-Agent` of the request, with `admin` before it for pages of the admin;
    the command without a request; empty for the worker.
    """
    request = current.get()
    if request is None:
        return Origin("", command.get(), None)
    address = address_of(request.meta, settings.TRUSTED_PROXIES)
    return Origin(address, program_of(request.meta), request.token)


def program_of(meta: Mapping[str, Any]) -> str:
    """The program that sends a request, as one line of at most `PROGRAM_MAX` characters."""
    agent = CONTROL.sub(" ", str(meta.get("HTTP_USER_AGENT", ""))).strip()
    is_admin = str(meta.get("PATH_INFO", "")).startswith(ADMIN)
    return f"admin {agent}"[:PROGRAM_MAX] if is_admin else agent[:PROGRAM_MAX]


@contextmanager
def running(name: str) -> Iterator[None]:
    """Name the management command that makes the changes of this block."""
    outer, request = command.set(f"manage.py {name}"), current.set(None)
    try:
        yield
    finally:
        command.reset(outer)
        current.reset(request)

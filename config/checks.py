"""Warnings for operators, by `manage.py check` and at the start of a server."""

from __future__ import annotations

import logging
import stat
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connection, connections

from config.installation import folder_problem, start_problem

logger = logging.getLogger(__name__)

CROWDED = (
    "PostgreSQL accepts {room} connections (max_connections less those that it reserves), and the "
    "processes of this node may open {needed}. Requests beyond that are 503."
)
ROOM = """
    SELECT sum(setting::int * CASE name WHEN 'max_connections' THEN 1 ELSE -1 END) FROM pg_settings
    WHERE name IN ('max_connections', 'superuser_reserved_connections', 'reserved_connections')
"""
SEVERAL = (
    "Each server counts requests for itself: with several servers people get several times as many "
    "requests. Set REDIS_URL to count together."
)

OTHERS = 0o077
"""The bits of a mode for group and others."""
OPEN = (
    "Others on this machine may look into DATA_DIR ({folder}, mode {mode:03o}): it holds private "
    'repositories and the secret key. Run "chmod 700" on it.'
)


@register(Tags.security, deploy=True)
def counters_are_shared(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """A warning without Redis: this check does not know the number of servers."""
    if settings.REDIS_URL:
        return []
    hint = "A single server needs no Redis: its processes count together."
    return [Warning(SEVERAL, hint=hint, id="guildhall.W001")]


@register(Tags.security)
def data_is_private(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """A warning if other users of the machine can read repositories, database or secret key."""
    mode = stat.S_IMODE(settings.DATA_DIR.stat().st_mode)
    if not mode & OTHERS:
        return []
    return [Warning(OPEN.format(folder=settings.DATA_DIR, mode=mode), id="guildhall.W002")]


@register("installation")
def data_is_of_this_database(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """An error if DATA_DIR is the folder of another database, or of none."""
    problem = folder_problem()
    return [Error(problem, id="guildhall.E001")] if problem else []


@register(Tags.database, deploy=True)
def pools_fit(app_configs: Any, *, databases: Any = None, **options: Any) -> list[CheckMessage]:
    """A warning if the pools of a node can ask PostgreSQL for more connections than it has."""
    if not databases or connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute(ROOM)
        [room] = cursor.fetchone()
    needed = connections_of_node()
    hint = "Raise max_connections of PostgreSQL, or lower WEB_CONCURRENCY. Each node needs as many."
    text = CROWDED.format(room=room, needed=needed)
    return [Warning(text, hint=hint, id="guildhall.W003")] if needed > room else []


def connections_of_node() -> int:
    """The most connections of the processes of one node: a full pool of each process of the API, of
    the stream and of the worker, and the connection on which the stream listens.
    """
    pool: int = settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"]
    return pool * (settings.WEB_CONCURRENCY + 2) + 1


def is_command() -> bool:
    """Whether this is a command, such as `manage.py serve`. Commands run the checks themselves."""
    return Path(sys.argv[0]).name == "manage.py"


def warn_at_start() -> None:
    """Log warnings at the start of a server."""
    if is_command():
        return
    for warning in data_is_private(None):
        logger.warning(warning.msg)


def refusal_at_start() -> str:
    """A line why a server must not start with this DATA_DIR, else ""."""
    if is_command():
        return ""
    try:
        return start_problem()
    finally:
        connections.close_all()

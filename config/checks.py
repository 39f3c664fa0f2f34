"""Warnings for operators, by `manage.py check` and at the start of a server."""

from __future__ import annotations

import logging
import stat
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register

logger = logging.getLogger(__name__)

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


def warn_at_start() -> None:
    """Log warnings at the start of a server.

    Commands, such as `manage.py serve`, run the checks themselves.
    """
    if Path(sys.argv[0]).name == "manage.py":
        return
    for warning in data_is_private(None):
        logger.warning(warning.msg)

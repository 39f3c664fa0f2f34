"""What `check` and the start tell an operator about how this process will run."""

from __future__ import annotations

import logging
import os
import shlex
import stat
import sys
from argparse import ArgumentError
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register

logger = logging.getLogger(__name__)

SEVERAL = (
    "Rate limits are counted in each process for itself: with {workers} workers people get up to "
    "{workers} times as many requests. Set REDIS_URL to count together."
)

OF_OTHERS = 0o077
"""What a mode lets anybody do but the owner."""
OPEN = (
    "Others on this machine may look into DATA_DIR ({folder}, mode {mode:03o}): it holds private "
    'repositories and the secret key. Run "chmod 700" on it.'
)


@register(Tags.security, deploy=True)
def counters_are_shared(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """How many processes there will be is not known here, so this is said whenever it matters."""
    if settings.REDIS_URL:
        return []
    hint = "One process may do without. The start of several gunicorn workers warns again."
    text = SEVERAL.format(workers="several")
    return [Warning(text, hint=hint, id="guildhall.W001")]


@register(Tags.security)
def data_is_private(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """Repositories, database and secret key are for one user of the machine alone."""
    mode = stat.S_IMODE(settings.DATA_DIR.stat().st_mode)
    if not mode & OF_OTHERS:
        return []
    return [Warning(OPEN.format(folder=settings.DATA_DIR, mode=mode), id="guildhall.W002")]


def warn_at_start() -> None:
    """Say at the start of a server what an operator has to know of it.

    A command says what `check` finds by itself, and `manage.py serve` is one.
    """
    if Path(sys.argv[0]).name == "manage.py":
        return
    for found in data_is_private(None):
        logger.warning(found.msg)
    warn_of_counting_apart()


def warn_of_counting_apart() -> None:
    """Say at the start of each of several gunicorn workers that they do not count together."""
    if settings.REDIS_URL or "gunicorn.arbiter" not in sys.modules:
        return
    workers = gunicorn_workers(sys.argv[1:], os.environ)
    if workers > 1:
        logger.warning(SEVERAL.format(workers=workers))


def gunicorn_workers(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """How many workers gunicorn has, from its command line and environment.

    A number in its configuration file is not seen.
    """
    given = given_to_gunicorn(arguments, environment).workers
    return int(given or environment.get("WEB_CONCURRENCY") or 1)


def gunicorn_threads(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """How many threads each of its workers has; 0 where neither of the two says so."""
    return int(given_to_gunicorn(arguments, environment).threads or 0)


def given_to_gunicorn(arguments: Sequence[str], environment: Mapping[str, str]) -> Any:
    """The options of gunicorn; none if the arguments belong to another program.

    gunicorn tells its application neither workers nor threads, and an application cannot count
    them: each worker sees itself alone, and its threads start as requests come.
    """
    from gunicorn.config import Config

    more = shlex.split(environment.get("GUNICORN_CMD_ARGS", ""))
    parser = Config().parser()
    parser.exit_on_error = False
    try:
        return parser.parse_known_args([*more, *arguments])[0]
    except ArgumentError:
        return parser.parse_args([])

"""The worker's work: forks to make, journals to settle, stores to tidy (engine.md §3 and §5).

Several workers do no harm: leases and locks decide. One runs as a thread of `bin/serve` and of
each server process on SQLite (`start`), or as `manage.py run_jobs`.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from time import monotonic

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection
from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils import timezone

from apps.core.errors import ApiError
from apps.core.leases import HEARTBEAT
from apps.repos import actions, pushes
from apps.repos.git import store
from apps.repos.git.copy import copy, remove_unfinished, unfinished
from apps.repos.git.run import GitError
from apps.repos.models import Fork, ForkStatus, Repo
from apps.repos.upkeep import sweep, tidy_next

ATTEMPTS = 3
RETRY = dt.timedelta(seconds=5)
PAUSE = 1.0
"""Seconds between two looks for work."""
SETTLE_EVERY = 30.0
SWEEP_EVERY = 24 * 3600.0
GAVE_UP = (
    f"The copy could not be made in {ATTEMPTS} attempts. Fork again, or ask who runs this site: "
    "the server's log says more."
)
logger = logging.getLogger(__name__)


def run(stop: threading.Event, *, told: Callable[[str], None] = lambda _: None) -> None:
    """Work until `stop` is set. `told` hears in a line what was done."""
    settled = swept = -SWEEP_EVERY
    while not stop.is_set():
        try:
            if monotonic() - settled >= SETTLE_EVERY:
                settled = monotonic()  # before: what fails each time holds up nothing else
                settle_journals(told)
            if monotonic() - swept >= SWEEP_EVERY:
                swept = monotonic()
                sweep()
            if make_next_fork(told) or tidy_next():
                continue
        except DatabaseError as error:
            # Not migrated yet, or not to be reached: the requests will say so as well.
            logger.info("The worker waits for the database: %s", error)
        except Exception:
            logger.exception("The worker failed; it goes on")
        finally:
            close_old_connections()
        stop.wait(PAUSE)


@cache
def start() -> None:
    """Work in a thread of this process; once, however often it is called.

    The thread ends with the process: what it leaves, the next worker takes over.
    """
    threading.Thread(target=run, args=[threading.Event()], name="worker", daemon=True).start()


def start_where_wanted() -> None:
    """On SQLite every server process does the worker's work (engine.md §1)."""
    if settings.WORKER_THREAD:
        start()


def make_next_fork(told: Callable[[str], None] = lambda _: None) -> bool:
    """Make the oldest fork that is due; False when there is none."""
    to_do = Fork.objects.filter(status__in=[ForkStatus.QUEUED, ForkStatus.RUNNING])
    fork = to_do.filter(Fork.due()).order_by("id").first()
    if fork is None:
        return False
    tried, before = fork.attempts, Repo(uuid=fork.repo_uuid).git
    token = fork.take(
        status=ForkStatus.RUNNING,
        started_at=Coalesce(F("started_at"), timezone.now()),
        repo_uuid=uuid.uuid4(),
    )
    if token is None:
        return True
    remove_unfinished(before)
    if tried >= ATTEMPTS:
        actions.fail_fork(actor=fork.created_by, fork=fork, token=token, reason=GAVE_UP)
    else:
        make_fork(fork, token)
    fork.refresh_from_db()
    told(str(fork))
    return True


def make_fork(fork: Fork, token: uuid.UUID) -> None:
    """One attempt: copy aside, then complete. What went wrong with git is tried again."""
    final = Repo(uuid=fork.repo_uuid).git
    copied = unfinished(final, token.hex)
    try:
        with heartbeat(fork, token):
            copy(fork.upstream.git, copied)
        if not actions.complete_fork(actor=fork.created_by, fork=fork, token=token, copied=copied):
            logger.warning("The lease of %s was lost while it was copied", fork)
    except ApiError as error:
        actions.fail_fork(actor=fork.created_by, fork=fork, token=token, reason=error.detail)
    except (GitError, OSError) as error:
        logger.warning("Attempt %s at %s failed: %s", fork.attempts, fork, error)
        fork.put_off(token, RETRY)
    finally:
        store.remove(copied.path)


def settle_journals(told: Callable[[str], None] = lambda _: None) -> None:
    """Bring the repositories up to date in which somebody has left steps in the journal.

    A push that is under way has left them too; to look at its repository does no harm.
    """
    for repo in Repo.objects.filter(journal__isnull=False).distinct():
        try:
            moves = pushes.reconcile(repo=repo)
        except Exception:
            logger.exception("The journal of %s could not be settled", repo.uuid)
            # The lock of a git that was killed may be in the way: the next time it is not.
            with suppress(OSError):
                repo.git.remove_leftovers()
            continue
        if moves:
            told(f"{repo.uuid}: {moves} moves of refs written down")


@contextmanager
def heartbeat(fork: Fork, token: uuid.UUID) -> Iterator[None]:
    """Keep the lease while the copy is made, which may take minutes."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT):
            try:
                fork.extend(token)
            except Exception:
                logger.exception("The lease of %s could not be extended", fork)
            finally:
                connection.close()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()

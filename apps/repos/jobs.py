"""The jobs of repositories, for `settings.JOBS`: make forks, settle journals, point HEAD, tidy,
sweep. `check` compares a repository on disk with the database, for `check_repos`.

Each job calls `on_done` with a line about the work that it did.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB
from pathlib import Path
from uuid import UUID, uuid4

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils import timezone

from apps.accounts.models import NOT_GONE
from apps.core.errors import ApiError
from apps.git import store
from apps.git.refs import begins_like_full_name
from apps.git.run import GitError
from apps.jobs.leases import heartbeat
from apps.jobs.worker import OnDone
from apps.repos import actions, quota
from apps.repos.models import BRANCHES, HEAD_DUE, TAGS, UNTIDY, Fork, ForkStatus, Repo
from apps.repos.models.fork import TO_DO
from apps.repos.models.protection import glob
from apps.repos.models.ref import short_name
from apps.repos.pushes import point_head, reconcile
from apps.repos.rules import names_branches

ATTEMPTS = 3
RETRY = dt.timedelta(seconds=5)
EVERY = dt.timedelta(minutes=1)
"""Least time between two tidyings of a repository, and between its creation and the first."""
UNCLAIMED = 24 * 3600.0
"""Seconds after which a folder without a row is removed. Copying a fork takes only minutes."""
AT_ONCE = 500
"""Most folders that one query looks up."""
GAVE_UP = (
    f"The copy failed in {ATTEMPTS} attempts. Fork again, or ask the operators of this site: the "
    "server's log says more."
)
logger = logging.getLogger(__name__)


def ignore(_: str) -> None:
    """An `on_done` that does nothing."""


def make_next_fork(on_done: OnDone = ignore) -> bool:
    """Make the oldest fork that is due; return False if there is none."""
    fork = Fork.objects.filter(TO_DO, Fork.due()).order_by("id").first()
    if fork is None:
        return False
    tried, before = fork.attempts, Repo(uuid=fork.repo_uuid).git.path
    token = fork.take(
        status=ForkStatus.RUNNING,
        started_at=Coalesce(F("started_at"), timezone.now()),
        repo_uuid=uuid4(),
    )
    if token is None:
        return True
    store.remove_unfinished(before)
    if tried >= ATTEMPTS:
        actions.fail_fork(actor=fork.created_by, fork=fork, token=token, reason=GAVE_UP)
    else:
        make_fork(fork, token)
    fork.refresh_from_db()
    on_done(str(fork))
    return True


def make_fork(fork: Fork, token: UUID) -> None:
    """Try once to copy and complete a fork. If git fails, the fork is due again after `RETRY`."""
    copied = Repo(uuid=fork.repo_uuid).git.unfinished(token.hex)
    try:
        with heartbeat(fork, token):
            copied.create_as_copy(fork.upstream.git)
        if not actions.complete_fork(actor=fork.created_by, fork=fork, token=token, copied=copied):
            logger.warning("The lease of %s was lost while it was copied", fork)
    except ApiError as error:
        actions.fail_fork(actor=fork.created_by, fork=fork, token=token, reason=error.detail)
    except (GitError, OSError) as error:
        logger.warning("Attempt %s at %s failed: %s", fork.attempts, fork, error)
        fork.put_off(token, RETRY)
    finally:
        store.remove(copied.path)


@contextmanager
def others_go_on(repo: Repo, complaint: str) -> Iterator[None]:
    """Log a failure of this repository, so that it does not block the others."""
    try:
        yield
    except Exception:
        logger.exception(complaint, repo.uuid)
        # The lock file of a killed git may be the reason: it is removed for the next run.
        with suppress(OSError):
            repo.git.remove_leftovers()


def settle_journals(on_done: OnDone = ignore) -> bool:
    """Settle all repositories whose journal has steps, even if these are of pushes in progress.
    Those of deleted repositories wait until they are restored or purged.
    """
    for repo in Repo.objects.filter(NOT_GONE, journal__isnull=False).distinct():
        with others_go_on(repo, "The journal of %s could not be settled"):
            repo.git.remove_quarantines()  # left by a killed server
            if moves := reconcile(repo=repo, believing=False):
                on_done(f"{repo.uuid}: {moves} moves of refs recorded")
    return False


def point_heads(on_done: OnDone = ignore) -> bool:
    """Point HEAD to the default branch of all repositories that are marked with `head_due`."""
    for repo in Repo.objects.filter(HEAD_DUE, NOT_GONE):
        with others_go_on(repo, "HEAD of %s could not be set"):
            point_head(repo)
            on_done(f"{repo.uuid}: HEAD is {repo.default_branch}")
    return False


def tidy_next_repo(_: OnDone = ignore) -> bool:
    """Tidy the repository with the oldest push that has not been tidied since; False if none has.

    Its `tidied_at` is set first, so that only one worker tidies it. After a crash it is tidied
    after its next push.
    """
    now = timezone.now()
    rested = {"before__lt": now - EVERY}
    waiting = Repo.objects.filter(UNTIDY).alias(before=Coalesce("tidied_at", "created_at"))
    repo = waiting.filter(**rested, pushed_at__isnull=False).order_by("pushed_at").first()
    if repo is None:
        return False
    if Repo.objects.filter(pk=repo.pk, tidied_at=repo.tidied_at).update(tidied_at=now):
        try:
            repo.git.upkeep()
            quota.measure(repo)
        except (GitError, OSError) as error:
            logger.warning("Repository %s could not be tidied: %s", repo.uuid, error)
    return True


def sweep_folders(_: OnDone) -> bool:
    """Remove folders of no repository, and old temporary files of all others; measure these."""
    sweep()
    for repo in Repo.objects.only("uuid").iterator():
        with suppress(OSError):
            repo.git.remove_leftovers()
            quota.measure(repo)
    return False


def sweep(age: float = UNCLAIMED) -> list[str]:
    """Remove folders without a row that are at least `age` seconds old; return their names.

    The folder of a new repository exists before its row is committed, so new folders stay, and
    those whose lock somebody holds: an import may take longer.
    """
    folders = store.folders(settings.REPOSITORIES_DIR)
    old = [folder for folder in folders if store.older_than(folder, age)]
    removed = []
    for start in range(0, len(old), AT_ONCE):
        some = old[start : start + AT_ONCE]
        used = used_uuids(map(store.uuid_of, some))
        for folder in some:
            if store.uuid_of(folder) not in used and remove_unused(folder):
                removed.append(folder.name)
    return removed


def used_uuids(uuids: Iterable[UUID | None]) -> set[UUID | None]:
    """Those of repositories, and of forks that are being made; never None."""
    names = [uuid for uuid in uuids if uuid is not None]
    forks = Fork.objects.filter(TO_DO, repo_uuid__in=names).values_list("repo_uuid", flat=True)
    return {*Repo.objects.filter(uuid__in=names).values_list("uuid", flat=True), *forks}


def remove_unused(folder: Path) -> bool:
    """Remove a folder without a row, unless somebody holds its lock, or its row has been committed
    meanwhile; return whether it is removed.
    """
    with suppress(OSError), store.tidy_lock(folder, LOCK_EX | LOCK_NB):
        if not used_uuids([store.uuid_of(folder)]):
            store.remove(folder)
            return True
    return False


def misleading_names(repo: Repo) -> Iterator[str]:
    """Sentences about existing names that new branches and tags may not have, because git may
    resolve them to another ref, at least on a file system that ignores case. They are not
    repaired: people may use them.
    """
    refs = list(repo.refs.order_by("full_name").values_list("full_name", flat=True))
    branches = {short_name(ref).lower() for ref in refs if ref.startswith(BRANCHES)}
    patterns = filter(names_branches, repo.protections.values_list("branch", flat=True))
    globs = [glob(pattern.lower()) for pattern in patterns]
    for ref in refs:
        name, is_tag = short_name(ref), ref.startswith(TAGS)
        if begins_like_full_name(name):
            yield f"{ref} begins like the full name of another ref"
        if is_tag and name.lower() in branches:
            yield f"the tag {name} is named like a branch: git fetch with that name brings the tag"
        elif is_tag and any(pattern.fullmatch(name.lower()) for pattern in globs):
            yield f"the tag {name} is named like a protected branch"


def check(repo: Repo, *, fix: bool, age: float) -> Iterator[str]:
    """Sentences about differences between a repository's rows and its folder. `fix` repairs them.

    `age`: seconds. Younger leftovers may belong to a push in progress and stay. Raises `GitError`
    or `OSError` if the folder cannot be read.
    """
    if not repo.git.path.exists():
        raise FileNotFoundError("its folder is missing: restore it from a backup")
    # Leftovers go first, because a lock among them would block the rest.
    if fix and repo.git.remove_leftovers(age):
        yield "killed processes left temporary files"
    if repo.git.head_branch() != repo.default_branch:
        yield f"HEAD is {repo.git.head_branch()}, not {repo.default_branch}"
        if fix:
            point_head(repo)
    stored = dict(repo.refs.values_list("full_name", "sha"))
    if stored != repo.git.refs():
        yield "the stored heads differ from git's refs"
        if fix:
            reconcile(repo=repo)
    if fix and repo.git.mend_config():
        yield "its configuration was outdated"

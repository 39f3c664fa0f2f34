"""Versions of a pull: what git says of each is read before any lock, and stored with it.

What git could not tell then, and what was there before there were versions, is due: the worker
asks again, or whoever reads it first.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.browse.cache import pack_commits, pack_files
from apps.core.locks import lock
from apps.git.cache import GitFacts
from apps.git.diff import changes
from apps.git.log import log
from apps.git.repo import DiffStat, GitRepo, version_ref
from apps.git.run import GitError
from apps.pulls import sources
from apps.pulls.models import Pull, PullVersion, VersionContents
from apps.repos.pushes import distance_of
from apps.repos.rules import ZERO, RefMove

COMMITS_MOST = 1000
"""Commits that are listed of a version, the newest."""
SOON = dt.timedelta(minutes=1)
"""After that the worker makes the ref of a version whose process has died."""
WAIT = dt.timedelta(minutes=10)
"""For so long git is not asked again what it could not tell; each time for twice as long."""
MOST_DOUBLED = 12


@dataclass(frozen=True)
class Contents:
    """What is between two commits: their merge base, the true numbers, and the lists as they are
    stored.
    """

    merge_base: str | None
    figures: DiffStat
    commits: bytes
    files: bytes


def contents_between(git: GitRepo, base: str, head: str) -> Contents:
    """What `head` changes since it left `base`; without common history, all that it has.

    `GitError` where git cannot tell: it takes too long, or is too much.
    """
    start = git.merge_base(base, head)
    found = changes(git, start, head)
    commits = log(git, head, count=COMMITS_MOST, exclude=base, reverse=True)
    count = len(commits)
    if count == COMMITS_MOST:
        count = git.distance(base, head).gained
    figures = DiffStat(count, found.additions, found.deletions, found.total)
    return Contents(start, figures, pack_commits(commits), pack_files(found.files))


def contents_if_told(git: GitRepo, base: str, head: str) -> Contents | None:
    """None where git cannot tell."""
    with suppress(GitError):
        return contents_between(git, base, head)
    return None


@dataclass(frozen=True)
class NewVersion:
    """A head that a pull comes to have, and what is known of it."""

    head: str
    base: str | None
    pushed_by_id: int | None
    is_forced: bool | None
    contents: Contents | None


def new_versions(
    pull: Pull, base: str | None, heads: Sequence[tuple[str, int | None]], facts: GitFacts
) -> list[NewVersion]:
    """What git says of heads, each with who pushed it, that follow the pull's present one in this
    order. Changes nothing.
    """
    found, before = [], pull.head_sha
    for head, pushed_by_id in heads:
        contents = facts.ask(contents_if_told, pull.repo.git, base, head) if base else None
        is_forced = _is_forced(pull, before, head, facts)
        found.append(NewVersion(head, base, pushed_by_id, is_forced, contents))
        before = head
    return found


def _is_forced(pull: Pull, before: str | None, head: str, facts: GitFacts) -> bool | None:
    if before is None:
        return False
    move = RefMove(pull.repo, pull.source_ref, before, head, None)
    distance = distance_of(move, facts)
    return None if distance is None else distance.lost > 0


def write_versions(pull: Pull, new: Sequence[NewVersion]) -> list[PullVersion]:
    """Store the newest versions of a pull, which `last_version` counts already."""
    first = pull.last_version - len(new) + 1
    rows = PullVersion.objects.bulk_create(
        _row(pull, number, one) for number, one in enumerate(new, first)
    )
    write_contents((row, one.contents) for row, one in zip(rows, new, strict=True) if one.contents)
    return rows


def write_contents(told: Iterable[tuple[PullVersion, Contents]]) -> None:
    """Store what versions contain."""
    VersionContents.objects.bulk_create(
        VersionContents(version=row, commits=found.commits, files=found.files)
        for row, found in told
    )


def _row(pull: Pull, number: int, new: NewVersion) -> PullVersion:
    version = PullVersion(
        pull=pull,
        version=number,
        head_sha=new.head,
        base_sha=new.base,
        pushed_by_id=new.pushed_by_id,
        is_forced=new.is_forced,
        due_at=timezone.now() + SOON,
    )
    if new.contents is not None:
        set_contents(version, new.contents)
    elif new.base is not None:
        put_off(version)
    return version


def set_contents(version: PullVersion, found: Contents) -> None:
    """Set what git says of the version, without saving."""
    version.merge_base_sha, figures = found.merge_base, found.figures
    version.commit_count, version.changed_files = figures.commit_count, figures.changed_files
    version.additions, version.deletions = figures.additions, figures.deletions


def put_off(version: PullVersion) -> None:
    """Set when git is asked again what it could not tell, without saving."""
    version.due_at = timezone.now() + WAIT * 2 ** min(version.tries, MOST_DOUBLED)
    version.tries += 1


def note_base(pull: Pull) -> None:
    """Give the newest version the base that it lacks because there was no target."""
    if pull.base_sha is None:
        return
    rows = PullVersion.objects.filter(pull=pull, version=pull.last_version, base_sha=None)
    rows.update(base_sha=pull.base_sha, due_at=timezone.now())


def mark_complete(new: Sequence[PullVersion]) -> None:
    """Leave to the worker only what git has not told of new versions whose refs are made."""
    if new:
        told = Q(base_sha=None) | Q(commit_count__isnull=False)
        PullVersion.objects.filter(told, pk__in=[one.pk for one in new]).update(due_at=None)


@contextmanager
def putting_off(version: PullVersion) -> Iterator[None]:
    """Inside, git is asked what the version lacks; an error puts off the next time and goes on."""
    try:
        yield
    except Exception:  # whatever it is goes on to the caller
        put_off(version)
        version.save(update_fields=["due_at", "tries"])
        raise


def read_contents(version: PullVersion) -> None:
    """Ask git what a version contains, and store it. `GitError`."""
    if version.base_sha is None or version.is_known:
        return
    found = contents_between(version.pull.repo.git, version.base_sha, version.head_sha)
    with transaction.atomic():
        lock(version)
        if not version.is_known:  # somebody else may have asked as well
            set_contents(version, found)
            version.save()
            write_contents([(version, found)])


def complete(version: PullVersion) -> None:
    """Make what a version lacks, its ref or its contents: a process has died, git could not tell,
    or the version is older than these. `GitError`, and then it is put off.
    """
    due_at = version.due_at
    with putting_off(version):
        make_ref(version)
        read_contents(version)
    # Unless it has come to have a base meanwhile.
    PullVersion.objects.filter(pk=version.pk, due_at=due_at).update(due_at=None)


def make_ref(version: PullVersion) -> None:
    """Keep the commits of a version, unless its ref does already. `GitError`."""
    pull, head = version.pull, version.head_sha
    git, ref = pull.repo.git, version_ref(pull.number, version.version)
    present = git.ref(ref)
    if present != head:
        sources.fetch_commit(pull, head)
        git.update_ref(ref, head, present or ZERO)

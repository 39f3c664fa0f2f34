"""Answers of git that are kept in the database, by what was asked.

An answer about full object names never changes, so nothing here is ever out of date. Each
repository keeps 64 MB of them; those that were not used for longest go first.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, OperationalError
from django.db.models import Sum
from django.utils import timezone

from apps.browse.models import GitCache
from apps.core import json
from apps.core.errors import Invalid
from apps.core.locks import without_waiting
from apps.core.statements import Parameter, Statement
from apps.events.kinds import Kind
from apps.events.models import Event
from apps.git.run import GitTimeout
from apps.repos.models import Repo

logger = logging.getLogger(__name__)

ROOM = 64 * 1000 * 1000
"""Bytes that one repository's answers take, packed."""
ROW = 500
"""Bytes that a row takes beside its answer, roughly: anybody can ask for many short answers."""
SLOW = dt.timedelta(minutes=10)
"""For so long git is not asked again what it could not tell in time."""
TOUCH = dt.timedelta(hours=1)
"""A use is noted when the last one that was is so long ago: a read should write nothing."""
VERSION = 1
"""Raised when answers are made in another way."""
KEPT = Statement(lambda: GitCache.objects.filter(repo=Parameter("repo"), key=Parameter("key")))
FORGOTTEN = Statement(
    lambda: Event.objects.filter(
        id__gt=Parameter("since"), kind=Kind.COMMIT_FORGOTTEN.value
    ).values_list("id")[:1]
)


@dataclass(frozen=True)
class ForNow:
    """What `ask` gives when git had no time for all of it: kept as long as that git is slow."""

    answer: Any


def cached(repo: Repo, question: tuple[Any, ...], ask: Callable[[], Any]) -> Any:
    """The kept answer to the question, else what `ask` gives now: anything that JSON can hold.

    `question` names what is asked and everything that the answer depends on: full object names,
    paths, numbers. 422 `too_expensive` when git has no answer in time, and then for ten minutes.
    """
    key = key_of(question)
    if (kept := find(repo, key)) is not None:
        if not kept:
            raise too_expensive()
        return json.loads(zlib.decompress(kept))
    begun = Event.objects.newest_id()
    now = timezone.now()
    try:
        answer = ask()
    except GitTimeout:
        try_to_keep(repo, key, b"", now + SLOW)
        raise too_expensive() from None
    ends_at = None
    if isinstance(answer, ForNow):
        answer, ends_at = answer.answer, now + SLOW
    try_to_keep(repo, key, zlib.compress(json.dumps(answer)), ends_at)
    if FORGOTTEN.first(since=begun):
        GitCache.objects.filter(repo=repo, key=key).delete()  # it may be about that commit
    return answer


def find(repo: Repo, key: str) -> bytes | None:
    """The kept answer, packed: empty where git took too long. None where there is none."""
    found = KEPT.first(repo=repo.pk, key=key)
    now = timezone.now()
    if found is None or (found.ends_at is not None and found.ends_at <= now):
        return None
    if now - found.used_at > TOUCH:
        with suppress(OperationalError), without_waiting():
            GitCache.objects.filter(pk=found.pk).update(used_at=now)
    return bytes(found.value)


def key_of(question: tuple[Any, ...]) -> str:
    """What a question is kept under."""
    return hashlib.sha256(
        repr((VERSION, *question)).encode("utf-8", "backslashreplace")
    ).hexdigest()


def try_to_keep(repo: Repo, key: str, value: bytes, ends_at: dt.datetime | None) -> None:
    """As `keep`. Who asked gets the answer all the same, and at once, where the database does not
    take it: others write, or the repository has gone meanwhile.
    """
    try:
        with without_waiting():
            keep(repo, key, value, ends_at)
    except DatabaseError:
        logger.warning("an answer of git about %s could not be kept", repo.uuid, exc_info=True)


def keep(repo: Repo, key: str, value: bytes, ends_at: dt.datetime | None) -> None:
    """Store an answer, and forget those that were not used for longest until there is room."""
    if len(value) > ROOM:
        return
    fields = {"value": value, "bytes": len(value) + ROW, "ends_at": ends_at}
    GitCache.objects.bulk_create(
        [GitCache(repo=repo, key=key, used_at=timezone.now(), **fields)],
        update_conflicts=True,
        unique_fields=["repo", "key"],
        update_fields=["used_at", *fields],
    )
    answers = GitCache.objects.filter(repo=repo)
    over = (answers.aggregate(all=Sum("bytes"))["all"] or 0) - ROOM
    gone = []
    if over > 0:
        for pk, size in answers.order_by("used_at").values_list("pk", "bytes").iterator():
            gone.append(pk)
            over -= size
            if over <= 0:
                break
        answers.filter(pk__in=gone).delete()


def drop_answers() -> None:
    """Forget all answers, of every repository."""
    GitCache.objects.all().delete()


def too_expensive() -> Invalid:
    """422 for what git cannot tell in time: to try again is of no use, to ask for less is."""
    return Invalid(
        "too_expensive",
        "This takes git too long. Ask for less: another ref, one path, or a later `since`.",
    )

"""Git's answers, cached in the database by the question.

An answer about full object names never changes, so a cached one is never out of date. A repository
has 64 MB of them; the least recently used are removed first. They are JSON packed by zlib, in which
each byte of a path or patch is one character.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson
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
from apps.git.blame import BlamedCommit, BlamedRange
from apps.git.diff import Changes, FileChange
from apps.git.log import Commit, Signature
from apps.git.run import GitTimeout
from apps.repos.models import Repo

logger = logging.getLogger(__name__)

BYTES_MAX = 64 * 1000 * 1000
"""Most bytes of the packed answers of one repository."""
ROW_BYTES = 500
"""Roughly the bytes of a row besides its answer. Otherwise short answers would have no limit."""
SLOW = dt.timedelta(minutes=10)
"""Time in which a question is not repeated after git took too long to answer it."""
TOUCH = dt.timedelta(hours=1)
"""Least time between two updates of `used_at`, so that reads rarely write."""
VERSION = 1
"""Increase it when the format of answers changes."""
Question = tuple[object, ...]
Patches = Mapping[bytes, bytes | None]
"""Path -> hunks. None for a file whose hunks are too large."""
CACHED = Statement(lambda: GitCache.objects.filter(repo=Parameter("repo"), key=Parameter("key")))
FORGOTTEN = Statement(
    lambda: Event.objects.filter(
        id__gt=Parameter("since"), kind=Kind.COMMIT_FORGOTTEN.value
    ).values_list("id")[:1]
)
ENCODING = "latin-1"


@dataclass(frozen=True)
class ForNow:
    """An answer that is incomplete, because time ran out. It is cached for `SLOW` only."""

    answer: object


def cached(repo: Repo, question: Question, ask: Callable[[], Any]) -> Any:
    """The cached answer to a question, else the answer of `ask`, as JSON; see `pack`.

    `question` contains everything that the answer depends on: full object names, paths, numbers.
    422 `too_expensive` if git does not answer in time, and for the ten minutes after that.
    """
    key = key_of(question)
    if (value := find(repo, key)) is not None:
        if not value:
            raise too_expensive()
        return unpack(value)
    begun = Event.objects.newest_id()
    now = timezone.now()
    try:
        answer = ask()
    except GitTimeout:
        try_to_store(repo, key, b"", now + SLOW)
        raise too_expensive() from None
    ends_at = None
    if isinstance(answer, ForNow):
        answer, ends_at = answer.answer, now + SLOW
    packed = pack(answer)
    try_to_store(repo, key, packed, ends_at)
    if FORGOTTEN.first(since=begun):
        GitCache.objects.filter(repo=repo, key=key).delete()  # the answer may contain that commit
    return unpack(packed)


def cached_patches(
    repo: Repo, question: Question, files: Sequence[FileChange], ask: Callable[[], Patches]
) -> list[bytes | None]:
    """The cached patches of these files, else those of `ask`; see `apps.git.diff.patches`.

    `question` contains the two commits; see `cached`.
    """

    def read() -> list[bytes | None]:
        patches = ask()
        return [patches[file.path] for file in files]

    if not files:
        return []
    patches = cached(repo, (*question, *(file.path for file in files)), read)
    return [decode_bytes(patch) for patch in patches]


def find(repo: Repo, key: str) -> bytes | None:
    """The packed answer in the cache; empty if git took too long, None if there is none."""
    cache = CACHED.first(repo=repo.pk, key=key)
    now = timezone.now()
    if cache is None or (cache.ends_at is not None and cache.ends_at <= now):
        return None
    if now - cache.used_at > TOUCH:
        with suppress(OperationalError), without_waiting():
            GitCache.objects.filter(pk=cache.pk).update(used_at=now)
    return bytes(cache.value)


def key_of(question: Question) -> str:
    return hashlib.sha256(
        repr((VERSION, *question)).encode("utf-8", "backslashreplace")
    ).hexdigest()


def try_to_store(repo: Repo, key: str, value: bytes, ends_at: dt.datetime | None) -> None:
    """Store an answer, but do not wait for other transactions."""
    try:
        with without_waiting():
            store(repo, key, value, ends_at)
    except DatabaseError:  # another request writes, or the repository was just deleted
        logger.warning("an answer of git about %s could not be cached", repo.uuid, exc_info=True)


def store(repo: Repo, key: str, value: bytes, ends_at: dt.datetime | None) -> None:
    """Store an answer; delete the least recently used ones if all together exceed `BYTES_MAX`."""
    if len(value) > BYTES_MAX:
        return
    fields = {"value": value, "bytes": len(value) + ROW_BYTES, "ends_at": ends_at}
    GitCache.objects.bulk_create(
        [GitCache(repo=repo, key=key, used_at=timezone.now(), **fields)],
        update_conflicts=True,
        unique_fields=["repo", "key"],
        update_fields=["used_at", *fields],
    )
    answers = GitCache.objects.filter(repo=repo)
    over = (answers.aggregate(total=Sum("bytes"))["total"] or 0) - BYTES_MAX
    if over > 0:
        oldest = []
        for pk, size in answers.order_by("used_at").values_list("pk", "bytes").iterator():
            oldest.append(pk)
            over -= size
            if over <= 0:
                break
        answers.filter(pk__in=oldest).delete()


def drop_answers() -> None:
    """Delete the cached answers of all repositories."""
    GitCache.objects.all().delete()


def too_expensive() -> Invalid:
    """422 if git cannot answer in time. Clients should not try again, but ask for less."""
    return Invalid(
        "too_expensive",
        "This takes git too long. Ask for less: another ref, one path, or a later `since`.",
    )


def pack(answer: object) -> bytes:
    """Pack an answer for storing. Dataclasses become JSON objects, bytes texts in `ENCODING`."""
    return zlib.compress(orjson.dumps(answer, lambda content: content.decode(ENCODING)))


def unpack(value: bytes) -> Any:
    return json.loads(zlib.decompress(value))


def decode_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode(ENCODING)


def decode_commit(fields: dict[str, Any]) -> Commit:
    return Commit(**{**fields, **_signatures(fields), "parents": tuple(fields["parents"])})


def _signatures(fields: dict[str, Any]) -> dict[str, Signature]:
    return {role: Signature(**fields[role]) for role in ("author", "committer")}


def decode_file(fields: dict[str, Any]) -> FileChange:
    paths = {name: decode_bytes(fields[name]) for name in ("path", "previous_path")}
    return FileChange(**{**fields, **paths})


def decode_changes(fields: dict[str, Any]) -> Changes:
    return Changes(**{**fields, "files": tuple(map(decode_file, fields["files"]))})


def decode_range(fields: dict[str, Any]) -> BlamedRange:
    commit = BlamedCommit(**{**fields["commit"], **_signatures(fields["commit"])})
    path = decode_bytes(fields["original_path"])
    return BlamedRange(**{**fields, "commit": commit, "original_path": path})

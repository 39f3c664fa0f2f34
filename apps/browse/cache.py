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
from dataclasses import asdict, dataclass
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
from apps.git.blame import BlamedCommit, BlamedRange
from apps.git.diff import Changes, FileChange
from apps.git.log import Commit, Signature
from apps.git.run import GitTimeout
from apps.repos.models import Repo

logger = logging.getLogger(__name__)

BYTES_MAX = 64 * 1000 * 1000
"""Bytes that one repository's answers take, packed."""
ROW_BYTES = 500
"""Bytes that a row takes beside its answer, roughly: anybody can ask for many short answers."""
SLOW = dt.timedelta(minutes=10)
"""Git is not asked again within this time after it was too slow to answer."""
TOUCH = dt.timedelta(hours=1)
"""A use is noted only if the noted one is older than this: reads should rarely write."""
VERSION = 1
"""Raise it when answers get another form."""
Patches = Mapping[bytes, bytes | None]
"""Path -> hunks; None for a file whose hunks are too large."""
CACHED = Statement(lambda: GitCache.objects.filter(repo=Parameter("repo"), key=Parameter("key")))
FORGOTTEN = Statement(
    lambda: Event.objects.filter(
        id__gt=Parameter("since"), kind=Kind.COMMIT_FORGOTTEN.value
    ).values_list("id")[:1]
)


@dataclass(frozen=True)
class ForNow:
    """An incomplete answer, because time ran out: cached for `SLOW` only."""

    answer: Any


def cached(repo: Repo, question: tuple[Any, ...], ask: Callable[[], Any]) -> Any:
    """The cached answer to the question, else that of `ask`, as JSON: see `codec.pack`.

    `question` names what is asked and everything that the answer depends on: full object names,
    paths, numbers. 422 `too_expensive` when git has no answer in time, and then for ten minutes.
    """
    key = key_of(question)
    if (stored := find(repo, key)) is not None:
        if not stored:
            raise too_expensive()
        return unpack(stored)
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
        GitCache.objects.filter(repo=repo, key=key).delete()  # it may be about that commit
    return unpack(packed)


def cached_patches(
    repo: Repo,
    question: tuple[Any, ...],
    files: Sequence[FileChange],
    ask: Callable[[], Patches],
) -> list[bytes | None]:
    """The cached patch of each of these files, else that of `ask`; see `apps.git.diff.patches`.

    `question` names the two commits, as for `cached`.
    """

    def encoded() -> list[str | None]:
        patches = ask()
        return [encode_bytes(patches[file.path]) for file in files]

    if not files:
        return []
    patches = cached(repo, (*question, *(file.path for file in files)), encoded)
    return [decode_bytes(patch) for patch in patches]


def find(repo: Repo, key: str) -> bytes | None:
    """The cached answer, packed: empty if git took too long. None if there is none."""
    cache = CACHED.first(repo=repo.pk, key=key)
    now = timezone.now()
    if cache is None or (cache.ends_at is not None and cache.ends_at <= now):
        return None
    if now - cache.used_at > TOUCH:
        with suppress(OperationalError), without_waiting():
            GitCache.objects.filter(pk=cache.pk).update(used_at=now)
    return bytes(cache.value)


def key_of(question: tuple[Any, ...]) -> str:
    """The cache key of a question."""
    return hashlib.sha256(
        repr((VERSION, *question)).encode("utf-8", "backslashreplace")
    ).hexdigest()


def try_to_store(repo: Repo, key: str, value: bytes, ends_at: dt.datetime | None) -> None:
    """As `store`. Errors of the database are logged: another request writes, or the repository was
    deleted meanwhile. The answer is given all the same, without waiting.
    """
    try:
        with without_waiting():
            store(repo, key, value, ends_at)
    except DatabaseError:
        logger.warning("an answer of git about %s could not be cached", repo.uuid, exc_info=True)


def store(repo: Repo, key: str, value: bytes, ends_at: dt.datetime | None) -> None:
    """Store an answer, and delete the least recently used ones beyond `BYTES_MAX`."""
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
    over = (answers.aggregate(all=Sum("bytes"))["all"] or 0) - BYTES_MAX
    gone = []
    if over > 0:
        for pk, size in answers.order_by("used_at").values_list("pk", "bytes").iterator():
            gone.append(pk)
            over -= size
            if over <= 0:
                break
        answers.filter(pk__in=gone).delete()


def drop_answers() -> None:
    """Delete all cached answers, of every repository."""
    GitCache.objects.all().delete()


def too_expensive() -> Invalid:
    """422 for what git cannot tell in time: to try again is of no use, to ask for less is."""
    return Invalid(
        "too_expensive",
        "This takes git too long. Ask for less: another ref, one path, or a later `since`.",
    )


ENCODING = "latin-1"


def pack(answer: Any) -> bytes:
    """An answer as it is stored: JSON, in which a dataclass without bytes is an object."""
    return zlib.compress(json.dumps(answer))


def unpack(stored: bytes) -> Any:
    """The JSON that `pack` was given."""
    return json.loads(zlib.decompress(stored))


def encode_bytes(content: bytes | None) -> str | None:
    return None if content is None else content.decode(ENCODING)


def decode_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode(ENCODING)


def decode_commit(fields: dict[str, Any]) -> Commit:
    return Commit(**{**fields, **_signatures(fields), "parents": tuple(fields["parents"])})


def _signatures(fields: dict[str, Any]) -> dict[str, Signature]:
    return {role: Signature(**fields[role]) for role in ("author", "committer")}


def encode_file(file: FileChange) -> dict[str, Any]:
    fields = _fields(file)
    return {**fields, **{name: encode_bytes(fields[name]) for name in ("path", "previous_path")}}


def decode_file(fields: dict[str, Any]) -> FileChange:
    paths = {name: decode_bytes(fields[name]) for name in ("path", "previous_path")}
    return FileChange(**{**fields, **paths})


def encode_changes(changes: Changes) -> dict[str, Any]:
    return {**_fields(changes), "files": [encode_file(file) for file in changes.files]}


def decode_changes(fields: dict[str, Any]) -> Changes:
    return Changes(**{**fields, "files": tuple(map(decode_file, fields["files"]))})


def _fields(value: Any) -> dict[str, Any]:
    # `asdict` copies each value: for some hundred files that takes longer than git.
    return {name: getattr(value, name) for name in value.__slots__}


def encode_range(blamed: BlamedRange) -> dict[str, Any]:
    return {**asdict(blamed), "original_path": encode_bytes(blamed.original_path)}


def decode_range(fields: dict[str, Any]) -> BlamedRange:
    commit = BlamedCommit(**{**fields["commit"], **_signatures(fields["commit"])})
    path = decode_bytes(fields["original_path"])
    return BlamedRange(**{**fields, "commit": commit, "original_path": path})


def pack_commits(commits: Sequence[Commit]) -> bytes:
    return pack(commits)


def unpack_commits(stored: bytes) -> list[Commit]:
    return [decode_commit(fields) for fields in unpack(stored)]


def pack_files(files: Sequence[FileChange]) -> bytes:
    return pack([encode_file(file) for file in files])


def unpack_files(stored: bytes) -> list[FileChange]:
    return [decode_file(fields) for fields in unpack(stored)]

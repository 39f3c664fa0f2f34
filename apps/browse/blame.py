"""Which commit each line of a file is from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.browse.cache import cached
from apps.browse.codec import decode_range, encode_range
from apps.browse.names import Revision, shown_path
from apps.browse.objects import quick
from apps.browse.read_slots import heavy_slots
from apps.browse.trees import read_file
from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.git.blame import BlamedRange, blame
from apps.git.run import GitTimeout, GitTooLarge
from apps.repos.models import Repo

FILE_MAX = 1024 * 1024
"""Bytes of a file whose lines are told."""
LINES_MAX = 1000
"""Lines of one answer."""
LINES_DEFAULT = 500


@dataclass(frozen=True)
class Blame:
    """Where the lines `first` to `last` of `total` are from; of an empty file `last` is 0."""

    commit: str
    first: int
    last: int
    total: int
    ranges: Sequence[BlamedRange]


def blame_lines(
    repo: Repo, wanted: Revision, path: bytes, first: int, last: int | None, who: str
) -> Blame:
    """Blame these lines, or 500 from `first` on, as far as there are any. `who` asks, a person or
    an address.

    404; 422 `is_directory`, `not_a_file`, `file_too_large`, `line_not_found`, `too_expensive`,
    `validation_failed`.
    """
    check_lines(first, last)
    asked = wanted.sha, path, first, last
    answer = cached(repo, ("blame", *asked), lambda: ask(repo, wanted, path, first, last, who))
    return Blame(**{**answer, "ranges": [decode_range(fields) for fields in answer["ranges"]]})


def ask(
    repo: Repo, wanted: Revision, path: bytes, first: int, last: int | None, who: str
) -> dict[str, Any]:
    """The same from git, as it is cached."""
    with quick():
        commit, entry, content = read_file(repo, wanted, path, most=FILE_MAX)
        if entry.kind == "submodule":
            raise Invalid("not_a_file", "A submodule is a commit of another repository.")
        if entry.size is None or entry.size > FILE_MAX:
            text = f"{quoted(shown_path(path))} has more than {FILE_MAX} bytes."
            raise Invalid("file_too_large", text)
    total = content.count(b"\n") + (content[-1:] not in {b"", b"\n"})
    if first > max(1, total):
        raise Invalid("line_not_found", f"There is no line {first}: the file has {total}.")
    last = min(total, last or first + LINES_DEFAULT - 1)
    ranges = []
    if total:
        with heavy_slots.slot(who):
            try:
                ranges = [encode_range(one) for one in blame(repo.git, commit, path, first, last)]
            except GitTooLarge as error:
                raise GitTimeout(str(error)) from None  # so that this is cached as too expensive
    return {"commit": commit, "first": first, "last": last, "total": total, "ranges": ranges}


def check_lines(first: int, last: int | None) -> None:
    """422 for lines that run backwards, or are too many for one answer."""
    if last is not None and not first <= last < first + LINES_MAX:
        text = f"to: Must be an integer from `from` to {LINES_MAX - 1} more."
        raise Invalid("validation_failed", text)

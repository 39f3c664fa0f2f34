"""What `?ref=` and paths of a request mean. Names become commits in the database, never in git."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl

from django.conf import settings
from django.db.models import Exists
from django.http import HttpRequest

from apps.browse.read_slots import light_slots
from apps.core.errors import Invalid, NotFound
from apps.core.json import quoted
from apps.core.query import URL_SAFE_BASE64
from apps.git.repo import is_sha, valid_branch_name
from apps.git.tips import tip_of
from apps.repos.models import BRANCHES, TAGS, Ref, Repo

PULL_HEAD = re.compile(r"refs/pull/([1-9][0-9]{0,14})/head")
BASE64 = re.compile(URL_SAFE_BASE64)
PATH_MAX = 4096
"""Bytes, as Linux has it."""
FOLDERS_MAX = 500
"""How deep a path may lead: git reads a tree for each."""


@dataclass(frozen=True)
class Revision:
    """What a `?ref=` means: the full name of a branch, a tag or a pull's head, and its commit.

    `name` is empty where a commit itself was asked for, which need not exist.
    """

    name: str
    sha: str

    @property
    def is_here(self) -> bool:
        """Whether git has the commit for sure, since a branch or a tag leads to it."""
        return self.name.startswith((BRANCHES, TAGS))


class PullsOfCode(Protocol):
    """What reading code needs of pulls: the module of `settings.PULLS_OF_CODE`."""

    def head_of(self, repo: Repo, number: int) -> str | None:
        """The commit of a pull's head; None where there is none."""

    def open_numbers(self, repo: Repo, branches: list[str]) -> dict[str, list[int]]:
        """Source branch of this repository -> its open and draft pulls into it, ten at most."""

    def numbers_with(self, repo: Repo, sha: str) -> list[int]:
        """The pulls that have this commit as a head or that were merged by it, ten at most."""

    def from_source_of(self, repo: Repo) -> Exists:
        """The condition for rows with a `repo`: a pull comes from there into this repository."""


@cache
def pulls_of_code() -> PullsOfCode:
    """The module of `settings.PULLS_OF_CODE`."""
    return cast("PullsOfCode", import_module(settings.PULLS_OF_CODE))


def revision(repo: Repo, ref: str | None) -> Revision:
    """The commit that a `?ref=` names: the default branch without one.

    40 hexadecimal digits are always a commit, and a short name a branch before a tag. Full names
    are `refs/heads/…`, `refs/tags/…` and `refs/pull/<number>/head`. 422 `invalid_ref` for what can
    be no name, 404 for one that is not there, and for a tag of a file or a folder.
    """
    if ref is None:
        ref = BRANCHES + repo.default_branch
    if is_sha(ref):
        return Revision("", ref)
    if pull := PULL_HEAD.fullmatch(ref):
        found = {ref: pulls_of_code().head_of(repo, int(pull[1]))}
        names = [ref]
    else:
        names = full_names(ref)
        rows = repo.refs.filter(full_name__in=names)
        found = {row.full_name: commit_of(row) for row in rows}
    for name in names:
        if sha := found.get(name):
            return Revision(name, sha)
        if sha == "":
            raise NotFound("not_found", f"The ref {quoted(ref)} leads to no commit.")
    raise NotFound("not_found", f"There is no ref {quoted(ref)} here.")


def commit_of(ref: Ref) -> str:
    """The commit that a branch or tag leads to; "" for a tag of a file or a folder.

    git is asked only for a tag of which the worker has not done so yet.
    """
    if ref.peeled_sha is not None or not ref.is_tag:
        return ref.sha if ref.peeled_sha is None else ref.peeled_sha
    with light_slots.slot():
        return tip_of(ref.repo.git, ref.sha).commit


def full_names(ref: str) -> list[str]:
    """The full names that a name may stand for, the first one first; 422."""
    for namespace in (BRANCHES, TAGS):
        if ref.startswith(namespace) and valid_branch_name(ref.removeprefix(namespace)):
            return [ref]
    if ref.startswith("refs/") or not valid_branch_name(ref):
        raise invalid_ref(ref)
    return [BRANCHES + ref, TAGS + ref]


def invalid_ref(ref: str) -> Invalid:
    """422 for what can be no branch, tag or commit."""
    text = f"{quoted(ref)} is no name of a branch or tag, and no full commit name."
    return Invalid("invalid_ref", text)


def path_in_tree(path: str, path_base64: str | None = None) -> bytes:
    """The bytes of a path below the root, which is empty; 422 `invalid_path`.

    `path_base64` wins: paths that are not UTF-8 come so, in the URL-safe alphabet.
    """
    raw = path.encode("utf-8", "surrogateescape") if path_base64 is None else decoded(path_base64)
    parts = raw.split(b"/") if raw else []
    wrong = {b"", b".", b".."}
    if len(raw) > PATH_MAX or len(parts) > FOLDERS_MAX or b"\0" in raw or wrong & {*parts}:
        raise invalid_path()
    return raw


def path_in_query(request: HttpRequest, sent: Mapping[str, Any]) -> bytes:
    """The same of the parameters `path` and `path_base64`, which are in `sent`: there Django shows
    bytes that are not UTF-8 as U+FFFD, which a file may be called.
    """
    in_base64, query = sent.get("path_base64"), request.META.get("QUERY_STRING", "")
    raw = dict(parse_qsl(query, keep_blank_values=True, errors="surrogateescape")).get("path", "")
    if in_base64 is None and not is_utf8(raw.encode("utf-8", "surrogateescape")):
        raise path_is_no_text()
    return path_in_tree(sent.get("path", ""), in_base64)


def decoded(text: str) -> bytes:
    if not BASE64.fullmatch(text):
        raise invalid_path()
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), b"-_", True)
    except (binascii.Error, ValueError):
        raise invalid_path() from None


def invalid_path() -> Invalid:
    """422 for what can be no path of a file."""
    return Invalid("invalid_path", "This is no path: names with single slashes between them.")


def path_is_no_text() -> Invalid:
    """422 for a path in an address or a query that is not UTF-8."""
    text = "A path that is not UTF-8 is sent as `path_base64`, in the URL-safe alphabet."
    return Invalid("invalid_path", text)


def is_utf8(raw: bytes) -> bool:
    """Whether these bytes are text."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def shown_path(raw: bytes) -> str:
    """A path as records have it; what is not UTF-8 with U+FFFD."""
    return raw.decode("utf-8", "replace")


def path_fields(raw: bytes | None, name: str = "path") -> dict[str, str | None]:
    """`path` of a record, and `path_base64` where it is not UTF-8."""
    if raw is None:
        return {name: None}
    fields: dict[str, str | None] = {name: shown_path(raw)}
    if not is_utf8(raw):
        fields[f"{name}_base64"] = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    return fields

"""The commits and files that `?ref=` and paths of a request name.

Rows in the database lead from names to commits; git gets only full object names.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from django.http import HttpRequest

from apps.browse.cache import too_expensive
from apps.browse.read_slots import light_slots
from apps.core.errors import Invalid, NotFound
from apps.core.json import quoted
from apps.core.query import URL_SAFE_BASE64
from apps.core.statements import Parameter, Statement, parameters
from apps.git.refs import valid_branch_name
from apps.git.repo import GitRepo, is_sha
from apps.git.run import GitTimeout, GitTooLarge
from apps.git.tips import tip_of
from apps.git.tree import Entry, commits_of, entry_at
from apps.repos.models import BRANCHES, TAGS, Ref, Repo
from apps.repos.queries import pulls_of_code

PULL_HEAD = re.compile(r"refs/pull/([1-9][0-9]{0,14})/head")
BASE64 = re.compile(URL_SAFE_BASE64)
PATH_MAX = 4096
"""Bytes. The same as PATH_MAX of Linux."""
FOLDERS_MAX = 500
"""Most folders in a path, because git reads a tree for each."""


@dataclass(frozen=True)
class Revision:
    """The full name of a branch, a tag or a pull's head, and its commit.

    `name` is empty if the request named a commit. That commit need not exist.
    """

    name: str
    sha: str

    @property
    def is_here(self) -> bool:
        """Whether the commit certainly exists, because a branch or a tag points to it."""
        return self.name.startswith((BRANCHES, TAGS))


def revision(repo: Repo, ref: str | None) -> Revision:
    """The commit that a `?ref=` names. Without one it is that of the default branch.

    40 hexadecimal digits always name a commit. A short name is a branch or, if there is none, a
    tag. Full names are `refs/heads/…`, `refs/tags/…` and `refs/pull/<number>/head`. 422
    `invalid_ref` for an invalid name; 404 for a name that does not exist, or a tag of a file or a
    folder.
    """
    if ref is None:
        ref = BRANCHES + repo.default_branch
    if is_sha(ref):
        return Revision("", ref)
    if pull := PULL_HEAD.fullmatch(ref):
        commits = {ref: pulls_of_code().head_of(repo, int(pull[1]))}
        names = [ref]
    else:
        names = full_names(ref)
        rows = _refs_named(len(names)).all(repo=repo.pk, names=names)
        commits = {row.full_name: commit_of(row) for row in rows}
    for name in names:
        if sha := commits.get(name):
            return Revision(name, sha)
        if sha == "":
            raise NotFound("not_found", f"The ref {quoted(ref)} does not point to a commit.")
    raise NotFound("not_found", f"There is no ref {quoted(ref)} here.")


@cache
def _refs_named(count: int) -> Statement:
    """Selects the refs of a repository with this many names."""
    named = {"repo": Parameter("repo"), "full_name__in": parameters("names", count)}
    return Statement(lambda: Ref.objects.filter(**named))


def commit_of(ref: Ref) -> str:
    """The commit that a branch or tag points to; "" for a tag of a file or a folder.

    Runs git only for a tag that the worker has not read yet.
    """
    if ref.peeled_sha is not None or not ref.is_tag:
        return ref.sha if ref.peeled_sha is None else ref.peeled_sha
    with light_slots.slot():
        return tip_of(ref.repo.git, ref.sha).commit


def full_names(ref: str) -> list[str]:
    """The possible full names of a name, in order of precedence; 422 `invalid_ref`."""
    for namespace in (BRANCHES, TAGS):
        if ref.startswith(namespace) and valid_branch_name(ref.removeprefix(namespace)):
            return [ref]
    if ref.startswith("refs/") or not valid_branch_name(ref):
        raise invalid_ref(ref)
    return [BRANCHES + ref, TAGS + ref]


def invalid_ref(ref: str) -> Invalid:
    text = f"{quoted(ref)} is neither the name of a branch or tag nor a full commit name."
    return Invalid("invalid_ref", text)


def path_in_tree(path: str, path_base64: str | None = None) -> bytes:
    """The bytes of a path below the root, whose path is empty; 422 `invalid_path`.

    `path_base64` takes precedence. It is for paths that are not UTF-8.
    """
    raw = path.encode("utf-8", "surrogateescape") if path_base64 is None else decoded(path_base64)
    parts = raw.split(b"/") if raw else []
    reserved = {b"", b".", b".."}
    if len(raw) > PATH_MAX or len(parts) > FOLDERS_MAX or b"\0" in raw or reserved & {*parts}:
        raise invalid_path()
    return raw


def path_in_query(request: HttpRequest, parameters: Mapping[str, Any]) -> bytes:
    """The path in the query parameters `path` and `path_base64`; 422 `invalid_path`.

    In `parameters`, Django has replaced bytes that are not UTF-8 by U+FFFD. A file name may contain
    U+FFFD, so the query string itself is checked.
    """
    in_base64, query = parameters.get("path_base64"), request.META.get("QUERY_STRING", "")
    raw = dict(parse_qsl(query, keep_blank_values=True, errors="surrogateescape")).get("path", "")
    if in_base64 is None and not is_utf8(raw.encode("utf-8", "surrogateescape")):
        raise path_is_no_text()
    return path_in_tree(parameters.get("path", ""), in_base64)


def raw_path_of(request: HttpRequest) -> bytes:
    """The bytes of the path of the URL, if the server passes them on.

    In `request.path`, bytes that are not UTF-8 become `%FF` or U+FFFD, depending on the server. A
    file name may contain both.
    """
    raw = request.META.get("RAW_URI", "").partition("?")[0]
    return unquote_to_bytes(raw or request.path)


def decoded(text: str) -> bytes:
    if not BASE64.fullmatch(text):
        raise invalid_path()
    digits = text.rstrip("=")
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4), b"-_", validate=True)
    except ValueError:
        raise invalid_path() from None


def invalid_path() -> Invalid:
    text = "This is not a path. A path is names with single slashes between them."
    return Invalid("invalid_path", text)


def path_is_no_text() -> Invalid:
    text = "Send a path that is not UTF-8 as `path_base64`, in the URL-safe alphabet."
    return Invalid("invalid_path", text)


def is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def shown_path(raw: bytes) -> str:
    """A path as text, with U+FFFD in place of bytes that are not UTF-8."""
    return raw.decode("utf-8", "replace")


def path_fields(raw: bytes | None, name: str = "path") -> dict[str, str | None]:
    """The field `path` of a record, and `path_base64` if the path is not UTF-8."""
    if raw is None:
        return {name: None}
    fields: dict[str, str | None] = {name: shown_path(raw)}
    if not is_utf8(raw):
        fields[f"{name}_base64"] = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    return fields


@contextmanager
def quick() -> Iterator[None]:
    """Hold a slot for a quick answer of git; 422 `too_expensive` if it takes too long."""
    with light_slots.slot():
        try:
            yield
        except (GitTimeout, GitTooLarge):
            raise too_expensive() from None


def find_commit(repo: Repo, rev: Revision) -> str:
    """The commit of a revision; 404. Runs git for full object names, which may be tags or not
    exist, and for heads of pulls, whose commit may have been removed for good.
    """
    return rev.sha if rev.is_here else find_commits(repo.git, rev.sha)[0]


def find_commits(git: GitRepo, *shas: str) -> list[str]:
    """The commits with these full names, or of the tags with these full names; 404."""
    return check_commits(shas, commits_of(git, *shas))


def check_commits(shas: Sequence[str], commits: Sequence[str | None]) -> list[str]:
    """The commits, if none is None; else 404 with the name of the first that is."""
    for sha, commit in zip(shas, commits, strict=True):
        if commit is None:
            raise no_commit(sha)
    return [commit for commit in commits if commit is not None]


def no_commit(sha: str) -> NotFound:
    return NotFound("not_found", f"There is no ref {quoted(sha)} here: no such commit.")


def find_entry(repo: Repo, commit: str, path: bytes) -> Entry:
    """The entry of a commit at a path, which is not empty; 404."""
    entry = entry_at(repo.git, commit, path)
    if entry is None:
        raise no_entry(path, commit)
    return entry


def find_tree(repo: Repo, commit: str, path: bytes) -> str:
    """The tree of a folder, or the commit itself for the root; 404, 422 `not_a_directory`."""
    if not path:
        return commit
    entry = find_entry(repo, commit, path)
    if entry.kind != "directory":
        text = f"{quoted(shown_path(path))} is not a directory but a {entry.kind}."
        raise Invalid("not_a_directory", text)
    return entry.sha


def no_entry(path: bytes, commit: str) -> NotFound:
    text = f"There is no path {quoted(shown_path(path))} in commit {commit}."
    return NotFound("not_found", text)

"""Commits and changes as kept answers have them: what JSON can hold, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.git.diff import Changes, FileChange
from apps.git.log import Commit, Signature


def kept_commit(commit: Commit) -> dict[str, Any]:
    people = {"author": shallow(commit.author), "committer": shallow(commit.committer)}
    return {**shallow(commit), **people}


def shallow(one: Any) -> dict[str, Any]:
    """The fields of an instance of a dataclass with slots. `asdict` copies each value, and takes
    longer for some hundred of them than git for all that it tells.
    """
    return {name: getattr(one, name) for name in one.__slots__}


def commit_of_kept(kept: dict[str, Any]) -> Commit:
    people = {role: Signature(**kept[role]) for role in ("author", "committer")}
    return Commit(**{**kept, **people, "parents": tuple(kept["parents"])})


def kept_changes(changes: Changes) -> dict[str, Any]:
    """Each byte of a path becomes a character."""
    files = [
        _with_paths(shallow(file), lambda path: path.decode("latin-1")) for file in changes.files
    ]
    return {**shallow(changes), "files": files}


def changes_of_kept(kept: dict[str, Any]) -> Changes:
    with_bytes = (_with_paths(file, lambda path: path.encode("latin-1")) for file in kept["files"])
    return Changes(**{**kept, "files": tuple(FileChange(**fields) for fields in with_bytes)})


def _with_paths(fields: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    both = {name: fields[name] for name in ("path", "previous_path")}
    return {**fields, **{name: path and change(path) for name, path in both.items()}}

"""Commits made of texts in memory. What is written are objects; no ref moves."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from apps.git.repo import GitRepo, Person, is_sha


def write_commit(
    repo: GitRepo,
    files: Mapping[str, str],
    *,
    parents: Sequence[str] = (),
    author: Person,
    when: datetime,
    message: str,
) -> str:
    """Commit exactly these files, path -> text, and return the commit's name.

    `when` has an offset. `ValueError` for paths that no clone could check out.
    """
    if not all(map(is_sha, parents)):
        raise ValueError(f"no full object names: {parents!r}")
    who = f"{author.name} <{author.email}> {int(when.timestamp())} {when.strftime('%z')[:5]}"
    header = [f"tree {_write_tree(repo, files)}", *(f"parent {parent}" for parent in parents)]
    header += [f"author {who}", f"committer {who}"]
    return _write(repo, "commit", "\n".join([*header, "", f"{message}\n"]).encode())


def _write_tree(repo: GitRepo, files: Mapping[str, str]) -> str:
    folders: dict[str, dict[str, str]] = {}
    entries: dict[str, tuple[str, str, str]] = {}
    for path, text in files.items():
        first, *rest = PurePosixPath(path).parts
        if first.lower() in {"/", "..", ".git"} or "\0" in first:
            raise ValueError(f"no path of a file: {path!r}")
        if rest:
            folders.setdefault(first, {})["/".join(rest)] = text
        else:
            entries[first] = ("100644", first, _write(repo, "blob", text.encode()))
    for name, inside in folders.items():
        # git sorts a folder as if its name ended in a slash.
        entries[f"{name}/"] = ("40000", name, _write_tree(repo, inside))
    return _write(repo, "tree", b"".join(_entry(*entries[key]) for key in sorted(entries)))


def _entry(mode: str, name: str, sha: str) -> bytes:
    return f"{mode} {name}\0".encode() + bytes.fromhex(sha)


def _write(repo: GitRepo, kind: str, content: bytes) -> str:
    return repo.git("hash-object", "-t", kind, "-w", "--stdin", stdin=content).word

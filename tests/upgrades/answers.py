"""Everything that people can read of the installation in a fixture, over the API and git."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.gitclient import Git
from tests.server import Server

OF_ALICE = [
    "/users/self",
    "/users/dave",
    "/teams",
    "/teams/acme",
    "/teams/acme/members",
    "/api-tokens",
    "/pings",
    "/threads?per_page=100",
    "/pulls?per_page=100",
]
OF_SAM = ["/teams?all=true", "/signup-invites", "/rate-limits", "/site-settings"]
REPOS = [
    "/teams/acme/repos/hello",
    "/teams/acme/repos/tide-table",
    "/users/dave/repos/tide-table",
    "/users/alice/repos/notes",
]
OF_REPO = ["", "/branches", "/tags", "/protections", "/forks", "/commits"]
OF_THREAD = ["", "/participants", "/versions", "/replies/2/versions"]
OF_PULL = ["", "/reviews", "/versions", "/commits", "/files", "/protection"]


def answers(server: Server, folder: Path) -> dict[str, Any]:
    """The body of each answer by its path; the folder is for clones."""
    return {
        **dict(records(server)),
        "events": events(server),
        "uploads": uploads(server),
        "heads": {repo: heads(server, repo, folder) for repo in REPOS},
    }


def records(server: Server) -> Iterator[tuple[str, Any]]:
    alice, sam = server.api("alice"), server.api("sam")
    yield from ((path, without_use(alice.get(path).gives())) for path in OF_ALICE)
    yield from ((path, without_use(sam.get(path).gives())) for path in OF_SAM)
    for repo in REPOS:
        paths = [repo + path for path in OF_REPO]
        for kind, below in (("threads", OF_THREAD), ("pulls", OF_PULL)):
            for row in alice.get(f"{repo}/{kind}?per_page=100").gives()["results"]:
                paths += [f"{repo}/{kind}/{row['number']}{path}" for path in below]
        read = ((path, alice.get(path)) for path in paths)
        yield from ((path, answer.json) for path, answer in read if answer.status == 200)


def without_use(page: dict[str, Any]) -> dict[str, Any]:
    """Without the use of tokens, which reading changes."""
    for row in page.get("results", ()):
        row.pop("last_used_at", None)
    return page


def events(server: Server) -> list[Any]:
    """All events that alice may read of her team and of herself, newest first."""
    found: list[Any] = []
    for scope in ("team:acme", "self"):
        path = f"/events?scope={scope}&per_page=100"
        while page := server.api("alice").get(path).gives()["results"]:
            found += page
            path = f"/events?scope={scope}&per_page=100&before_id={page[-1]['id']}"
    return found


def uploads(server: Server) -> dict[str, str]:
    """The SHA-256 of each upload that a text names, by its path."""
    text = server.api("alice").get("/users/alice/repos/notes/threads/1").gives()["body"]
    paths = re.findall(r"http://[\w.]+(/[\w/.-]+)", text)
    return {path: hashlib.sha256(content(server, path)).hexdigest() for path in paths}


def content(server: Server, path: str) -> bytes:
    with closing(server.connect()) as connection:
        headers = {"Authorization": f"Bearer {server.token('alice')}"}
        connection.request("GET", path, headers=headers)
        return connection.getresponse().read()


def heads(server: Server, repo: str, folder: Path) -> list[str]:
    """The refs of a repository with their commits, as git clones them."""
    name = repo.replace("/", "-").strip("-")
    git = Git(
        folder / name, f"{server.url}{repo.replace('/repos/', '/')}.git", server.token("alice")
    )
    git("fetch", "--quiet", "--no-auto-gc", git.url, "+refs/*:refs/fetched/*")
    return git("ls-remote", git.url).splitlines()


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """The old values that are missing or changed. New fields are no difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            if name in new:
                yield from differences(value, new[name], f"{where} {name}")
            else:
                yield f"{where} {name} is missing"
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{where} {number}")
    elif old != new:
        yield f"{where}: {old!r} became {new!r}"

"""The questions of bench/serve.py for a running Gitea or Forgejo, by version 1 of its API."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from bench.load import Question


def ask_gitea(url: str, token: str, repo: str, pid: int) -> dict[str, Question]:
    """The rows of the table for the repository `owner/name`.

    It is public, because pages are read without signing in. It has issues, of which the newest 50
    include one with 50 comments, an open pull, and a folder with a file.
    """
    api, signed = f"/api/v1/repos/{repo}", {"Authorization": f"token {token}"}
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)

    def read(path: str) -> Any:
        connection.request("GET", f"{api}{path}", headers=signed)
        return orjson.loads(connection.getresponse().read())

    branch = read("")["default_branch"]
    issues = sorted(read("/issues?type=issues&limit=50"), key=lambda issue: -issue["comments"])
    comments = [f"{api}/issues/{issue['number']}/comments" for issue in issues]
    pull = f"{api}/pulls/{read('/pulls?state=open&limit=1')[0]['number']}"
    folder = first(read("/contents"), "dir")
    while not (file := first(read(f"/contents/{folder}"), "file")):
        folder = first(read(f"/contents/{folder}"), "dir")
    write = Question(url, pid, tuple(comments[1:]), signed, '{"body": "At noon."}')
    reads = reads_of(api, comments[0], pull, folder, file)
    return {
        **{row: Question(url, pid, (path,), signed) for row, path in reads.items()},
        "a new reply, with its event": write,
        **{
            row: Question(url, pid, (path,), {})
            for row, path in pages_of(repo, branch, folder).items()
        },
    }


def reads_of(api: str, comments: str, pull: str, folder: str, file: str) -> dict[str, str]:
    """The paths of the rows that read by the API, below the address `api` of the repository."""
    owner = api.split("/")[4]
    return {
        "oneself": "/api/v1/user",
        "a repository": api,
        "50 repositories": f"/api/v1/users/{owner}/repos?limit=50",
        "50 threads": f"{api}/issues?type=issues&limit=50",
        "50 replies": f"{comments}?limit=50",
        "50 pulls": f"{api}/pulls?limit=50",
        "a pull": pull,
        "30 changed files of a pull": f"{pull}/files?limit=50",
        "50 branches": f"{api}/branches?limit=50",
        "50 commits": f"{api}/commits?limit=50&stat=false&verification=false&files=false",
        "a file": f"{api}/contents/{file}",
        "a folder": f"{api}/contents/{folder}",
        "a raw file": f"{api}/raw/{file}",
    }


def pages_of(repo: str, branch: str, folder: str) -> dict[str, str]:
    """The paths of the rows for pages."""
    return {
        "page: repository": f"/{repo}",
        "page: threads": f"/{repo}/issues",
        "page: commits": f"/{repo}/commits/branch/{branch}",
        "page: folder": f"/{repo}/src/branch/{branch}/{folder}",
    }


def first(entries: list[dict[str, Any]], kind: str) -> str:
    """The path of the first file or directory, "" without one."""
    return next((quote(entry["path"]) for entry in entries if entry["type"] == kind), "")

"""The questions of bench/serve.py for a running Gitea or Forgejo, by its API of version 1.

The repository has to have issues with comments, open pulls, and a folder with a file.
"""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import orjson

from bench.load import Question


def ask_gitea(url: str, token: str, repo: str, pid: int) -> dict[str, Question]:
    """The rows of the table. Pages are read without signing in, so the repository is public."""
    api, signed = f"/api/v1/repos/{repo}", {"Authorization": f"token {token}"}

    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)

    def read(path: str) -> Any:
        connection.request("GET", f"{api}{path}", headers=signed)
        return orjson.loads(connection.getresponse().read())

    def ask(path: str, **headers: str) -> Question:
        return Question(url, pid, (path,), headers)

    branch = read("")["default_branch"]
    issues = read("/issues?type=issues&sort=mostcomment&limit=50")
    longest, pull = issues[0]["number"], f"{api}/pulls/{read('/pulls?limit=1')[0]['number']}"
    folder = next(each["path"] for each in read("/contents") if each["type"] == "dir")
    file = ""
    while not file:
        entries = read(f"/contents/{folder}")
        files = [each["path"] for each in entries if each["type"] == "file"]
        file, folder = (files[0], folder) if files else ("", entries[0]["path"])
    comments = tuple(f"{api}/issues/{each['number']}/comments" for each in issues[1:])
    paths = {
        "oneself": "/api/v1/user",
        "a repository": api,
        "50 repositories": f"/api/v1/users/{repo.partition('/')[0]}/repos?limit=50",
        "50 threads": f"{api}/issues?type=issues&limit=50",
        "50 replies": f"{api}/issues/{longest}/comments?limit=50",
        "50 pulls": f"{api}/pulls?limit=50",
        "a pull": pull,
        "30 changed files of a pull": f"{pull}/files?limit=50",
        "50 branches": f"{api}/branches?limit=50",
        "50 commits": f"{api}/commits?limit=50&stat=false&verification=false&files=false",
        "a file": f"{api}/contents/{file}",
        "a folder": f"{api}/contents/{folder}",
        "a raw file": f"{api}/raw/{file}",
    }
    pages = {
        "page: repository": f"/{repo}",
        "page: threads": f"/{repo}/issues",
        "page: commits": f"/{repo}/commits/branch/{branch}",
        "page: folder": f"/{repo}/src/branch/{branch}/{folder}",
    }
    write = Question(url, pid, comments, signed, '{"body": "At noon."}')
    return {
        **{words: ask(path, **signed) for words, path in paths.items()},
        "a new reply, with its event": write,
        **{words: ask(path) for words, path in pages.items()},
    }

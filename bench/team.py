"""The data of bench/serve.py, made over HTTP, so that any checkout can make it."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from tests.server import Server

TEAM = "/teams/bench"
REPO = f"{TEAM}/repos/large"
PASSWORD = "a long password of the benchmark"  # noqa: S105 - of a server that ends with this run
CLIENTS = 4
COMMITS, FILES, REPLIES = 300, 200, 50
FIRST_COMMIT = 1_700_000_000
CHANGED = 30
"""Files that the first pull changes; the others change two."""
SET_PASSWORD = f"""
from apps.accounts.models import User
alice = User.objects.get(username="alice")
alice.set_password({PASSWORD!r})
alice.save()
"""


@dataclass(frozen=True)
class Size:
    repos: int
    threads: int
    pulls: int


@dataclass(frozen=True)
class Data:
    """The credentials of a person, and the numbers of her threads and pulls; `threads[0]` has 50
    replies, `pulls[0]` changes many files.
    """

    token: str
    session: str
    threads: list[int]
    pulls: list[int]


class Client:
    """A person's connection to the API."""

    def __init__(self, server: Server, person: str) -> None:
        self.connection = server.connect()
        self.headers = {
            "Authorization": f"Bearer {server.token(person)}",
            "Content-Type": "application/json",
        }

    def send(self, method: str, path: str, **body: Any) -> Any:
        self.connection.request(method, f"/api/v1{path}", orjson.dumps(body), self.headers)
        response = self.connection.getresponse()
        content = response.read()
        if response.status not in {200, 201}:
            sys.exit(f"{method} {path}: {response.status} {content.decode()}")
        return orjson.loads(content)


Make = Callable[[Client, int], int]


def fill(server: Server, folder: Path, size: Size) -> Data:
    """Fill an empty server with a team of these, and one large repository among its own."""
    Client(server, "sam").send("PUT", "/site-settings", rate_limits_enabled=False)
    server.run(SET_PASSWORD)
    alice = Client(server, "alice")
    alice.send("POST", "/teams", name="Bench", slug="bench")
    for number in range(size.repos - 1):
        alice.send("POST", f"{TEAM}/repos", name=f"Repository {number}", slug=f"repo-{number}")
    alice.send("POST", f"{TEAM}/repos", name="Large", slug="large", description="With everything")
    push(server, folder, size.pulls)
    numbers = at_once(server, range(size.threads), add_thread)
    at_once(server, numbers, add_reply)
    for _ in range(REPLIES - 1):
        add_reply(alice, numbers[0])
    first = add_pull(alice, 0)
    pulls = [first, *at_once(server, range(1, size.pulls), add_pull)]
    return Data(server.token("alice"), sign_in(server), numbers, pulls)


def at_once(server: Server, items: Sequence[int], make: Make) -> list[int]:
    """Make something of each item, on a few connections at the same time."""

    def run(first: int) -> list[int]:
        client = Client(server, "alice")
        return [make(client, item) for item in items[first::CLIENTS]]

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(chain(*pool.map(run, range(CLIENTS))))


def add_thread(client: Client, index: int) -> int:
    words = {"title": f"Question {index} about the harbour", "kind": "question"}
    body = "How high is the *tide* at noon?\n\n- in the north\n- in the south\n"
    return int(client.send("POST", f"{REPO}/threads", body=body, **words)["number"])


def add_reply(client: Client, thread: int) -> int:
    path = f"{REPO}/threads/{thread}/replies"
    return int(client.send("POST", path, kind="comment", body="Read `tides.txt`.")["number"])


def add_pull(client: Client, index: int) -> int:
    branches = {"source_branch": f"topic-{index}", "target_branch": "main"}
    words = {"title": f"Change {index} of the tables", "body": "It was *wrong*."}
    return int(client.send("POST", f"{REPO}/pulls", **words, **branches)["number"])


def push(server: Server, folder: Path, branches: int) -> None:
    """Push `main` and the branches of the pulls to the large repository, by git over HTTP."""
    git = ["git", "-C", str(folder / "work")]
    subprocess.run(["git", "init", "-q", "--bare", str(folder / "work")], check=True)
    subprocess.run([*git, "fast-import", "--quiet"], input=stream(branches), check=True)
    address = urlsplit(server.url)
    url = f"http://any:{server.token('alice')}@{address.netloc}{TEAM}/large.git"
    for refs in ("main", "refs/heads/*"):
        subprocess.run([*git, "push", "--quiet", url, f"{refs}:{refs}"], check=True)


def stream(branches: int) -> bytes:
    """The commits for git fast-import: 300 on `main`, and one on each other branch."""

    def lines() -> Iterator[str]:
        for number in range(COMMITS):
            yield from commit("main", number, range(FILES) if number == 0 else [number % FILES])
        for index in range(branches):
            files = range(CHANGED if index == 0 else 2)
            yield from commit(f"topic-{index}", COMMITS + index, files, "from refs/heads/main\n")

    return "".join(lines()).encode()


def commit(branch: str, number: int, files: Iterable[int], parent: str = "") -> Iterator[str]:
    message = f"Change {number} of the tables"
    yield f"commit refs/heads/{branch}\n"
    yield f"committer Alice <alice@example.org> {FIRST_COMMIT + number} +0000\n"
    yield f"data {len(message)}\n{message}\n{parent}"
    for file in files:
        text = f"# Table {file}, {number}\n"
        text += "".join(f"tide_{hour} = {hour * file}\n" for hour in range(60))
        yield f"M 644 inline src/part-{file % 10}/table_{file}.py\ndata {len(text)}\n{text}\n"


def sign_in(server: Server) -> str:
    """The session cookie of alice, signed in by the form."""
    connection = server.connect()
    connection.request("GET", "/signin")
    page = connection.getresponse()
    cookie = cookie_of(page, "csrftoken")
    masked = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.read().decode())[0]
    form = {"username": "alice", "password": PASSWORD, "csrfmiddlewaretoken": masked}
    headers = {"Cookie": cookie, "Origin": server.url, "Referer": f"{server.url}/signin"}
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request("POST", "/signin", urlencode(form), headers)
    return cookie_of(connection.getresponse(), "sessionid")


def cookie_of(response: http.client.HTTPResponse, name: str) -> str:
    for header in response.headers.get_all("Set-Cookie") or []:
        if header.startswith(f"{name}="):
            return header.partition(";")[0]
    sys.exit(f"no cookie {name}: {response.status}")

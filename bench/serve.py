"""Requests to the server of `bin/serve`, with 1, 8 and 64 connections. See bench/README.md.

    .venv/bin/python bench/serve.py [--tree FOLDER] [--gitea URL TOKEN OWNER/REPO]

Debian: wrk. With DATABASE_URL on PostgreSQL, in databases that are made for it and dropped.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from measuring import ROOT

from bench.gitea import ask_gitea
from bench.load import Load, Question, measure
from bench.team import REPO, TEAM, Data, Size, fill
from tests.databases import drop, execute
from tests.server import GUNICORN, Server

KINDS = {"serve": "bin/serve", "gunicorn-deployed": "gthread"}
FULL, SMALL = Size(repos=100, threads=1000, pulls=300), Size(repos=60, threads=60, pulls=60)
BARE = "a view without anything"
FEW = {BARE, "oneself", "a repository", "50 threads", "a new reply, with its event"}
"""Rows that are measured with each number of connections, the others with the first."""
FIGURES = ("requests a second", "ms per 1,000", "MB")
Questions = dict[str, Question]


def questions(server: Server, data: Data) -> Questions:
    """The rows of the table, as requests of a person to this server."""
    token, session = {"Authorization": f"Bearer {data.token}"}, {"Cookie": data.session}

    def api(*paths: str, body: str = "") -> Question:
        prefixed = tuple(f"/api/v1{path}" for path in paths)
        return Question(server.url, server.process.pid, prefixed, token, body)

    def page(path: str) -> Question:
        return Question(server.url, server.process.pid, (f"{TEAM}/large{path}",), session)

    pull, file = f"{REPO}/pulls/{data.pulls[0]}", "src/part-1/table_1.py"
    threads = [f"{REPO}/threads/{number}/replies" for number in data.threads]
    return {
        "oneself": api("/users/self"),
        "a repository": api(REPO),
        "50 repositories": api(f"{TEAM}/repos?per_page=50"),
        "50 threads": api(f"{REPO}/threads?per_page=50"),
        "50 replies": api(f"{threads[0]}?per_page=50"),
        "50 pulls": api(f"{REPO}/pulls?per_page=50"),
        "a pull": api(pull),
        "30 changed files of a pull": api(f"{pull}/files?per_page=50"),
        "50 branches": api(f"{REPO}/branches?per_page=50"),
        "50 commits": api(f"{REPO}/commits?per_page=50"),
        "a file": api(f"{REPO}/contents/{file}"),
        "a folder": api(f"{REPO}/tree/src/part-1"),
        "a raw file": api(f"{REPO}/raw/{file}"),
        "a new reply, with its event": api(
            *threads[1:], body='{"kind": "comment", "body": "At noon."}'
        ),
        "page: repository": page(""),
        "page: threads": page("/threads"),
        "page: commits": page("/commits"),
        "page: folder": page("/files/src/part-1"),
    }


@contextmanager
def tree(root: Path, size: Size, label: str) -> Iterator[dict[str, Questions]]:
    """Both servers of a checkout, each with a copy of the same data."""
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        first = running.enter_context(Server(folder / "serve", "serve", root=root))
        data = fill(first, folder, size)
        print(f"{label or 'this tree'}: filled", file=sys.stderr)
        first.stop()
        second = Server(folder / "gunicorn-deployed", "gunicorn-deployed", root=root)
        copy(first, second)
        first.start()
        running.enter_context(second)
        yield {KINDS[each.kind] + label: questions(each, data) for each in (first, second)}


def copy(source: Server, target: Server) -> None:
    """Let a server begin with the data of another one, which has ended."""
    shutil.copytree(source.environment["DATA_DIR"], target.environment["DATA_DIR"])
    target.fresh = False
    if target.database:
        old, new = (urlsplit(server.database).path[1:] for server in (source, target))
        drop(new)
        execute(f"CREATE DATABASE {new} TEMPLATE {old}")


@contextmanager
def bare(kind: str) -> Iterator[Question]:
    """Django with one view and no middleware, under the same server."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        number = str(listening.fileno())
        command = [sys.executable, "-m", "bench.bare", number]
        if kind != "serve":
            # The configuration of the project would load its models.
            options = ["--config", os.devnull, "--log-level", "warning", "--bind", f"fd://{number}"]
            options += [*GUNICORN[kind][:-1], "--keep-alive", "75", "--no-control-socket"]
            command = [sys.executable, "-m", "gunicorn", *options, "bench.bare:application"]
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=[listening.fileno()])
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            yield Question(url, process.pid, ("/",), {})
        finally:
            process.terminate()
            process.wait(20)


@contextmanager
def columns(given: Namespace) -> Iterator[dict[str, Questions]]:
    """The questions of each column, while its server runs."""
    size = SMALL if given.quick else FULL
    with ExitStack() as running:
        found = running.enter_context(tree(ROOT, size, ""))
        for kind, name in KINDS.items():
            found[name][BARE] = running.enter_context(bare(kind))
        if given.tree:
            found |= running.enter_context(tree(given.tree.resolve(), size, " before"))
        if given.gitea:
            found["Gitea"] = ask_gitea(*given.gitea, given.gitea_pid)
        yield found


def take_turns(asked: Questions, connections: int, given: Namespace) -> dict[str, Load]:
    """The medians of several rounds; the first round does not count."""
    loads: dict[str, list[Load]] = {name: [] for name in asked}
    for number in range(given.rounds + 1):
        for name in reversed(asked) if number % 2 else asked:
            load = measure(asked[name], connections, given.seconds)
            if number:
                loads[name].append(load)
    return {
        name: Load(*map(statistics.median, zip(*each, strict=True))) for name, each in loads.items()
    }


def line(words: str, connections: int, names: Sequence[str], loads: dict[str, Load]) -> str:
    """A line of the table: all rates, then all processor times, then all memories."""
    cells = [
        f"{loads[name][index]:,.0f}" if name in loads else ""
        for index in range(len(FIGURES))
        for name in names
    ]
    return f"| {words} | {connections} | {' | '.join(cells)} | {os.getloadavg()[0]:.1f} |"


def main(given: Namespace) -> None:
    with columns(given) as found:
        heads = [f"{figure}: {name}" for figure in FIGURES for name in found]
        print(f"| | connections | {' | '.join(heads)} | load |")
        print(f"{'|---' * (len(heads) + 3)}|")
        for words in [BARE, *(words for words in found[KINDS["serve"]] if words != BARE)]:
            if not given.rows or words in given.rows:
                asked = {name: each[words] for name, each in found.items() if words in each}
                for connections in given.connections[: None if words in FEW else 1]:
                    loads = take_turns(asked, connections, given)
                    print(line(words, connections, [*found], loads), flush=True)


def parse(arguments: Sequence[str]) -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, help="another checkout, with a .venv")
    parser.add_argument("--gitea", nargs=3, metavar=("URL", "TOKEN", "OWNER/REPO"))
    parser.add_argument("--gitea-pid", type=int, default=0, help="for processor time and memory")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="only these rows")
    parser.add_argument("--connections", nargs="+", type=int, default=[8, 1, 64], metavar="N")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1, help="of a row in each round")
    parser.add_argument("--quick", action="store_true", help="little data: whether it works")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(parse(sys.argv[1:]))

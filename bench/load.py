"""Sends requests by wrk, and reads processor time and memory of a server's processes.

Debian: wrk. It is written in C and takes a few microseconds for a request.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

import orjson

SCRIPT = """
local paths = {paths}
local requests, number = {{}}, 0
wrk.method, wrk.body, wrk.headers = {method}, {body}, {headers}
function init()
    for index, path in ipairs(paths) do requests[index] = wrk.format(nil, path) end
end
function request()
    number = number % #requests + 1
    return requests[number]
end
function done(summary)
    local errors = summary.errors
    local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
    io.write(string.format("requests=%d failed=%d microseconds=%d\\n",
        summary.requests, failed, summary.duration))
end
"""
DONE = re.compile(r"requests=(\d+) failed=(\d+) microseconds=(\d+)")
TICK = 1 / os.sysconf("SC_CLK_TCK")
SLOWEST = 60
"""Seconds in which a server has to answer at least once."""
QUIET, PATIENCE = 0.1, 10.0
"""Seconds without processor time after which a server is idle, and most seconds to wait."""


@dataclass(frozen=True)
class Question:
    """A request to the server at `url`, whose main process is `pid`, or 0 if it is not known.

    The paths take turns. With a body it is a POST.
    """

    url: str
    pid: int
    paths: tuple[str, ...]
    headers: dict[str, str]
    body: str = ""


class Load(NamedTuple):
    """Requests per second, milliseconds of processor time for 1,000 requests, and MB after them."""

    per_second: float
    milliseconds: float
    memory: float


def measure(question: Question, connections: int, seconds: int) -> Load:
    """Send the request over and over on so many connections; ends the program if one fails."""
    before = processor_time(question.pid)
    with NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(script_of(question))
        script.flush()
        options = [f"-c{connections}", "-t1", f"-d{seconds}", "--timeout=60", "-s", script.name]
        command = ["wrk", *options, question.url]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    spent = processor_time(question.pid) - before
    figures = DONE.search(done.stdout)
    requests, failed, microseconds = map(int, figures.groups()) if figures else (0, 0, 0)
    if not requests and seconds < SLOWEST:  # the first answer of a busy server
        return measure(question, connections, 2 * seconds)
    if failed or not requests:
        sys.exit(f"{question.paths[0]}: {done.stdout}{done.stderr}")
    wait_until_idle(question.pid)
    memory = sum(map(proportional_memory, processes(question.pid)))
    return Load(requests / microseconds * 1e6, spent / requests * 1e6, memory)


def script_of(question: Question) -> str:
    """The script of wrk in Lua. Its strings are written like those of JSON."""

    def text(value: str) -> str:
        return orjson.dumps(value).decode()

    headers = question.headers | ({"Content-Type": "application/json"} if question.body else {})
    pairs = ", ".join(f"[{text(name)}] = {text(value)}" for name, value in headers.items())
    return SCRIPT.format(
        paths=f"{{{', '.join(map(text, question.paths))}}}",
        method=text("POST" if question.body else "GET"),
        body=text(question.body) if question.body else "nil",
        headers=f"{{{pairs}}}",
    )


def wait_until_idle(pid: int) -> None:
    """Wait until the processes have finished the requests of clients that have left, and jobs."""
    ends = time.monotonic() + PATIENCE
    last = -1.0
    while time.monotonic() < ends and (now := processor_time(pid)) > last + TICK / 2:
        last = now
        time.sleep(QUIET)


def processes(pid: int) -> Iterator[int]:
    """The process and its descendants; none without a process."""
    if not pid:
        return
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in read(task).split():
            yield from processes(int(child))


def processor_time(pid: int) -> float:
    """Seconds that the processes have spent, with their children that have ended."""
    fields = (read(Path(f"/proc/{one}/stat")).rpartition(")")[2].split() for one in processes(pid))
    return sum(sum(map(int, each[11:15])) for each in fields) * TICK


def proportional_memory(pid: int) -> float:
    """MB of a process, where a page that processes share counts in parts (PSS)."""
    match = re.search(r"^Pss: +(\d+) kB", read(Path(f"/proc/{pid}/smaps_rollup")), re.MULTILINE)
    return int(match[1]) / 1024 if match else 0.0


def read(path: Path) -> str:
    """The text of a file of /proc, "" if its process has ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""

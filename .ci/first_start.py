"""`./bin/serve` as a new user meets it: a first start that shows a curl line, which then works; a
second start that shows no secret; then the same with `--demo`. Ctrl-C ends each at once.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Timer

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 10.0
"""Seconds."""
SECRETS = re.compile(r"ght_|password|curl", re.IGNORECASE)


def start(data: str, *arguments: str) -> subprocess.Popen[bytes]:
    """The server as a terminal starts it; on any free port, since 8000 may be somebody's."""
    return subprocess.Popen(
        ["env", "--default-signal=INT", ROOT / "bin" / "serve", *arguments],
        env={**os.environ, "DATA_DIR": data, "PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
    )


def greeting(server: subprocess.Popen[bytes]) -> str:
    """What it says until it serves; gives up after two minutes."""
    assert server.stdout is not None
    late, said, line = Timer(120, server.kill), b"", b"\n"
    late.start()
    while line and b"Guildhall is at" not in said:
        line = server.stdout.readline()
        said += line
    late.cancel()
    if not line:
        server.kill()
        sys.exit(f"The server never said that it serves:\n{said.decode()}")
    return said.decode()


def interrupt(server: subprocess.Popen[bytes]) -> None:
    """Ctrl-C."""
    began = time.monotonic()
    server.send_signal(signal.SIGINT)
    rest, _ = server.communicate(timeout=60)
    took = time.monotonic() - began
    print(rest.decode(), f"-- ended with {server.returncode} after {took:.2f} s", sep="")
    if took > AT_ONCE or b"Traceback" in rest:
        sys.exit("Ctrl-C did not end the server at once and quietly.")


def try_out(lines: list[str]) -> None:
    """Paste each line into a shell, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for line in lines:
            done = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True)
            print(
                done.stdout[:200], done.stderr, f"-- {line.split()[0]} ended with {done.returncode}"
            )
            if done.returncode or '"error"' in done.stdout:
                sys.exit("A line that the server shows does not work.")


def two_starts(data: str, *arguments: str) -> None:
    """The first shows lines that work, the second no secret."""
    for lines_wanted in (True, False):
        began = time.monotonic()
        server = start(data, *arguments)
        said = greeting(server)
        print(re.sub(r"ght_\w+", "ght_…", said), f"-- ready after {time.monotonic() - began:.2f} s")
        lines = re.findall(r"^ *((?:curl|git clone) .*)$", said, re.MULTILINE)
        try_out(lines)
        interrupt(server)
        if bool(lines) != lines_wanted or bool(SECRETS.search(said)) != lines_wanted:
            sys.exit("Secrets are to be shown at the first start, and only then.")


def main() -> None:
    with tempfile.TemporaryDirectory() as data:
        two_starts(data)
        two_starts(data, "--demo")


main()

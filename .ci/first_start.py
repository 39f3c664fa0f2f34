"""`./bin/serve` as a new user meets it: a first start that shows a curl line, which then works; a
second start that shows no secret; Ctrl-C that ends each at once.
"""

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 2.0
"""Seconds."""
SECRETS = re.compile(r"ght_|password|curl", re.IGNORECASE)


def start(data: str) -> subprocess.Popen[bytes]:
    """The server as a shell starts it; on any free port, since 8000 may be somebody's."""
    return subprocess.Popen(
        [ROOT / "bin" / "serve"],
        env={**os.environ, "DATA_DIR": data, "PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def greeting(server: subprocess.Popen[bytes]) -> str:
    """What it says until it serves; gives up after two minutes."""
    assert server.stdout is not None
    said, ends, output = b"", time.monotonic() + 120, server.stdout.fileno()
    while b"Guildhall is at" not in said:
        ready, _, _ = select.select([output], [], [], max(0, ends - time.monotonic()))
        piece = os.read(output, 65536) if ready else b""
        if not piece:
            server.kill()
            sys.exit(f"The server never said that it serves:\n{said.decode()}")
        said += piece
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


def main() -> None:
    with tempfile.TemporaryDirectory() as data:
        first = start(data)
        said = greeting(first)
        print(re.sub(r"ght_\w+", "ght_…", said))
        curl = re.search(r"^ *(curl .*)$", said, re.MULTILINE)
        if curl is None:
            sys.exit("The first start shows no curl line.")
        answer = subprocess.run(["sh", "-c", f"{curl[1]} --fail --silent --show-error"])
        print(f"\n-- curl ended with {answer.returncode}")
        interrupt(first)
        began = time.monotonic()
        second = start(data)
        said = greeting(second)
        print(f"{said}-- a second start, ready after {time.monotonic() - began:.2f} s")
        interrupt(second)
        if answer.returncode or SECRETS.search(said):
            sys.exit("The curl line fails, or the second start shows a secret.")


main()

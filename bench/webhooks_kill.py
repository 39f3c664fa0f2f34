"""Webhooks while server and workers are killed and the receiver fails for half of the requests.

    .venv/bin/python bench/webhooks_kill.py [SECONDS [SEED]]

With DATABASE_URL on PostgreSQL. It fails if an event is missing, out of order or badly signed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import measuring  # noqa: F401 - sets the path and Django up

from tests import server
from tests.scenarios.killed_webhooks import run

server.PATIENCE = 600.0  # this machine may be busy


def main(seconds: float = 300, seed: int = 1) -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(run(Path(folder), seconds, seed))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]), *map(int, sys.argv[2:3]))

"""A site under mixed load and kills; see tests/scenarios/soak.py and bench/README.md.

    .venv/bin/python bench/soak.py [MINUTES [SEED]]

With DATABASE_URL on PostgreSQL. The exit status is 1 if anything is lost or left behind.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

import measuring  # noqa: F401 - sets the path and Django up

from tests.scenarios.soak import soak


def main(minutes: float = 60, seed: int = 1) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            soak(Path(folder), minutes * 60, seed, partial(print, flush=True))
        except AssertionError as failure:
            sys.exit(f"FAILED: {failure}")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]), *map(int, sys.argv[2:3]))

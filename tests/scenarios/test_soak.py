"""A minute of the soak. `bench/soak.py` runs it for longer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.soak import soak
from tests.server import Server

SECONDS, SEED = 60, 1


@pytest.mark.slow
def test_a_site_under_load_and_kills_loses_nothing_and_leaves_nothing(
    tmp_path: Path, new_server: Callable[..., Server]
):
    soak(tmp_path, SECONDS, SEED, print, new_server)

"""A minute of the soak. `bench/soak.py` runs it for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.soak import soak

SECONDS, SEED = 60, 1


@pytest.mark.slow
def test_a_site_under_load_and_kills_loses_nothing_and_leaves_nothing(tmp_path: Path):
    soak(tmp_path, SECONDS, SEED, print)

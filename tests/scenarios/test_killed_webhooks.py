"""Half a minute of webhooks under kills. `bench/webhooks_kill.py` runs it for longer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.killed_webhooks import run
from tests.server import Server

SECONDS, SEED = 30, 1


@pytest.mark.slow
def test_no_event_is_lost_when_workers_and_server_are_killed_and_the_receiver_fails(
    tmp_path: Path, new_server: Callable[..., Server]
):
    report = run(tmp_path, SECONDS, SEED, new_server)
    assert report.events > 10
    assert min(report.kills.values()) > 0

"""The previous version works on today's tables: during a rolling restart, and after a rollback."""

from __future__ import annotations

import pytest

from tests.server import Server
from tests.upgrades import PREVIOUS, checkout
from tests.upgrades.main_job import main_job


@pytest.mark.slow
def test_the_previous_version_and_this_one_serve_the_same_site(tmp_path, new_server):
    root = checkout(PREVIOUS, tmp_path / "tree")
    with new_server(tmp_path) as new, Server(tmp_path, beside=new, root=root) as old:
        main_job(old, new, tmp_path / "old", "olga")
        main_job(new, old, tmp_path / "new", "nora")

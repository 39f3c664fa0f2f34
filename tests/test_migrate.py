"""Two processes that migrate the same database at once."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack

import pytest

from tests.server import ROOT, Server


@pytest.mark.slow
def test_two_that_migrate_at_once_both_end_well(tmp_path):
    with ExitStack() as ending:
        server = Server(tmp_path, "gunicorn")
        ending.callback(server.__exit__)
        processes = [
            subprocess.Popen(
                [server.python, "manage.py", "migrate"],
                cwd=ROOT,
                env=server.environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for _ in range(3)
        ]
        outputs = [process.communicate()[0] for process in processes]
        assert [process.returncode for process in processes] == [0, 0, 0], outputs
        assert sum("Applying repos.0001_initial" in output for output in outputs) == 1

"""The programs of docs/examples, as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.server import PATIENCE, ROOT, Server

EXAMPLES = ROOT / "docs" / "examples"


class Program:
    """An example with its arguments, in a folder of its own. After a kill it resumes there."""

    def __init__(
        self, folder: Path, server: Server, person: str, *arguments: str, **environment: str
    ) -> None:
        folder.mkdir()
        self.folder, self.log = folder, folder / "log"
        self.arguments = arguments
        self.environment = {
            "PATH": os.environ["PATH"],
            "API": f"{server.url}/api/v1",
            "TOKEN": server.token(person),
            **environment,
        }

    def __enter__(self) -> Program:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        script, *arguments = self.arguments
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, EXAMPLES / script, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def has_written(self, text: str) -> bool:
        """Whether this text is in its output. The program must be running."""
        written = self.log.read_text()
        assert self.is_alive, written
        return text in written

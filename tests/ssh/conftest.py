"""A real server with git over SSH, and people with keys."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.gitclient import Git
from tests.server import Server

SSH = re.compile(r"git over SSH is at ssh://git@([^:]+):(\d+)")
QUIET = ("-F", "/dev/null", "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none")
TRUSTING = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
LIMITS = {"GIT_SLOTS": "200", "GIT_SLOTS_PER_PERSON": "200"}


class Keys:
    """A folder of private keys, and the commands that use them with one server."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server

    @property
    def url(self) -> str:
        """The address of the server, without a path."""
        *_, (_, port) = SSH.findall(self.server.log)  # the last start counts
        return f"ssh://git@127.0.0.1:{port}"

    def make(self, kind: str = "ed25519") -> Path:
        """A new private key that nobody has added."""
        path = self.folder / uuid4().hex
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", path], check=True)
        return path

    def add(self, person: str, path: str = "/users/self/keys", **values: object) -> Path:
        """A new key of this person, or of the repository at this path."""
        made = self.make()
        self.server.api(person).post(
            path, key=made.with_suffix(".pub").read_text(), **values
        ).gives(201)
        return made

    def command(self, key: Path, *options: str) -> str:
        """The value of `GIT_SSH_COMMAND`."""
        return " ".join(
            ["ssh", *QUIET, *TRUSTING, "-o", "LogLevel=ERROR", "-i", str(key), *options]
        )

    def ssh(self, key: Path, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run ssh itself, and do not fail."""
        port = self.url.rpartition(":")[2]
        command = [*self.command(key).split(), "-p", port, "git@127.0.0.1", *words]
        return subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)

    def work_tree(self, key: Path, path: str) -> SshGit:
        return SshGit(self.folder / uuid4().hex, f"{self.url}/{path}.git", self.command(key))


class SshGit(Git):
    """A work tree whose remote is reached by SSH."""

    def __init__(self, folder: Path, url: str, command: str) -> None:
        self.command = command
        super().__init__(folder, url, None)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return super().run(*arguments, **{"GIT_SSH_COMMAND": self.command, **environment})


@pytest.fixture(scope="module")
def ssh_server(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[Server]:
    """`manage.py serve` with git over SSH."""
    folder = tmp_path_factory.mktemp("ssh")
    with new_server(folder, SSH_ADDRESS="127.0.0.1:0", **LIMITS) as running:
        running.api("alice").post("/teams", name="Acme", slug="acme").gives(201)
        yield running


@pytest.fixture
def keys(ssh_server: Server, tmp_path: Path) -> Keys:
    folder = tmp_path / "keys"
    folder.mkdir()
    return Keys(folder, ssh_server)


@pytest.fixture
def path(ssh_server: Server) -> str:
    """A fresh private repository of alice's team."""
    slug = f"r{uuid4().hex[:12]}"
    ssh_server.api("alice").post("/teams/acme/repos", name="Api", slug=slug).gives(201)
    return f"teams/acme/{slug}"

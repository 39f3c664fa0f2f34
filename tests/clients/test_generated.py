"""Clients in two languages are generated from the OpenAPI document, with no change by hand, pass
their type checkers and do the main job with a real server. Two validators accept the document.

The TypeScript ones need npm: without it they are skipped, and in CI they fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from openapi_spec_validator import validate

from tests.routes import described
from tests.server import PATIENCE, ROOT, Server

pytestmark = [pytest.mark.slow, pytest.mark.once]

HERE = Path(__file__).parent
DOCUMENT = ROOT / "docs" / "openapi.json"
INSTALLED = ROOT / ".venv" / "clients"
MODULES = INSTALLED / "node_modules"
MYPY = """
[mypy]
strict = True
cache_dir = .cache
[mypy-guildhall_client.client]
ignore_errors = True
"""
"""The modules to check: all but one, whose `__exit__` mypy rejects in every generated client."""


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """The output of a command. If the command fails, the test fails."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=10 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the commands that npm installs from the lock file with its hashes."""
    if shutil.which("npm") is None:
        reason = "npm is not installed (Debian: apt install nodejs npm)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    lock, done = HERE / "package-lock.json", INSTALLED / "done.json"
    if not done.exists() or done.read_bytes() != lock.read_bytes():
        INSTALLED.mkdir(exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, INSTALLED)
        run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", folder=INSTALLED)
        shutil.copy(lock, done)
    return MODULES / ".bin"


def drive(server: Server, folder: Path, *command: str | Path) -> str:
    """The output of a client that does the main job."""
    with server:
        people = {name.upper(): server.token(name) for name in ("alice", "bob")}
        return run(*command, folder=folder, GUILDHALL=server.url, **people)


def test_a_python_client_is_generated_and_does_the_main_job(tmp_path, new_server):
    package = tmp_path / "guildhall_client"
    generate = ["generate", "--path", DOCUMENT, "--output-path", package, "--meta", "none"]
    tools = Path(sys.executable).parent
    path = f"{tools}:{os.environ['PATH']}"  # the generator runs ruff by name
    said = run(tools / "openapi-python-client", *generate, folder=tmp_path, PATH=path)
    assert "warning" not in said.lower() and "unable" not in said.lower(), said
    (package / "py.typed").touch()
    shutil.copy(HERE / "drive.py", tmp_path)
    config = tmp_path / "mypy.ini"
    config.write_text(MYPY)
    run(sys.executable, "-m", "mypy", "--config-file", config, "drive.py", folder=tmp_path)
    assert "merged" in drive(new_server(tmp_path), tmp_path, sys.executable, "drive.py")


def test_a_typescript_client_is_generated_and_does_the_main_job(tmp_path, programs, new_server):
    for name in ("drive.ts", "tsconfig.json", "package.json"):
        shutil.copy(HERE / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(MODULES)
    run(programs / "openapi-typescript", DOCUMENT, "-o", "api.ts", folder=tmp_path)
    run(programs / "tsc", folder=tmp_path)
    assert "merged" in drive(new_server(tmp_path), tmp_path, "node", "out/drive.js")


def test_a_validator_in_python_accepts_the_document():
    validate(described())


def test_a_validator_in_javascript_accepts_the_document(programs):
    assert '"valid": true' in run(programs / "validate-api", DOCUMENT, folder=HERE)

"""The tour of the README works when it is pasted into a shell."""

import re
import subprocess
import sys

import pytest

from tests.server import PATIENCE, ROOT, Server

README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!http)([^)#]+)\)")
WATCHED = ["team-created", "member-added", "repo-created", "branch-created", "branch-created"]
LISTED = ["pull-merged", "branch-pushed", "review-created"]
"""The events that the tour lists, newest first."""


@pytest.mark.slow
@pytest.mark.once
def test_the_tour_can_be_pasted(tmp_path):
    script = "\n".join(BLOCK.findall(README))
    assert ".venv/bin/python" in script and "http://127.0.0.1:8000" in script
    with Server(tmp_path) as server:
        script = script.replace(".venv/bin/python", sys.executable)
        done = subprocess.run(
            ["bash", "-em"],
            input=script.replace("http://127.0.0.1:8000", server.url),
            env={**server.environment, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=10 * PATIENCE,
        )
    assert done.returncode == 0 and '"error"' not in done.stdout, done.stdout
    assert re.findall(r"^event: (\S+)", done.stdout, re.MULTILINE)[:5] == WATCHED
    assert re.findall(r'"kind":"([a-z-]+)","actor', done.stdout) == LISTED, done.stdout
    assert "Merge pull #1: Greet the world" in done.stdout


@pytest.mark.once
def test_the_two_commands_and_what_is_linked_are_there():
    for command in re.findall(r"^(\./\S+)$", README, re.MULTILINE):
        assert (ROOT / command).stat().st_mode & 0o111, command
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in LINK.findall(page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"

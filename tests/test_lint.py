"""bin/lint runs the given checks, and pre-commit has the same ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parent.parent
LINT = ROOT / "bin" / "lint"


def lint(*names):
    return subprocess.run([LINT, *names], check=False, capture_output=True, text=True, cwd="/")


def test_each_check_of_bin_lint_is_a_hook_in_the_same_order():
    checks = re.findall(r"^check (\S+) ", LINT.read_text(), re.M)
    [local] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"
    assert [hook["entry"] for hook in local["hooks"]] == [f"bin/lint {name}" for name in checks]
    assert {hook["language"] for hook in local["hooks"]} == {"system"}
    [names] = re.findall(r'^names=" (.*) "$', LINT.read_text(), re.M)
    assert names.split() == checks


def test_a_check_that_does_not_exist_is_refused():
    refused = lint("style", "spelling")
    assert refused.returncode == 1 and "no check is called spelling" in refused.stderr
    assert "==" not in refused.stdout


@pytest.mark.slow
def test_one_check_runs_alone():
    done = lint("format")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^== (.*)$", done.stdout, re.M) == ["-m ruff format --check ."]

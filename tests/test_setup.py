"""bin/setup in a copy of the tree, whose only requirement is a wheel of the test: no network."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.server import PATIENCE

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parent.parent
WHEEL = "tiny-1.0-py3-none-any.whl"


def add_wheel(shelf):
    """Write the tiny wheel into a folder; return its line of a list."""
    with zipfile.ZipFile(shelf / WHEEL, "w") as wheel:
        wheel.writestr("tiny.py", "")
        about = "tiny-1.0.dist-info"
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    digest = hashlib.sha256((shelf / WHEEL).read_bytes()).hexdigest()
    return f"tiny==1.0 --hash=sha256:{digest}\n"


@pytest.fixture
def tree(tmp_path):
    """A copy of bin/ with lists that contain the tiny wheel."""
    root = tmp_path / "a tree"
    shutil.copytree(ROOT / "bin", root / "bin")
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    line = add_wheel(shelf)
    for name in ("requirements.txt", "requirements-s3.txt", "requirements-dev.txt"):
        (root / name).write_text(line)
    return root


@pytest.fixture
def programs(tmp_path):
    """A PATH with only these programs."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "cat", "cut", "cksum", "git", "mkdir", "readlink", "rm"):
        (folder / name).symlink_to(shutil.which(name))
    return folder


def environment(tree, programs=None):
    path = f"{programs}" if programs else os.environ["PATH"]
    shelf = str(tree.parent / "shelf")
    return {"PATH": path, "HOME": str(tree.parent), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": shelf}


def setup(tree, *arguments, programs, with_="sh", script=None):
    return subprocess.Popen(
        [shutil.which(with_), str(script or tree / "bin" / "setup"), *arguments],
        env=environment(tree, programs),
        cwd=tree.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process):
    output, _ = process.communicate(timeout=10 * PATIENCE)
    return process.returncode, output


def refused(process):
    """The line that a failed setup prints."""
    code, output = ended(process)
    assert code == 1 and output.count("\n") == 1, output
    return output


def link_python(programs, name="python3"):
    (programs / name).symlink_to(os.path.realpath(sys.executable))


def has_tiny(tree):
    return (
        subprocess.run(
            [tree / ".venv/bin/python", "-c", "import tiny"], capture_output=True
        ).returncode
        == 0
    )


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_what_is_missing_is_said_in_one_line(tree, programs, shell):
    assert "Python 3.11 or later" in refused(setup(tree, programs=programs, with_=shell))
    (programs / "git").unlink()
    assert "git is needed" in refused(setup(tree, programs=programs, with_=shell))
    (programs / "git").write_text("#!/bin/sh\necho git version 2.37.1\n")
    (programs / "git").chmod(0o755)
    assert "2.37.1" in refused(setup(tree, programs=programs, with_=shell))
    assert "--devel" in refused(setup(tree, "--devel", programs=programs, with_=shell))


@pytest.mark.slow
def test_two_at_once_both_succeed_and_a_third_has_nothing_to_do(tree, programs):
    link_python(programs, "python3.12")  # the version counts, not the name
    both = [setup(tree, programs=programs), setup(tree, "--dev", programs=programs)]
    assert [ended(one)[0] for one in both] == [0, 0]
    assert has_tiny(tree)
    link = tree.parent / "link"
    link.symlink_to(tree / "bin" / "setup")
    assert ended(setup(tree, programs=programs, with_="bash", script=link)) == (0, "")
    assert ended(setup(tree, "--dev", programs=programs)) == (0, "")


@pytest.mark.slow
def test_a_failed_installation_is_redone(tree, programs):
    link_python(programs)
    wheel = tree.parent / "shelf" / WHEEL
    good = wheel.read_bytes()
    wheel.write_bytes(good + b"something else")
    code, output = ended(setup(tree, programs=programs))
    assert code == 1 and "DO NOT MATCH THE HASHES" in output
    assert not has_tiny(tree)
    (tree / ".venv" / "leftover").touch()
    wheel.write_bytes(good)
    assert ended(setup(tree, programs=programs))[0] == 0
    assert has_tiny(tree) and not (tree / ".venv" / "leftover").exists()


@pytest.mark.parametrize(("script", "says"), [("setup", "--dev"), ("lint", "style, format, types")])
def test_asked_for_help_a_script_says_what_it_does_and_does_nothing(tree, script, says):
    asked = setup(tree, "--help", programs=None, script=tree / "bin" / script)
    assert says in asked.communicate()[0] and asked.returncode == 0
    assert not (tree / ".venv").exists()

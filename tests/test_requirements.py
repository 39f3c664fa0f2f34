"""requirements*.txt are in step with pyproject.toml (CONTRIBUTING.md says how they are made)."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
S3 = [Requirement(line) for line in PROJECT["project"]["optional-dependencies"]["s3"]]
GROUPS = PROJECT["dependency-groups"]
SENTRY, OPENTELEMETRY, DEV = (
    [Requirement(line) for line in GROUPS[name] if isinstance(line, str)]
    for name in ("sentry", "opentelemetry", "dev")
)


def pins(name):
    """The pins of a list by name: several if they depend on the platform."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    found: dict[str, set[Requirement]] = {}
    for line in text.splitlines():
        requirement, *hashes = re.split(r"\s+--hash=", line.strip())
        assert hashes, f"{requirement} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), requirement
        pin = Requirement(requirement)
        found.setdefault(canonicalize_name(pin.name), set()).add(pin)
    return found


def problems(wanted, pinned):
    for requirement in wanted:
        versions = [
            next(iter(pin.specifier)).version
            for pin in pinned.get(canonicalize_name(requirement.name), ())
        ]
        if not versions or not all(map(requirement.specifier.contains, versions)):
            yield f"{requirement}: pinned at {versions or 'nothing'}"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("requirements.txt", RUNTIME),
        ("requirements-s3.txt", [*RUNTIME, *S3]),
        ("requirements-dev.txt", [*RUNTIME, *SENTRY, *OPENTELEMETRY, *DEV]),
        ("requirements-sentry.txt", SENTRY),
        ("requirements-opentelemetry.txt", OPENTELEMETRY),
    ],
)
def test_every_dependency_is_pinned_with_hashes_within_its_range(name, wanted):
    pinned = pins(name)
    assert {str(next(iter(pin.specifier)).operator) for one in pinned.values() for pin in one} == {
        "=="
    }
    assert list(problems(wanted, pinned)) == []


def test_a_missing_and_an_outdated_pin_are_noticed():
    assert list(
        problems([Requirement("django~=9.0"), Requirement("flask")], pins("requirements.txt"))
    )


def test_the_lists_for_running_and_for_working_agree():
    runtime, s3, dev = map(
        pins, ("requirements.txt", "requirements-s3.txt", "requirements-dev.txt")
    )
    assert runtime.items() <= s3.items() <= dev.items()
    for name in ("requirements-sentry.txt", "requirements-opentelemetry.txt"):
        assert pins(name).items() <= dev.items(), name


def test_packages_of_npm_are_pinned_with_hashes_and_name_no_registry():
    folder = ROOT / "tests" / "clients"
    wanted = json.loads((folder / "package.json").read_text())["devDependencies"]
    packages = json.loads((folder / "package-lock.json").read_text())["packages"]
    assert packages.pop("")["devDependencies"] == wanted
    assert {f"node_modules/{name}" for name in wanted} <= packages.keys()
    assert [name for name, one in packages.items() if "sha512-" not in one["integrity"]] == []
    assert [name for name, one in packages.items() if "resolved" in one] == []

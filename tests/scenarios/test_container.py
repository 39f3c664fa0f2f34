"""deploy/container: the image's scripts and roles, without an image, and the compose file.

The roles run as in the image: by a user without rights, on a read-only tree, with files of their
own in /tmp and DATA_DIR, in a network of their own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from tests.scenarios.test_proxy import HAS_NGINX
from tests.server import PATIENCE, ROOT
from tests.test_setup import WHEEL, add_wheel
from tests.waiting import eventually

pytestmark = pytest.mark.once
FOLDER = ROOT / "deploy" / "container"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: row for name, row in SERVICES.items() if row["image"] == "guildhall:local"}
SERVERS = ("api", "stream", "worker")
LIMITS = (ROOT / "deploy/systemd/guildhall-.service.d/limits.conf").read_text()
CONTAINER_USER = 10001
API = "http://localhost/api/v1"


def check_compose(content: Any) -> None:
    """`ValueError` if a key or a type is not in the specification of compose files."""
    compose = PyCompose.from_json(json.dumps(content))
    compose.validate()
    compose.to_spec()


def test_the_containerfile_has_no_faults():
    hadolint = Path(sys.executable).with_name("hadolint")
    subprocess.run([hadolint, FOLDER / "Containerfile"], check=True)


def test_the_compose_file_follows_the_specification():
    check_compose(COMPOSE)
    with pytest.raises(ValueError, match="read_onlyy"):
        check_compose({**COMPOSE, "services": {"api": {**SERVICES["api"], "read_onlyy": True}}})


def test_each_role_of_the_image_is_a_service_without_rights():
    roles = re.findall(r"^    (?!health)([a-z |]+)\)$", (FOLDER / "run").read_text(), re.MULTILINE)
    assert set(OURS) == {role for line in roles for role in line.split(" | ")}
    for name, row in OURS.items():
        assert (row["command"], row["user"]) == (name, f"{CONTAINER_USER}:{CONTAINER_USER}")
        assert row["read_only"] and row["tmpfs"] == "/tmp"  # noqa: S108 - in the container
        assert row["cap_drop"] == ["ALL"] and row["security_opt"] == ["no-new-privileges:true"]
        check = row["healthcheck"]
        assert check.get("disable") or (check["test"][:3] == ["CMD", "guildhall", "health"])
        assert check.get("disable") or check["start_period"]
    assert f"USER {CONTAINER_USER}:{CONTAINER_USER}" in (FOLDER / "Containerfile").read_text()


def test_servers_wait_for_the_migration_and_stop_like_the_units():
    [files] = re.findall(r"^LimitNOFILE=(\d+)$", LIMITS, re.MULTILINE)
    for name in SERVERS:
        row = SERVICES[name]
        assert row["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
        unit = (ROOT / f"deploy/systemd/guildhall-{name}.service").read_text()
        [seconds] = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
        assert row["stop_grace_period"] == f"{seconds}s"
        assert row["ulimits"]["nofile"] == int(files)
        assert row["init"], "it reaps the gits of processes that ended"
    assert SERVICES["migrate"]["restart"] == "no"


def test_only_the_proxy_and_ssh_can_be_reached_and_no_secret_is_in_the_file():
    assert [name for name, row in SERVICES.items() if "ports" in row] == ["ssh", "nginx"]
    assert SERVICES["ssh"]["profiles"] == ["ssh"], "only on request"
    for row in SERVICES.values():
        assert not row["image"].endswith(":latest") and ":" in row["image"]
        for value in map(str, row.get("environment", {}).values()):
            assert "PASSWORD" in value or not re.search(r":[^/@]+@", value)
    password = SERVICES["postgres"]["environment"]["POSTGRES_PASSWORD"]
    assert password.startswith("${POSTGRES_PASSWORD:?")
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    own = FOLDER.relative_to(ROOT)
    assert {f"{own}/.env", f"{own}/tls", ".git", "var"} <= set(ignored)


def test_the_build_makes_a_tree_that_needs_no_writing(tmp_path):
    """The packages are a wheel of the test: no network."""
    tree = tmp_path / "guildhall"
    for name in ("bin", "deploy", "apps", "config"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    line = add_wheel(tmp_path)
    for name in ("requirements.txt", "requirements-s3.txt", "requirements-dev.txt"):
        (tree / name).write_text(line)
    environment = {"PATH": os.environ["PATH"], "PIP_NO_INDEX": "1", "UV_OFFLINE": "1"}
    environment |= {"PIP_FIND_LINKS": str(tmp_path), "UV_FIND_LINKS": str(tmp_path)}
    environment |= {"HOME": str(tmp_path), "UV_NO_INDEX": "1"}
    subprocess.run([tree / "deploy/container/build"], env=environment, check=True)
    assert (tree / ".venv/guildhall-setup").read_text().startswith("s3 ")
    assert list(tree.glob(f".venv/lib/*/site-packages/{WHEEL.partition('-')[0]}.py"))
    assert list(tree.glob("config/__pycache__/settings.*.pyc"))


BEGIN = f"""
set -eu
mount --bind "$1" /mnt
mount --bind "{ROOT}" /opt
mount -t tmpfs -o mode=1777 tmpfs /tmp
case "{ROOT}" in /tmp/*) mkdir -p "{ROOT}"; mount --bind /opt "{ROOT}" ;; esac
umask 022
cd /tmp
printf '127.0.0.1 localhost api stream\\n' >hosts
mount --bind hosts /etc/hosts
echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start
mount -o remount,bind,ro /
"{sys.executable}" -c '
import fcntl, socket, struct
up = struct.pack("16sh", b"lo", 1)
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, up)
'
echo ready
exec sleep infinity
"""
"""The inside of a container: a mount namespace and a network namespace."""


class Container:
    """Runs the image's command in the namespaces of a process, by the image's user."""

    def __init__(self, pid: int) -> None:
        self.enter = ["nsenter", f"--target={pid}", "--mount", "--net", "--wd=/"]
        self.enter += ["setpriv", f"--reuid={CONTAINER_USER}", f"--regid={CONTAINER_USER}"]
        self.enter += ["--clear-groups", "--no-new-privs", "env", "-i"]
        self.enter += [f"PATH={os.environ['PATH']}:/usr/sbin", "DATA_DIR=/mnt/data"]
        self.enter += ["BASE_URL=http://code.example.org", "TRUSTED_PROXIES=1"]
        # The image has compiled code; here the roles share what the first one compiles.
        self.enter += ["PYTHONPYCACHEPREFIX=/mnt/compiled"]

    def run(self, *command: str, within: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end; `within` is its input."""
        return subprocess.run(
            [*self.enter, *command], check=False, capture_output=True, text=True, input=within
        )

    def guildhall(self, *arguments: str, within: str = "") -> str:
        done = self.run(str(FOLDER / "run"), *arguments, within=within)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def is_healthy(self, port: str) -> bool:
        return self.run(str(FOLDER / "run"), "health", port).returncode == 0


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    if (
        os.getuid()
        or subprocess.run(["unshare", "--mount", "--net", "true"], check=False).returncode
    ):
        pytest.skip("namespaces need root")
    data = tmp_path / "mnt"
    data.mkdir()
    os.chown(data, CONTAINER_USER, CONTAINER_USER)
    holder = subprocess.Popen(
        ["unshare", "--mount", "--net", "sh", "-c", BEGIN, "sh", str(data)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "ready\n"
        yield Container(holder.pid)
    finally:
        holder.kill()
        holder.communicate()


@pytest.fixture
def start(container: Container, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """`start("api")` runs a role until the end of the test, which asks it to stop."""
    roles: dict[str, subprocess.Popen[bytes]] = {}

    def begin(role: str) -> None:
        with (tmp_path / f"{role}.log").open("wb") as log:
            os.chown(log.fileno(), CONTAINER_USER, -1)  # nginx opens it again, as /dev/stdout
            command = [*container.enter, str(FOLDER / "run"), role]
            roles[role] = subprocess.Popen(command, stdout=log, stderr=log)

    yield begin
    try:
        for role, process in reversed(roles.items()):
            process.terminate()
            assert process.wait(PATIENCE) == 0, (tmp_path / f"{role}.log").read_text()
    finally:
        for process in roles.values():
            process.kill()
            process.wait(PATIENCE)


def test_nginx_listens_at_no_ipv6_address_on_a_machine_without_ipv6(container, tmp_path):
    (nginx := tmp_path / "mnt" / "nginx").write_text("#!/bin/sh\ncat guildhall.conf\n")
    nginx.chmod(0o755)

    def configuration(before: str) -> str:
        command = [*container.enter[:5], "env", f"PATH=/mnt:{os.environ['PATH']}"]
        command += ["sh", "-c", f'{before} && exec "$0" nginx', FOLDER / "run"]
        return subprocess.check_output(command, text=True)

    assert "listen [::]:80;" in configuration("true")
    without = configuration("mount -t tmpfs tmpfs /proc")
    assert "listen 80;" in without and "[::]" not in without


@pytest.mark.slow
@HAS_NGINX
def test_the_roles_run_without_rights_on_a_read_only_tree(container, start):
    assert container.run("touch", str(ROOT / "new")).returncode != 0
    container.guildhall("migrate")
    assert not container.is_healthy("8000")
    for role in SERVERS:
        start(role)
    for port in ("8000", "8001"):
        eventually(partial(container.is_healthy, port))
    start("nginx")
    eventually(partial(container.is_healthy, "80"))

    container.guildhall("create_user", "alice", "--password-stdin", within="correct horse 42\n")
    token = container.guildhall("create_token", "alice", "--name", "first").strip()
    curl = ["curl", "--silent", "--no-buffer", "--max-time", "60"]
    curl += ["-H", f"Authorization: Bearer {token}", "-H", "Content-Type: application/json"]
    repos, stream = "/users/alice/repos", "/tail-events?scope=user:alice&last_event_id=0"
    new = '{"name": "Hello", "slug": "hello"}'
    assert '"hello"' in container.run(*curl, API + repos, "--data", new).stdout
    with subprocess.Popen(
        [*container.enter, *curl, API + stream], stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        assert any(line == "event: repo-created\n" for line in following.stdout)
        following.kill()

"""The files of deploy/: settings, units, the installation, and a trial run of all of it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from config.environment import Environment
from tests.gitclient import Git
from tests.repos.test_git_slots import fill, status, unread_clone
from tests.scenarios.test_proxy import HAS_NGINX
from tests.server import PATIENCE, ROOT, Server, deployed
from tests.waiting import eventually

pytestmark = pytest.mark.once
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.*"))
GIVEN = ["--host", "code.example.org", "--admin", "alice"]
SCRIPTS = [f"deploy/{name}" for name in ("backup", "install", "guildhall", "try")]
SCRIPTS += ["deploy/container/build", "deploy/container/run"]
SCRIPTS += [f"bin/{name}" for name in ("lint", "lock", "serve", "setup", "test")]
CERTIFICATE = ["--certificate", "/etc/ssl/a.pem", "--key", "/etc/ssl/a.key"]
END = b"\r\n0\r\n\r\n"
"""The end of a complete answer in chunks."""


class Recorded(dict[str, str]):
    """Variables that remember the names which are asked for."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.names: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return super().get(key, default)


def settings_in(text: str) -> dict[str, str]:
    """The settings of an environment file, read by a shell."""
    command = ["env", "-i", "sh", "-c", 'set -a; eval "$1"; exec env', "sh", text]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    pairs = dict(line.split("=", 1) for line in done.stdout.splitlines())
    return {name: value for name, value in pairs.items() if name not in {"PWD", "_"}}


def test_the_environment_file_has_each_setting(tmp_path):
    text = (DEPLOY / "environment").read_text().replace("/var/lib/guildhall", str(tmp_path))
    everything = settings_in(re.sub(r"^#(?=[A-Z_]+=)", "", text, flags=re.MULTILINE))
    variables = Recorded(everything)
    Environment(tmp_path, variables)
    assert set(everything) == variables.names
    documented = re.findall(r"^\| (`.+?) \|", (ROOT / "docs/deploy.md").read_text(), re.MULTILINE)
    assert variables.names <= set(re.findall(r"`(\w+)`", " ".join(documented)))


def test_lines_that_are_comments_have_the_defaults(tmp_path):
    """Those of EMAIL_URL, ALLOWED_HOSTS, CORS_ORIGINS, UPLOADS_URL, WEBHOOK_ALLOWED_NETS,
    SECRET_KEY, of git over SSH, of single sign-on and of monitoring are examples.
    """
    text = (DEPLOY / "environment").read_text().replace("/var/lib/guildhall", str(tmp_path))
    defaults = vars(Environment(tmp_path, settings_in(text)))
    everything = settings_in(re.sub(r"^#(?=[A-Z_]+=)", "", text, flags=re.MULTILINE))
    commented = vars(Environment(tmp_path, everything))
    different = {name for name in defaults if defaults[name] != commented[name]}
    monitoring = {"metrics_address", "sentry_dsn", "sends_spans"}
    lists = {"allowed_hosts", "cors_origins", "webhook_allowed_nets"}
    others = {"email", "uploads_bucket", "ssh_address", "ssh_url", "oidc"}
    assert different == others | lists | monitoring


@pytest.fixture
def units(tmp_path):
    """A copy of the units for this tree."""
    folder = tmp_path / "systemd"
    shutil.copytree(DEPLOY / "systemd", folder)
    for unit in folder.glob("*.service"):
        unit.write_text(unit.read_text().replace("/opt/guildhall", str(ROOT)))
    return folder


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_units(units):
    files = [path for path in units.iterdir() if path.is_file()]
    command = ["systemd-analyze", "verify", *files]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_waits_longer_than_gunicorn():
    for service in ("api", "stream"):
        unit = (DEPLOY / "systemd" / f"guildhall-{service}.service").read_text()
        [seconds] = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
        assert int(seconds) > graceful_timeout(service)


def graceful_timeout(service: str, **environment: str) -> int:
    return configured("graceful_timeout", service, **environment)


def configured(name: str, service: str, **environment: str) -> int:
    """A number of gunicorn's configuration, with the arguments of a unit."""
    done = print_config(service, **environment)
    return int(re.findall(rf"^{name} += (\d+)$", done.stdout, re.MULTILINE)[0])


def test_the_api_has_a_process_for_each_processor_and_the_stream_has_one():
    assert configured("workers", "api") == len(os.sched_getaffinity(0))
    assert configured("workers", "api", WEB_CONCURRENCY="3") == 3
    assert configured("workers", "stream", WEB_CONCURRENCY="3") == 1


def print_config(service: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gunicorn", "--print-config", *deployed(service)]
    with TemporaryDirectory() as data:
        # On PostgreSQL no worker starts, and nothing connects.
        given = {"DATABASE_URL": "postgres:///absent", "DATA_DIR": data, **environment}
        given["PATH"] = os.environ["PATH"]
        return subprocess.run(
            command, cwd=ROOT, env=given, check=False, capture_output=True, text=True
        )


def test_the_graceful_timeout_is_a_setting():
    assert graceful_timeout("api", GRACEFUL_TIMEOUT="77") == 77
    refused = print_config("api", GRACEFUL_TIMEOUT="long", TRUSTED_PROXIES="many")
    assert refused.returncode == 1
    assert "GRACEFUL_TIMEOUT: " in refused.stderr and "TRUSTED_PROXIES: " in refused.stderr


@contextmanager
def cloning(folder: Path, server: Server) -> Iterator[socket.socket]:
    """A client that has read the beginning of a clone."""
    server.api("alice").post("/users/alice/repos", name="Api", slug="api").gives(201)
    ours = Git(folder / "ours", f"{server.url}/users/alice/api.git", server.token("alice"))
    head = fill(server, "users/alice/api", ours)
    with closing(unread_clone(server, "users/alice/api", head)) as line:
        assert status(line) == 200
        yield line


def completes(line: socket.socket) -> bool:
    """Read until the end of the answer or of the connection."""
    received = bytearray()
    while not received.endswith(END) and (piece := line.recv(1 << 20)):
        received += piece
    return received.endswith(END)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGHUP, signal.SIGTERM])
def test_a_clone_survives_a_reload_and_a_stop(tmp_path, new_server, how):
    server = new_server(tmp_path, "gunicorn-deployed")
    with server, cloning(tmp_path, server) as line:
        old = set(server.pids)
        server.process.send_signal(how)
        eventually(lambda: f"Handling signal: {how.name[3:].lower()}" in server.log)
        if how == signal.SIGHUP:
            eventually(lambda: set(server.pids) - old)
            server.api("alice").get("/users/self").gives()
        assert completes(line)
        if how == signal.SIGTERM:
            assert server.process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_a_stop_waits_no_longer_than_the_graceful_timeout(tmp_path, new_server):
    """With the default, `stop` would give up."""
    server = new_server(tmp_path, "gunicorn-deployed", GRACEFUL_TIMEOUT="1")
    with server, cloning(tmp_path, server) as line:
        server.stop()
        with suppress(ConnectionResetError):
            assert not completes(line)


def install(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(DEPLOY / "install"), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_have_no_faults(script):
    shellcheck = Path(sys.executable).with_name("shellcheck")
    command = [shellcheck, "--severity=warning", "--external-sources", ROOT / script]
    subprocess.run(command, check=True)


def test_an_installation_needs_root():
    """Read from standard input: another user may not be allowed to open the tree."""
    command = ["/bin/sh", "-s", "--", *GIVEN]
    user = 65534 if os.getuid() == 0 else None
    with (DEPLOY / "install").open() as script:
        done = subprocess.run(
            command, stdin=script, cwd="/", user=user, check=False, capture_output=True, text=True
        )
    assert done.returncode == 1 and "as root" in done.stderr and not done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        GIVEN[:2],
        ["--host", "a/b", "--admin", "alice"],
        ["--host", "code.example.org", "--admin", "a b"],
        [*GIVEN, *CERTIFICATE[:2]],
        [*GIVEN, "--certificate", "a.pem", "--key", "/a.key"],
        [*GIVEN, "--certificate", "/a|b", "--key", "/a.key"],
        [*GIVEN, "--force"],
        [*GIVEN, "--key"],
    ],
)
def test_an_installation_refuses_invalid_arguments(arguments):
    done = install("--dry-run", *arguments)
    assert done.returncode == 1 and done.stderr.startswith("deploy/install: ") and not done.stdout


def test_a_dry_run_prints_each_command():
    secure, plain = install("--dry-run", *GIVEN, *CERTIFICATE), install("--dry-run", *GIVEN)
    for done in (secure, plain):
        assert (done.returncode, done.stderr) == (0, "")
        for command in (
            "useradd",
            "createdb",
            "migrate",
            "collectstatic",
            "enable guildhall.target",
        ):
            assert command in done.stdout
        for line in done.stdout.splitlines():
            assert not line or line.startswith(("== ", "+ "))
    assert (
        "BASE_URL=https://code.example.org" in secure.stdout and "/etc/ssl/a.key" in secure.stdout
    )
    assert "BASE_URL=http://code.example.org" in plain.stdout and "plain-http.sed" in plain.stdout


def install_beside(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A dry run on a machine whose configuration of nginx and settings are in the folder."""
    script = (DEPLOY / "install").read_text()
    script = script.replace("/etc/nginx/conf.d", str(folder)).replace("/etc/guildhall", str(folder))
    command = ["sh", "-s", "--", "--dry-run", *GIVEN, *arguments]
    return subprocess.run(command, input=script, check=False, capture_output=True, text=True)


def test_an_upgrade_does_not_turn_tls_off(tmp_path):
    site = tmp_path / "guildhall.conf"
    site.write_text((DEPLOY / "nginx.conf").read_text())
    done = install_beside(tmp_path)
    assert done.returncode == 1 and "has TLS" in done.stderr and not done.stdout
    assert install_beside(tmp_path, *CERTIFICATE).returncode == 0
    command = ["sed", "-f", f"{DEPLOY}/plain-http.sed", f"{DEPLOY}/nginx.conf"]
    site.write_text(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert install_beside(tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("url", "replaced"),
    [
        ("https://code.example.org", False),
        ("https://other.example.org", True),
        ("http://code.example.org", True),
    ],
)
def test_base_url_stays_https_behind_a_proxy_with_tls(tmp_path, url, replaced):
    (tmp_path / "environment").write_text(f"BASE_URL={url}\n")
    assert ("BASE_URL=http://code.example.org" in install_beside(tmp_path).stdout) == replaced
    assert "BASE_URL=https://code.example.org" in install_beside(tmp_path, *CERTIFICATE).stdout


def test_the_first_password_is_shown_even_if_no_token_can_be_made():
    """The next run of the script finds a person, and creates none."""
    [create] = re.findall(
        r"^create_admin\(\) \{.+?^\}", (DEPLOY / "install").read_text(), re.M | re.S
    )
    script = f"guildhall() {{ [ $1 = create_user ]; }}\n{create}\nfalse || create_admin"
    command = ["sh", "-euc", script]
    environment = {"PATH": os.environ["PATH"], "admin": "alice", "password": "given"}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 1 and re.search("username +alice\n +password +given", done.stdout)


@pytest.mark.slow
@HAS_NGINX
def test_a_trial_run_works_and_leaves_nothing():
    """PostgreSQL is that of the tests, or of this machine, or is started."""
    if "CI" not in os.environ and not (shutil.which("psql") and shutil.which("redis-server")):
        pytest.skip("PostgreSQL or Redis is not installed")
    names = ("PATH", "CI", "REDIS_URL", "GUILDHALL_CI_OWN_SERVICES")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    if os.environ.get("DATABASE_URL", "").startswith("postgres"):
        environment["DATABASE_URL"] = os.environ["DATABASE_URL"]
    with TemporaryDirectory() as folder:
        # PostgreSQL, which root starts as another user, must reach its folder.
        Path(folder).chmod(0o711)
        done = subprocess.run(
            [DEPLOY / "try", "20"],
            env={**environment, "TMPDIR": folder},
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, done.stdout
        assert not list(Path(folder).iterdir())
        assert not list(processes_of(folder))


def processes_of(folder: str) -> Iterator[str]:
    """The command lines of processes with the folder in their environment."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if folder.encode() in (process / "environ").read_bytes():
                yield (process / "cmdline").read_text()

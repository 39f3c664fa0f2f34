"""Time of clone and push by Guildhall under gunicorn, and by nginx with git-http-backend.

    .venv/bin/python bench/git_http.py [repository]     (this project's own without)

Starts and ends its own nginx and fcgiwrap (Debian: nginx-light, fcgiwrap). See bench/README.md.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path

from measuring import ROOT, take_turns

from apps.git.repo import GitRepo
from apps.git.run import _CONFIG
from tests.server import Server

ROUNDS = int(os.environ.get("ROUNDS", "9"))
BACKEND = "/usr/lib/git-core/git-http-backend"
NGINX = """
daemon off;
user {user};
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    fastcgi_temp_path {folder}/fastcgi;
    proxy_temp_path {folder}/proxy;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 0;
    server {{
        listen 127.0.0.1:{port};
        auth_basic git;
        auth_basic_user_file {folder}/people;
        location / {{
            fastcgi_pass unix:{folder}/fcgi;
            fastcgi_buffers 16 64k;
            fastcgi_buffer_size 64k;
            fastcgi_max_temp_file_size 0;
            fastcgi_param SCRIPT_FILENAME {backend};
            fastcgi_param GIT_PROJECT_ROOT {folder}/repos;
            fastcgi_param GIT_HTTP_EXPORT_ALL 1;
            fastcgi_param GIT_PROTOCOL $http_git_protocol;
            fastcgi_param PATH_INFO $uri;
            fastcgi_param REMOTE_USER $remote_user;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding;
        }}
    }}
}}
"""


class Client:
    """git with an address and credentials."""

    def __init__(self, folder: Path, url: str, token: str) -> None:
        self.folder, self.url = folder, url
        word = base64.b64encode(f"any:{token}".encode()).decode()
        self.sign_in = ("-c", f"http.extraHeader=Authorization: Basic {word}")

    def __call__(self, *arguments: str) -> None:
        quiet = {"HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
        subprocess.run(
            ["git", *self.sign_in, *arguments],
            check=True,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], **quiet},
        )


class Guildhall:
    """An empty repository of alice's for each name."""

    name = "Guildhall, gunicorn"

    def __init__(self, folder: Path, running: ExitStack) -> None:
        (folder / "ours").mkdir()
        self.server = running.enter_context(Server(folder / "ours", "gunicorn"))
        url = f"{self.server.url}/users/alice"
        self.client = Client(folder, url, self.server.token("alice"))

    def create(self, slug: str) -> None:
        self.server.api("alice").post("/users/alice/repos", name=slug, slug=slug).gives(201)


class HttpBackend:
    """The same repositories with the same configuration, behind nginx."""

    name = "nginx, git-http-backend"

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.folder = folder / "theirs"
        (self.folder / "repos").mkdir(parents=True)
        (self.folder / "people").write_text("any:{PLAIN}secret\n")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = {"folder": self.folder, "port": port, "backend": BACKEND}
        user = subprocess.run(["id", "-un"], check=True, capture_output=True, text=True).stdout
        (self.folder / "nginx.conf").write_text(NGINX.format(user=user.strip(), **words))
        running.enter_context(process("fcgiwrap", "-c", "4", "-s", f"unix:{self.folder}/fcgi"))
        running.enter_context(process("nginx", "-p", f"{self.folder}", "-c", "nginx.conf"))
        self.client = Client(folder, f"http://127.0.0.1:{port}", "secret")
        wait_for(port)

    def create(self, slug: str) -> None:
        path = self.folder / "repos" / f"{slug}.git"
        GitRepo(path).create("main")
        config = {**_CONFIG, "http.receivepack": "true"}
        for name, value in config.items():
            subprocess.run(["git", f"--git-dir={path}", "config", name, value], check=True)


@contextmanager
def process(*command: str):
    """A process of the benchmark and its children, until the end of the block."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    program = shutil.which(command[0], path=path) or sys.exit(f"{command[0]} is not installed")
    started = subprocess.Popen([program, *command[1:]], start_new_session=True)
    try:
        yield started.pid
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        started.wait(20)


def wait_for(port: int) -> None:
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
    return sys.exit("nginx does not start")


class Bench:
    def __init__(self, folder: Path, source: Path, sites: list) -> None:
        self.folder, self.sites = folder, sites
        self.work = folder / "work"
        git = ["git", "clone", "--quiet", "--single-branch", "--no-tags", f"file://{source}"]
        subprocess.run([*git, str(self.work)], check=True)
        self.git("checkout", "--quiet", "-B", "main")
        self.count = 0

    def git(self, *arguments: str) -> str:
        person = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(self.work), *person, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def compare(self, title: str, way: Callable[[object], Callable[[], None]]) -> None:
        """`way(site)` prepares and returns the measured function; the sites alternate."""
        ways = {site.name: lambda _, site=site: way(site) for site in self.sites}
        took = take_turns(ways, ROUNDS)
        print(f"\n{title}")
        theirs = statistics.median(took[HttpBackend.name])
        for name, found in took.items():
            middle = statistics.median(found)
            spread = f"{min(found) * 1000:.0f} to {max(found) * 1000:.0f}"
            print(f"  {name:24} {middle * 1000:8.0f} ms ({spread})  {theirs / middle:5.2f} of it")

    def clone(self, site) -> Callable[[], None]:
        target = self.folder / "clone"
        shutil.rmtree(target, ignore_errors=True)
        address = f"{site.client.url}/first.git"
        return lambda: site.client("clone", "--quiet", "--bare", address, str(target))

    def push_all(self, site) -> Callable[[], None]:
        self.count += 1
        name = f"all-{self.count}"
        site.create(name)
        return self.push(site, name)

    def push_one(self, site) -> Callable[[], None]:
        self.git("commit", "--quiet", "--allow-empty", "--message", "x")
        return self.push(site, "first")

    def push(self, site, name: str) -> Callable[[], None]:
        address = f"{site.client.url}/{name}.git"
        return lambda: site.client(
            "-C", str(self.work), "push", "--quiet", address, "HEAD:refs/heads/main"
        )

    def run(self) -> None:
        size = self.git("count-objects", "-v").split("size-pack: ")[1].split()[0]
        commits = self.git("rev-list", "--count", "HEAD")
        print(f"{commits} commits, {int(size) / 1024:.1f} MB, {ROUNDS} rounds, medians")
        for site in self.sites:
            site.create("first")
            self.push(site, "first")()
        self.compare("clone", self.clone)
        self.compare("push of everything", self.push_all)
        self.compare("push of one commit", self.push_one)


def main() -> None:
    source = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT).resolve()
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        sites = [Guildhall(folder, running), HttpBackend(folder, running)]
        Bench(folder, source, sites).run()


if __name__ == "__main__":
    main()

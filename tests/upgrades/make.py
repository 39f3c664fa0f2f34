"""Makes the installation of a version, whose commit has to be in the history:

DJANGO_SETTINGS_MODULE=tests.settings .venv/bin/python manage.py shell --command \
    'from tests.upgrades.make import make; make("v1.0.0", "postgres:///postgres")'
"""

from __future__ import annotations

import base64
import io
import lzma
import os
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from tests.gitclient import Git
from tests.server import Remote, Server
from tests.upgrades import BASE_URL, FOLDER, checkout
from tests.upgrades.answers import answers
from tests.waiting import eventually

PEOPLE = ("alice", "bob", "carol", "dave", "sam", "vic")
REMADE = {"static", "wake"}
COPY_ROWS = """
from datetime import datetime
from django.core.management import call_command
from django.core.serializers.json import DjangoJSONEncoder
encode = DjangoJSONEncoder.default
def exactly(self, value):
    return value.isoformat() if isinstance(value, datetime) else encode(self, value)
DjangoJSONEncoder.default = exactly
call_command("dumpdata", exclude=["contenttypes", "auth"], output={file!r})
"""
"""Django's own format has milliseconds only."""
LEFT_OUT = ("\\restrict ", "\\unrestrict ", "SET transaction_timeout ")
"""Beginnings of lines of pg_dump that only psql reads, or not every version of PostgreSQL."""


def make(version: str, postgresql: str) -> None:
    """Write the files of the version; the PostgreSQL server gets the same rows for a while."""
    with TemporaryDirectory() as folder:
        make_in(Path(folder), version, postgresql)


def make_in(work: Path, version: str, postgresql: str) -> None:
    target = FOLDER / version
    target.mkdir(exist_ok=True)
    root = checkout(version, work / "tree")
    with Server(work, root=root, BASE_URL=BASE_URL) as server:
        server.run("from config import demo; demo.load()")
        fill(server, work / "clone")
        stored = eventually(lambda: settled(server, work), pause_for=3) or {}
        server.stop()
        rows = str(work / "rows.json")
        server.run(COPY_ROWS.format(file=rows))
        server.run("from django.db import connection as c; c.cursor().execute('VACUUM')")
        stored["tokens"] = {name: server.token(name) for name in PEOPLE}
        pack(Path(server.environment["DATA_DIR"]), target / "data.tar.xz")
    write(target / "answers.json.xz", orjson.dumps(stored, option=orjson.OPT_INDENT_2))
    os.environ["DATABASE_URL"] = postgresql
    write(target / "database.sql.xz", dump(root, work, rows))


def fill(server: Server, folder: Path) -> None:
    """Add things that the demo lacks."""
    for name in PEOPLE:
        server.token(name)
    alice, sam = server.api("alice"), server.api("sam")
    alice.post("/users/alice/repos", name="Notes", slug="scratch").gives(201)
    alice.put("/users/alice/repos/scratch", name="Notes", slug="notes").gives()
    git = Git(folder, f"{server.url}/users/alice/notes.git", server.token("alice"))
    git.commit("a.md", "# Notes\n")
    git("tag", "-m", "First", "v1")
    git("push", "--quiet", git.url, "main", "v1")
    write_texts(alice)
    token = alice.post("/api-tokens", name="old", expires_at="10 years").gives(201)
    alice.put(f"/api-tokens/{token['uuid']}/revoke").gives()
    sam.post("/signup-invites", expires_at="10 years", email="zoe@example.org").gives(201)
    limit = {"scope": "user:carol", "max_requests": 500, "window_seconds": 60, "is_enabled": False}
    sam.post("/rate-limits", **limit).gives(201)
    sam.put("/site-settings", signup_invite_max_per_24h=7).gives()


def write_texts(alice: Remote) -> None:
    """An edited thread with an upload, and a deleted one."""
    repo = "/users/alice/repos/notes"
    content = base64.b64encode(bytes(range(256)) * 4).decode()
    sent = {"filename": "bytes.bin", "content_base64": content}
    upload = alice.post(f"{repo}/uploads", **sent).gives(201)
    for title in ("Kept", "Deleted"):
        body = {"title": title, "body": f"See {upload['url']}, @alice.", "kind": "issue"}
        alice.post(f"{repo}/threads", **body).gives(201)
    alice.patch(f"{repo}/threads/1", title="Kept for good", priority="high").gives()
    alice.delete(f"{repo}/threads/2").gives(204)


def settled(server: Server, work: Path) -> dict[str, Any] | None:
    """The answers, if jobs of the worker no longer change them."""
    with TemporaryDirectory(dir=work) as first, TemporaryDirectory(dir=work) as second:
        before, after = answers(server, Path(first)), answers(server, Path(second))
    return after if before == after else None


def dump(root: Path, work: Path, rows: str) -> bytes:
    """The same rows in a database of PostgreSQL's, as SQL that any client can execute."""
    server = Server(work / "postgresql", root=root)
    try:
        server.manage("migrate", "--verbosity", "0")
        server.run("from apps.site.models import *; RateLimit.objects.all().delete()")
        server.run("from apps.site.models import *; SiteSettings.objects.all().delete()")
        server.manage("loaddata", rows)
        command = ["pg_dump", "--no-owner", "--inserts", "--dbname", server.database]
        sql = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    finally:
        server.__exit__()
    lines = [line for line in sql.split("\n") if not line.startswith(LEFT_OUT)]
    return "\n".join(lines).encode()


def pack(data: Path, file: Path) -> None:
    paths = [path for path in sorted(data.iterdir()) if path.name not in REMADE]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in paths:
            archive.add(path, path.name)
    write(file, packed.getvalue())


def write(file: Path, content: bytes) -> None:
    file.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))
    print(f"{file.name}: {file.stat().st_size} bytes")

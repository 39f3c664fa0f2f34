"""Static files while nodes of two versions serve the same site, and after a power failure."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import closing
from http.client import HTTPResponse
from pathlib import Path

import pytest

from config.static import collect
from tests.server import ROOT, Server

pytestmark = pytest.mark.once
STYLE = re.compile(r'href="(/static/guildhall\.[0-9a-f]{12}\.css)"')
OUTSIDE = "outside.0123456789ab.css"
LEAVING = [f"/static/../{OUTSIDE}", f"/static/%2e%2e/{OUTSIDE}", f"/static/js/../../{OUTSIDE}"]


def fetch(server: Server, path: str) -> tuple[HTTPResponse, bytes]:
    with closing(server.connect()) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response, response.read()


def style_of(server: Server) -> str:
    """The address of the style that a page names."""
    return str(STYLE.findall(fetch(server, "/signin")[1].decode())[0])


def next_version(folder: Path) -> Path:
    """This tree with another style."""
    for name in ("apps", "config", "templates"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "manage.py", folder)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    with (folder / "apps/web/static/guildhall.css").open("a") as style:
        style.write("\n/* of the next version */\n")
    return folder


@pytest.mark.slow
def test_each_node_of_a_rolling_restart_has_the_files_of_both_versions(tmp_path, new_server):
    root = next_version(tmp_path / "next")
    with new_server(tmp_path) as old, Server(tmp_path, beside=old, root=root) as new:
        Path(old.environment["DATA_DIR"], OUTSIDE).write_text("secret")
        before, after = style_of(old), style_of(new)
        assert before != after
        for server in (old, new):
            contents = [served(server, address) for address in (before, after)]
            assert [b"of the next version" in content for content in contents] == [False, True]
            assert fetch(server, "/static/guildhall.0123456789ab.css")[0].status == 404
            assert [fetch(server, path)[0].status for path in LEAVING] == [404] * len(LEAVING)


def served(server: Server, address: str) -> bytes:
    """The content of a file that browsers may store for good."""
    response, content = fetch(server, address)
    assert (response.status, len(content)) == (200, int(response.headers["Content-Length"]))
    assert "immutable" in response.headers["Cache-Control"]
    return content


def test_a_file_that_a_power_failure_has_cut_is_whole_again_and_old_files_stay(settings, tmp_path):
    settings.DATA_DIR, settings.STATIC_ROOT = tmp_path, tmp_path / "static"
    settings.STATIC_ROOT.mkdir()
    collect()
    [picture] = settings.STATIC_ROOT.glob("guildhall.*.svg")
    content = picture.read_bytes()
    picture.write_bytes(content[:10])
    (interrupted := tmp_path / "static-interrupted").mkdir()
    os.utime(interrupted, (0, 0))
    (of_older := settings.STATIC_ROOT / "guildhall.0123456789ab.css").write_text("")
    collect()
    assert picture.read_bytes() == content
    assert of_older.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["static"]

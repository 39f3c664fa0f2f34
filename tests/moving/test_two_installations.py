"""The demo's repositories move from one installation into another, which has other people."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.moving.conftest import lines
from tests.server import Server

pytestmark = pytest.mark.slow
DEMO = "from config import demo; demo.load()"
PATHS = ("teams/acme/hello", "teams/acme/tide-table", "users/dave/tide-table")
REFS = """
from apps.repos.models import Repo
[repo] = Repo.objects.filter(slug={slug!r}, {owner})
print(repo.git.git("for-each-ref").out.decode())
"""


def test_all_repositories_of_the_demo_move(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    old = Server(tmp_path_factory.mktemp("old"))
    new = Server(tmp_path_factory.mktemp("new"), BASE_URL="https://new.example")
    try:
        for server in (old, new):
            server.manage("migrate", "--verbosity", "0")
        old.run(DEMO)
        new.manage("create_user", "zoe")
        for path in PATHS:
            name = path.replace("/", "-")
            first, again = tmp_path / f"{name}.zip", tmp_path / f"{name}-again.zip"
            old.manage("export_repo", path, str(first))
            new.manage("import_repo", str(first), "--user", "zoe", "--slug", name)
            new.manage("export_repo", f"users/zoe/{name}", str(again))
            assert texts(first) == texts(again)
            owner = f"owner_{path[:4]}__isnull=False"
            source = old.run(REFS.format(slug=path.split("/")[2], owner=owner))
            assert new.run(REFS.format(slug=name, owner="owner_user__username='zoe'")) == source
        assert "0 differences" in new.manage("check_repos")
        assert "none damaged" in new.manage("check_uploads")
    finally:
        old.__exit__()
        new.__exit__()


def texts(archive: Path) -> list[tuple[str, int, str, str]]:
    return [
        (name, row["number"], row["body"], row["created_at"])
        for name in ("threads", "pulls")
        for row in lines(archive, name)
    ]

"""DATA_DIR and the database have the same id; a server with another folder does not start."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command

from apps.site.models import SiteSettings
from config.installation import folder_problem
from tests.server import GUNICORN, PATIENCE, ROOT, Server

WAY_OUT = "Mount or name the right folder"


@pytest.fixture
def folder(db, settings, tmp_path) -> Path:
    """The folder of an installation whose database is elsewhere."""
    settings.DATA_DIR_HOLDS_DATABASE = False
    return use(settings, tmp_path / "data")


def use(settings, folder: Path, *, key: str = "") -> Path:
    folder.mkdir()
    settings.DATA_DIR, settings.REPOSITORIES_DIR = folder, folder / "repositories"
    settings.SECRET_KEY = key
    SiteSettings.objects.update(installation=None)
    call_command("migrate", verbosity=0)
    return folder


def id_in_database() -> str:
    return str(SiteSettings.objects.get().installation)


def test_a_new_installation_has_one_id_in_both_places_and_a_key(folder):
    assert (folder / "installation").read_text() == f"{id_in_database()}\n"
    assert len((folder / "secret-key").read_text()) >= 50
    assert folder_problem() == ""


def test_a_copy_of_the_folder_is_as_good(folder, settings, tmp_path):
    settings.DATA_DIR = shutil.copytree(folder, tmp_path / "moved")
    assert folder_problem() == ""


@pytest.mark.parametrize("mark", [None, "7d9f3b52-0c41-4d6e-9a8b-2f1e6c5d4b3a", "\0"])
def test_an_empty_and_a_foreign_folder_are_refused_and_get_no_key(folder, settings, tmp_path, mark):
    settings.DATA_DIR, settings.SECRET_KEY = tmp_path / "other", ""
    settings.DATA_DIR.mkdir()
    if mark:
        (settings.DATA_DIR / "installation").write_text(mark)
    before = [*settings.DATA_DIR.iterdir()]
    [error] = run_checks(tags=["installation"])
    assert error.id == "guildhall.E001" and WAY_OUT in error.msg and "\n" not in error.msg
    assert str(settings.DATA_DIR) in error.msg and "manage.py adopt_folder" in error.msg
    with pytest.raises(CommandError, match=WAY_OUT):
        call_command("migrate", verbosity=0)
    assert [*settings.DATA_DIR.iterdir()] == before


def test_adopt_folder_ends_a_deliberate_restore(folder, settings):
    installation = id_in_database()
    (folder / "installation").write_text(str(uuid.uuid4()))
    (folder / "secret-key").unlink()
    settings.SECRET_KEY = ""
    call_command("adopt_folder", stdout=io.StringIO())
    assert id_in_database() == installation and folder_problem() == ""
    assert (folder / "secret-key").read_text() == settings.SECRET_KEY


def test_an_installation_from_before_gets_its_id_at_the_next_migrate(folder, settings, make, alice):
    settings.SECRET_KEY = "its own"
    make.repo(alice, "api", by=alice)
    SiteSettings.objects.update(installation=None)
    (folder / "installation").unlink()
    assert folder_problem() == ""
    call_command("migrate", verbosity=0)
    assert (folder / "installation").read_text() == f"{id_in_database()}\n"
    assert settings.SECRET_KEY == "its own"


@pytest.mark.parametrize("key", ["", "given"])
def test_an_installation_from_before_whose_folder_is_not_mounted_gets_none(
    folder, settings, make, alice, key
):
    make.repo(alice, "api", by=alice)
    SiteSettings.objects.update(installation=None)
    (folder / "installation").unlink()
    shutil.rmtree(settings.REPOSITORIES_DIR)
    settings.SECRET_KEY = key
    with pytest.raises(CommandError, match=WAY_OUT):
        call_command("migrate", verbosity=0)
    assert SiteSettings.objects.get().installation is None
    assert not (folder / "installation").exists()


def test_a_new_database_does_not_take_the_folder_of_another_one(folder):
    SiteSettings.objects.update(installation=None)
    assert "another database" in folder_problem()


def test_a_database_file_in_the_folder_may_be_restored_or_made_anew(folder, settings):
    settings.DATA_DIR_HOLDS_DATABASE = True
    installation = id_in_database()
    SiteSettings.objects.update(installation=None)
    call_command("migrate", verbosity=0)
    assert id_in_database() == installation
    (folder / "installation").unlink()
    assert folder_problem() == ""
    call_command("migrate", verbosity=0)
    assert (folder / "installation").read_text() == f"{installation}\n"


def test_a_check_before_the_tables_exist_says_nothing(tmp_path):
    server = elsewhere(tmp_path)
    try:
        assert "no issues" in server.manage("check")
        assert not (tmp_path / "data" / "secret-key").exists()
    finally:
        server.__exit__()


def elsewhere(tmp_path: Path, **more) -> Server:
    """A server that has not started, with an empty database outside its folder."""
    server = Server(tmp_path, **more)
    server.environment.setdefault("DATABASE_URL", f"sqlite:///{tmp_path}/elsewhere.db")
    return server


STARTS = {
    "serve": ["manage.py", "serve"],
    "run_jobs": ["manage.py", "run_jobs"],
    "gunicorn": ["-m", "gunicorn", *GUNICORN["gunicorn"]],
    "gunicorn-asgi": ["-m", "gunicorn", *GUNICORN["gunicorn-asgi"]],
}
SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in STARTS if kind != "serve"]


@pytest.mark.parametrize("kind", ["serve", *SLOW])
def test_no_process_starts_in_an_empty_folder(kind, tmp_path):
    server = elsewhere(tmp_path)
    try:
        server.manage("migrate", "--verbosity", "0")
        shutil.rmtree(tmp_path / "data")
        ended = subprocess.run(
            [sys.executable, *STARTS[kind]],
            cwd=ROOT,
            env={**server.environment, "GUNICORN_CMD_ARGS": "--bind 127.0.0.1:0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        assert ended.returncode != 0
        assert ended.stdout.count(WAY_OUT) == 1 and "Traceback" not in ended.stdout
        assert [path.name for path in (tmp_path / "data").iterdir()] == ["static"]
    finally:
        server.__exit__()


def test_an_unmarked_folder_is_refused_while_the_database_is_away(tmp_path):
    server = Server(tmp_path, DATABASE_URL="postgres://x@127.0.0.1:1/x")
    try:
        with pytest.raises(AssertionError, match="the database does not answer"):
            server.manage("check")
        assert not (tmp_path / "data" / "secret-key").exists()
        (tmp_path / "data" / "installation").write_text(str(uuid.uuid4()))
        server.manage("check")
    finally:
        server.__exit__()

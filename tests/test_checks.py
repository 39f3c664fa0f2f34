"""Warnings for operators: servers that count separately, an open folder, too few connections."""

import os
import shutil
import stat

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connection

from config.checks import connections_of_node, counters_are_shared, data_is_private
from tests.gitclient import Git
from tests.server import Server
from tests.waiting import eventually

pytestmark = pytest.mark.django_db
COUNTED_APART = "Each server counts requests for itself"
OPEN = "Others on this machine may look into DATA_DIR"


def test_a_deployment_without_redis_is_warned(settings):
    assert [one.id for one in counters_are_shared(None)] == ["guildhall.W001"]
    assert "guildhall.W001" not in {one.id for one in run_checks()}
    settings.REDIS_URL = "redis://localhost"
    assert counters_are_shared(None) == []


def test_check_deploy_says_so(capsys):
    call_command("check", "--deploy")
    assert f"(guildhall.W001) {COUNTED_APART}" in capsys.readouterr().err


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o770, 0o701, 0o704])
def test_check_tells_of_a_data_folder_that_others_may_look_into(mode, tmp_path, settings, capsys):
    shutil.copy(settings.DATA_DIR / "installation", tmp_path)
    settings.DATA_DIR = tmp_path
    tmp_path.chmod(0o700)
    assert data_is_private(None) == []
    tmp_path.chmod(mode)
    call_command("check")
    said = capsys.readouterr().err
    assert f"(guildhall.W002) {OPEN} ({tmp_path}, mode {mode:o})" in said


@pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's own")
def test_check_deploy_tells_if_the_pools_of_a_node_exceed_max_connections(
    settings, capsys, monkeypatch
):
    """One process for each 20 connections that there are leaves none for stream and worker."""
    monkeypatch.setitem(settings.DATABASES["default"]["OPTIONS"], "pool", {"max_size": 20})
    with connection.cursor() as cursor:
        cursor.execute("SHOW max_connections")
        [most] = cursor.fetchone()
    settings.WEB_CONCURRENCY = 1
    assert connections_of_node() == 61
    call_command("check", "--deploy", "--database", "default")
    assert "guildhall.W003" not in capsys.readouterr().err
    settings.WEB_CONCURRENCY = int(most) // 20
    call_command("check", "--deploy")
    assert "guildhall.W003" not in capsys.readouterr().err
    call_command("check", "--deploy", "--database", "default")
    assert f"may open {connections_of_node()}" in capsys.readouterr().err


@pytest.fixture
def usual_umask():
    """The default umask of most systems, which the processes of a test inherit."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("serve", marks=pytest.mark.once),
        pytest.param("gunicorn", marks=[pytest.mark.slow, pytest.mark.once]),
        pytest.param("gunicorn-asgi", marks=[pytest.mark.slow, pytest.mark.once]),
    ],
)
def test_a_server_tells_of_an_open_folder_and_makes_files_for_its_user_alone(
    kind, tmp_path, usual_umask
):
    data = tmp_path / "data"
    data.mkdir()
    with Server(tmp_path, kind) as server:
        server.api("alice").post("/users/alice/repos", name="Api", slug="api").gives(201)
        clone = Git(tmp_path / "clone", f"{server.url}/users/alice/api.git", server.token("alice"))
        clone.commit()
        clone("push", "--quiet", clone.url, "main")
        eventually(lambda: OPEN in server.log)
        assert server.log.count(OPEN) == 1
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in data.rglob("*")}
    assert [path for path in modes if path.name == "main"]
    assert not {path: mode for path, mode in modes.items() if mode & 0o077}

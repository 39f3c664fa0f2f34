"""`manage.py backup` and `manage.py restore`: refusals, errors, incremental backups, restoration.

tests/scenarios/test_backup.py makes backups while people work.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.server import ROOT, Server
from tests.waiting import eventually

MAKE = """
import os
from datetime import timedelta
from django.utils import timezone
from apps.accounts.access import access_to_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.repos.access import access_to
from apps.repos.actions import create_repo
from apps.uploads.actions import create_upload
from apps.uploads.models import Upload
from tests.gitclient import Clone
from pathlib import Path

ada = Principal(User.objects.get(username="alice"))
owner = ada.person
repo = owner.repos.filter(slug="api").first() or create_repo(
    access=access_to_user(ada, owner), name="Api", slug="api"
)
access = access_to(ada, repo)
"""
PUSH = "Clone(Path({folder!r}), repo, owner).push_commit('main', {{'a': 'x'}}, onto={onto!r})"
UPLOAD = "create_upload(access=access, filename='a.bin', content=os.urandom(5_000_000))"
EVENTS = """
from apps.events.models import Event
for event in Event.objects.filter(kind__startswith="branch-").order_by("id"):
    print(event.kind, event.actor_id is not None)
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[Server]:
    """The data of a server with a repository, a commit and an upload."""
    made = new_server(tmp_path_factory.mktemp("data"))
    clone = str(tmp_path_factory.mktemp("clone") / "work")
    made.run(MAKE + PUSH.format(folder=clone, onto="") + "\n" + UPLOAD)
    yield made
    made.__exit__()


@pytest.fixture(scope="module")
def backup(data: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete backup. Tests change copies of it."""
    folder = tmp_path_factory.mktemp("backup") / "new" / "full"
    data.manage("backup", str(folder))
    return folder


@pytest.fixture
def copy(backup: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(backup, tmp_path / "copy"))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Server]:
    """An empty installation."""
    made = Server(tmp_path / "elsewhere")
    yield made
    made.__exit__()


def fails(server: Server, *arguments: str) -> str:
    """Run a command that must fail; returns what it prints."""
    with pytest.raises(AssertionError) as failure:
        server.manage(*arguments)
    text = str(failure.value)
    assert "Traceback" not in text, text
    return text


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def change_manifest(folder: Path, **fields: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_folder_with_contents_is_refused_and_left_alone(data, tmp_path):
    (tmp_path / "mine").touch()
    assert "is not empty" in fails(data, "backup", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_backups_of_each_night_are_linked_and_the_oldest_removed(data, tmp_path):
    (tmp_path / "2026-01-01T000000Z").mkdir()  # interrupted
    for _ in range(3):
        command = [ROOT / "deploy/backup", tmp_path, "2"]
        subprocess.run(command, env=data.environment, check=True, capture_output=True)
    former, last = sorted(tmp_path.glob("2*"))
    assert {(folder / "manifest.json").exists() for folder in (former, last)} == {True}
    [upload] = (path.relative_to(former) for path in files(former / "uploads"))
    assert (former / upload).samefile(last / upload)
    later = last.rename(tmp_path / "2999-01-01T000000Z")  # then the clock was set back
    subprocess.run(command, env=data.environment, check=True, capture_output=True)
    new, _ = sorted(tmp_path.glob("2*"))
    assert new > former and later.exists()


def test_a_previous_backup_has_to_be_complete(data, tmp_path):
    (tmp_path / "half").mkdir()
    target = tmp_path / "new"
    text = fails(data, "backup", str(target), "--incremental", str(tmp_path / "half"))
    assert "it has no manifest.json" in text and not target.exists()


@pytest.mark.parametrize("size", [5_000, 4_000_000], ids=["database", "upload"])
def test_a_full_disk_leaves_a_folder_without_manifest(data, tmp_path, size):
    """A limit for the size of files simulates a full disk."""
    full = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    call = f"from django.core.management import call_command as call; call('backup', '{tmp_path}')"
    with pytest.raises(AssertionError, match="The backup is incomplete"):
        data.run(f"{full}\n{call}")
    assert not (tmp_path / "manifest.json").exists()


def test_a_file_that_cannot_be_read_is_named(data, tmp_path):
    uploads = Path(data.environment["DATA_DIR"]) / "uploads"
    upload = min(files(uploads))
    moved = upload.rename(tmp_path / "upload")
    upload.mkdir()  # root may read every file, but nobody reads a folder as one
    try:
        assert f"Is a directory: '{upload}'" in fails(data, "backup", str(tmp_path / "new"))
    finally:
        upload.rmdir()
        moved.rename(upload)
    assert not (tmp_path / "new" / "manifest.json").exists()


def test_a_backup_is_private_and_says_what_it_has(backup, data):
    made = json.loads((backup / "manifest.json").read_text())
    assert (made["format"], made["repositories"], made["uploads"]) == (1, 1, 1)
    assert made["rows"]["repos_repo"] == made["rows"]["uploads_upload"] == 1
    assert made["rows"]["events_event"] > 0 < made["newest_event"]
    assert "repos.0001_initial" in made["migrations"] and made["started"] < made["finished"]
    names = {path.name for path in (backup / "files").iterdir()}
    assert names == {"secret-key", "installation"}
    assert backup.stat().st_mode & 0o77 == 0
    last = json.loads(Path(data.environment["DATA_DIR"], "last-backup.json").read_text())
    assert last == {**made, "folder": str(backup)}


def test_an_incremental_backup_shares_what_cannot_change(data, backup, tmp_path):
    later = tmp_path / "later"
    data.run(MAKE + PUSH.format(folder=str(tmp_path / "work"), onto="") + "\n" + UPLOAD)
    data.manage("backup", str(later), "--incremental", str(backup))
    shared, own = set[str](), set[str]()
    for path in files(later):
        previous = backup / path.relative_to(later)
        is_shared = previous.exists() and previous.stat().st_ino == path.stat().st_ino
        (shared if is_shared else own).add(str(path.relative_to(later)))
    objects = {name for name in shared if "/objects/" in name}
    assert objects and shared - objects == {
        str(path.relative_to(backup)) for path in files(backup / "uploads")
    }
    assert any("/objects/" in name for name in own), "the new commit"
    assert sum(name.startswith("uploads/") for name in own) == 1
    assert {"manifest.json", "files/secret-key"} < own
    live = Path(data.environment["DATA_DIR"])
    assert not {path.stat().st_ino for path in files(live)} & {
        path.stat().st_ino for path in files(later)
    }


def test_an_installation_with_contents_is_refused(data, backup, elsewhere):
    assert "is not empty: it has installation, last-backup.json, repositories" in fails(
        data, "restore", str(backup)
    )
    elsewhere.manage("migrate", "--verbosity", "0")
    folder = Path(elsewhere.environment["DATA_DIR"])
    (folder / "installation").unlink()
    (folder / "repositories").rmdir()
    refusal = fails(elsewhere, "restore", str(backup))
    assert "The database is not empty" in refusal or "is not the folder of this" in refusal


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another format": ({"format": 2}, "another format: 2"),
    "another database": ({"database": "oracle"}, "The backup is of oracle, but"),
    "a newer version": ({"migrations": ["repos.9999_next"]}, "no migration repos.9999_next"),
    "a field too much": ({"mood": "good"}, "is damaged"),
}


def test_a_backup_that_cannot_be_restored_here_is_refused(copy, elsewhere, case):
    original = (copy / "manifest.json").read_text()
    for name, (fields, words) in REFUSED.items():
        with case(name):
            (copy / "manifest.json").write_text(original)
            change_manifest(copy, **fields)
            assert words in fails(elsewhere, "restore", str(copy))
    (copy / "manifest.json").unlink()
    assert "it has no manifest.json" in fails(elsewhere, "restore", str(copy))
    data = Path(elsewhere.environment["DATA_DIR"])
    assert not (data / "repositories").exists()


def test_missing_parts_are_reported(copy, elsewhere):
    [upload] = files(copy / "uploads")
    upload.unlink()
    shutil.rmtree(next((copy / "repositories").glob("??/??/*.git")))
    text = fails(elsewhere, "restore", str(copy))
    for words in (
        "its folder is missing",
        "repositories: 0 instead of 1",
        "uploads: 0 instead of 1",
        "check_uploads: 1 of 1 files are missing or damaged",
    ):
        assert words in text


def test_an_upload_that_was_removed_during_the_backup_is_not_missing(data, elsewhere, tmp_path):
    """The worker removes uploads that no text refers to once they are a day old."""
    age = "from apps.uploads.models import Upload; from django.utils import timezone as tz\n"
    age += "from datetime import timedelta as by\n"
    age += "Upload.objects.update(created_at=tz.now() - by(days={}))"
    data.run(age.format(2))
    data.manage("backup", str(tmp_path / "new"))
    data.run(age.format(0))
    shutil.rmtree(tmp_path / "new" / "uploads")
    repositories = sum(path.stat().st_size for path in files(tmp_path / "new" / "repositories"))
    change_manifest(tmp_path / "new", uploads=0, bytes=repositories)
    assert "nothing is missing" in elsewhere.manage("restore", str(tmp_path / "new"))


def test_pushes_after_the_copy_of_the_database_are_recorded(data, elsewhere, tmp_path):
    """A push and an upload come as soon as the database has been copied."""
    folder = tmp_path / "new"
    push = PUSH.format(folder=str(tmp_path / "work"), onto="")
    code = f"change = lambda line: line.startswith('database') and ({push}, {UPLOAD})\n"
    code += "from config.backups.backup import back_up\n"
    data.run(f"{MAKE}{code}back_up(Path({str(folder)!r}), None, change)")
    before = data.run(EVENTS).splitlines()
    for path in (folder, *folder.rglob("*")):  # as on a medium without the modes of Unix
        path.chmod(0o555)
    text = elsewhere.manage("restore", str(folder))
    assert "users/alice/api: 1 moves of refs recorded" in text and "nothing is missing" in text
    assert elsewhere.run(EVENTS).splitlines() == [*before[:-1], "branch-pushed False"]
    restored = Path(elsewhere.environment["DATA_DIR"])
    for name in ("installation", "secret-key"):
        assert (restored / name).read_text() == (folder / "files" / name).read_text()
    assert {path.stat().st_mode & 0o777 for path in restored.rglob("*")} == {0o700, 0o600}
    assert restored.stat().st_mode & 0o777 == 0o700
    last = json.loads((restored / "last-backup.json").read_text())
    assert last == {**json.loads((folder / "manifest.json").read_text()), "folder": str(folder)}


def test_a_backup_of_an_older_version_is_migrated(data, elsewhere, tmp_path):
    """The last migration of an app is undone before the backup."""
    folder = tmp_path / "old"
    names = data.manage("showmigrations", "pulls", "--plan").splitlines()
    names = [line.split()[-1] for line in names if " pulls." in line]
    before = names[-2].partition(".")[2]
    data.manage("migrate", "pulls", before, "--verbosity", "0")
    data.manage("backup", str(folder))
    data.manage("migrate", "--verbosity", "0")
    assert names[-1] not in json.loads((folder / "manifest.json").read_text())["migrations"]
    assert "nothing is missing" in elsewhere.manage("restore", str(folder))
    elsewhere.manage("migrate", "--check")


POSTGRESQL = pytest.mark.skipif(
    not os.environ.get("DATABASE_URL", "").startswith("postgres"), reason="needs PostgreSQL"
)


@pytest.fixture
def pg_dump(data, tmp_path, monkeypatch) -> Callable[[str], Path]:
    """A function that replaces `pg_dump` by a shell script."""
    path = f"{tmp_path}:{data.environment['PATH']}"
    monkeypatch.setattr(data, "environment", {**data.environment, "PATH": path})

    def replace(script: str) -> Path:
        program = Path(tmp_path, "pg_dump")
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        return program

    return replace


def with_url(server: Server, **parts: str) -> str:
    return urlsplit(server.environment["DATABASE_URL"])._replace(**parts).geturl()


@POSTGRESQL
def test_no_password_is_on_a_command_line_and_a_missing_pg_dump_is_named(data, pg_dump, tmp_path):
    """A `pg_dump` that prints its arguments and ends in failure."""
    program = pg_dump('echo "ran with $* and $PGPASSWORD" >&2\nexit 1')
    url = urlsplit(data.environment["DATABASE_URL"])
    host = url.netloc.rpartition("@")[2]  # empty for a socket
    netloc = f"{url.username or 'postgres'}:secret@{host}"
    data.environment |= {"DATABASE_URL": with_url(data, netloc=netloc), "PATH": str(tmp_path)}
    text = fails(data, "backup", str(tmp_path / "one"))
    assert text.count("secret") == 1 and "and secret" in text
    program.unlink()
    text = fails(data, "backup", str(tmp_path / "two"))
    assert "pg_dump could not start: No such file" in text


@POSTGRESQL
def test_of_two_backups_in_one_folder_one_fails_and_a_slow_pg_dump_may_take_its_time(
    data, pg_dump, tmp_path
):
    """The second begins before `pg_dump` has made a file. The server ends idle transactions."""
    folder = str(tmp_path / "backup")
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done"
    pg_dump(f'rm {tmp_path}/pg_dump; touch {tmp_path}/ran; {wait}; exec pg_dump "$@"')
    query = "options=-c%20idle_in_transaction_session_timeout%3D500"
    data.environment["DATABASE_URL"] = with_url(data, query=query)
    command = [data.python, "manage.py", "backup", folder]
    with subprocess.Popen(command, cwd=ROOT, env=data.environment) as first:
        try:
            eventually((tmp_path / "ran").exists)
            assert "is not empty" in fails(data, "backup", folder)
        finally:
            (tmp_path / "go").touch()
    assert first.returncode == 0 and (tmp_path / "backup" / "manifest.json").exists()


DELETE = """
from apps.repos.actions import delete_repo
from apps.threads.actions import create_thread

gone = create_repo(access=access_to_user(ada, owner), name="Gone", slug="gone")
Clone(Path({folder!r}), gone, owner).push_commit("main", {{"a": "x"}})
create_thread(access=access_to(ada, gone), title="Xylophone", body="", kind="issue")
delete_repo(access=access_to(ada, gone), confirm="alice/gone")
print(gone.uuid)
"""
SHOWN = """
from apps.repos.models import Repo
print(*Repo.objects.filter(deletion=None))
"""
PURGE = """
from django.utils import timezone
from apps.accounts.models import Deletion
from apps.repos.purge import purge_deleted

Deletion.objects.update(purge_at=timezone.now())
purge_deleted(print)
"""


def test_a_deleted_repository_is_in_backups_until_it_is_purged(data, elsewhere, tmp_path):
    uuid = data.run(MAKE + DELETE.format(folder=str(tmp_path / "clone"))).split()[-1]
    before, after = tmp_path / "before", tmp_path / "after"
    data.manage("backup", str(before))
    assert "users/alice/gone purged" in data.run(PURGE)
    data.manage("backup", str(after))
    assert any(uuid in str(file) for file in files(before))
    assert not any(uuid in str(file) for file in files(after))
    elsewhere.manage("restore", str(before))
    elsewhere.manage("restore_deleted", "users/alice/gone")
    shown = elsewhere.run(SHOWN)
    assert "users/alice/gone" in shown

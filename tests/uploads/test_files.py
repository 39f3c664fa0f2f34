"""Files of uploads are complete or absent, and files without a row are removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import IntegrityError

from apps.uploads import files, jobs
from apps.uploads.models import Upload
from tests.server import Server
from tests.uploads.conftest import IN_BOTH
from tests.uploads.conftest import files as names

POST = """
import os
from apps.accounts.actions import create_user
from apps.accounts.access import access_to_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.errors import as_api_error
from apps.repos.access import access_to
from apps.repos.actions import create_repo
from apps.uploads import actions, files

people = User.objects.filter(username="ada")
ada = people.first() or create_user(principal=None, username="ada")
repo = ada.repos.first() or create_repo(
    access=access_to_user(Principal(ada), ada), name="Api", slug="api"
)
{before}
try:
    upload = actions.create_upload(
        access=access_to(Principal(ada), repo), filename="a.bin", content=os.urandom(100_000)
    )
    print("stored", upload.sha256)
except Exception as error:
    error = as_api_error(error)
    print(error.status, error.code, error.headers)
"""
DIE = "os.kill(os.getpid(), 9)"


def test_a_place_that_cannot_be_written_to_is_503(upload, carol, uploads_dir, caplog):
    uploads_dir.write_text("no folder")
    refused = upload(carol)
    refused.fails(503, "unavailable")
    assert refused.header("Retry-After") == "60"
    assert "could not be stored" in caplog.text
    assert not Upload.objects.exists()
    uploads_dir.unlink()
    upload(carol).gives(201)


@pytest.fixture(scope="module")
def data(
    tmp_path_factory: pytest.TempPathFactory, new_server: Callable[..., Server]
) -> Iterator[Server]:
    """The data of a server, on which other processes work."""
    made = new_server(tmp_path_factory.mktemp("uploads"))
    yield made
    made.__exit__()


@pytest.fixture
def folder(data: Server) -> Path:
    return Path(data.environment["DATA_DIR"]) / "uploads"


@pytest.mark.slow
@pytest.mark.once
def test_a_full_disk_is_503_and_leaves_nothing(data, folder):
    """A limit for the size of files simulates a full disk: both fail in the middle of a write."""
    before = names(folder)
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))"
    assert "503 storage_full {'Retry-After': '60'}" in data.run(POST.format(before=full))
    assert names(folder) == before


CRASHES = {
    "while it writes": f"os.fsync = lambda _: {DIE}",
    "before the file is in its place": f"os.replace = lambda *_: {DIE}",
    "before the row is committed": f"actions.Upload.save = lambda *_, **__: {DIE}",
}
SWEEP = """
from apps.uploads import files, jobs
from apps.uploads.models import Upload

jobs.sweep_uploads(print)
digests = Upload.objects.values_list("sha256", flat=True)
print("agree" if sorted(digests) == sorted(files.stored()) else "differ")
"""


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("crash", CRASHES.values(), ids=CRASHES)
def test_what_a_killed_process_leaves_is_swept_and_no_row_lacks_its_file(data, folder, crash):
    before = names(folder)
    with pytest.raises(AssertionError):
        data.run(POST.format(before=crash))
    [left] = [path for path in folder.rglob("*") if path.is_file() and path.name not in before]
    os.utime(left, (0, 0))
    told = data.run(SWEEP + POST.format(before=""))
    assert "0 unused uploads and 1 files removed" in told
    assert "agree" in told
    assert "stored" in told
    assert not left.exists()


def test_a_row_that_cannot_be_written_leaves_a_file_that_is_swept(
    make, open_repo, carol, uploads_dir, monkeypatch
):
    def fail(*_: Any, **__: Any) -> None:
        raise IntegrityError

    with monkeypatch.context() as patch, pytest.raises(IntegrityError):
        patch.setattr(Upload, "save", fail)
        make.upload(open_repo, by=carol)
    assert len(names(uploads_dir)) == 1
    jobs.sweep_uploads(lambda _: None)
    assert not names(uploads_dir)


def test_a_temporary_file_stays_while_it_may_still_be_written(db, uploads_dir):
    temporary = uploads_dir / f"{files.name_of('ab' * 32)}.tmp-{'0' * 32}"
    temporary.parent.mkdir(parents=True)
    temporary.touch()
    jobs.sweep_uploads(lambda _: None)
    assert temporary.exists()
    os.utime(temporary, (0, 0))
    jobs.sweep_uploads(lambda _: None)
    assert not temporary.exists()


def test_files_of_others_stay(uploads_dir: Path, db: None) -> None:
    kept = uploads_dir / "ab" / "cd" / "README"
    kept.parent.mkdir(parents=True)
    kept.touch()
    jobs.sweep_uploads(lambda _: None)
    assert kept.exists()


def test_all_is_on_disk_before_the_row_is_committed(
    make, open_repo, carol, uploads_dir, monkeypatch
):
    """The file is synced, then each folder that may be new."""
    synced: list[str] = []
    real = os.fsync

    def sync(opened: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{opened}"))
        real(opened)

    monkeypatch.setattr("os.fsync", sync)
    made = make.upload(open_repo, by=carol)
    folder = (uploads_dir / files.name_of(made.sha256)).parent
    assert synced[0].startswith(str(folder / made.sha256) + ".tmp-")
    assert synced[1:] == [str(path) for path in (folder, *folder.parents[:3])]


@IN_BOTH
def test_check_uploads_names_what_is_missing_or_damaged(make, open_repo, carol, storage):
    one, other = (make.upload(open_repo, by=carol, content=text) for text in (b"one", b"two"))
    make.upload(open_repo, by=carol, content=b"one")
    output = StringIO()
    call_command("check_uploads", stdout=output)
    assert output.getvalue() == "2 files checked, none damaged\n"
    files.save(one.sha256, b"six")
    files.remove(other.sha256)
    with pytest.raises(CommandError, match="2 of 2 files are missing or damaged"):
        call_command("check_uploads", stdout=output)
    assert f"{one.sha256}: its content has another SHA-256" in output.getvalue()
    missing = {"folder": "No such file or directory", "bucket": "An error occurred (NoSuchKey)"}
    assert f"{other.sha256}: {missing[storage]}" in output.getvalue()


def test_only_its_owner_may_look_at_a_file(make, open_repo, carol, uploads_dir):
    made = make.upload(open_repo, by=carol)
    assert (uploads_dir / files.name_of(made.sha256)).stat().st_mode & 0o077 == 0

"""Makes a backup while people work. See `manage.py backup --help`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from fcntl import LOCK_SH
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.utils import timezone

from apps.git import store
from apps.uploads import files as uploads
from config.backups import database, manifest

EACH = 100
"""A line of progress comes after as many repositories, and after ten times as many uploads."""

Say = Callable[[str], object]


class Copier:
    """Copies files into a backup and counts their bytes. `previous`: the backup whose files are
    hard-linked where their content cannot have changed.
    """

    def __init__(self, folder: Path, previous: Path | None) -> None:
        self.folder, self.previous, self.bytes = folder, previous, 0

    def copy(self, source: Path, place: str, *, is_immutable: bool = False) -> None:
        """Copy a file to a place in the backup. `OSError`.

        It never links the files of the installation: a damaged file would be damaged in both.
        """
        target = self._target(place)
        if not (is_immutable and self._link(place, source.stat().st_size)):
            shutil.copy2(source, target)
        self.bytes += target.stat().st_size

    def copy_upload(self, digest: str) -> None:
        """Copy the file of an upload, from a folder or a bucket. `OSError`."""
        place = f"uploads/{uploads.name_of(digest)}"
        target = self._target(place)
        if not self._link(place, uploads.size(digest)):
            with uploads.open_file(digest) as source, target.open("xb") as file:
                shutil.copyfileobj(source, file)
        self.bytes += target.stat().st_size

    def _target(self, place: str) -> Path:
        target = self.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def _link(self, place: str, size: int) -> bool:
        """Link the file of the previous backup if it is as long; False if it cannot be linked."""
        if self.previous is None:
            return False
        try:
            if (self.previous / place).stat().st_size == size:
                os.link(self.previous / place, self.folder / place)
                return True
        except OSError:  # a new file, or another file system
            pass
        return False


def back_up(folder: Path, previous: Path | None, say: Say) -> manifest.Manifest:
    """Copy everything into a new or empty folder. Calls `say` with lines of progress.

    The database comes first: the folders then contain everything that its rows refer to. Errors are
    those of `database.dump`, and `OSError`; the folder has no manifest then. `ValueError` if there
    is something in the folder, or if the previous backup is incomplete.
    """
    if previous is not None:
        manifest.read(previous)
    started = timezone.now()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: name a new folder.")
    (folder / "repositories").mkdir()  # fails if another backup begins here at the same time
    contents, copier = database.dump(folder), Copier(folder, previous)
    say(f"database: {sum(contents.rows.values())} rows")
    repositories = _copy_repositories(copier, say)
    files = _copy_uploads(copier, say)
    total = copier.bytes
    for path in _other_files():
        with suppress(FileNotFoundError):
            copier.copy(path, f"files/{path.name}")
    os.sync()  # a power failure must not leave a manifest without the files
    made = manifest.Manifest(
        format=manifest.FORMAT,
        guildhall=manifest.GUILDHALL,
        database=connection.vendor,
        started=started.isoformat(),
        finished=timezone.now().isoformat(),
        newest_event=contents.newest_event,
        repositories=repositories,
        uploads=files,
        bytes=total,
        rows=contents.rows,
        migrations=contents.migrations,
    )
    made.write(folder)
    os.sync()
    _write_as_last(made, folder, say)
    return made


def _write_as_last(made: manifest.Manifest, folder: Path, say: Say) -> None:
    """An error is only said: the backup is complete."""
    try:
        made.write_as_last(folder)
    except OSError as error:
        say(f"The overview of staff does not show this backup: {error}")


def _copy_repositories(copier: Copier, say: Say) -> int:
    count = 0
    for repo in store.folders(settings.REPOSITORIES_DIR):
        if store.uuid_of(repo) is not None and copy_repository(copier, repo):
            count += 1
            if count % EACH == 0:
                say(f"repositories: {count} so far")
    say(f"repositories: {count}")
    return count


def copy_repository(copier: Copier, repo: Path) -> bool:
    """Copy a repository; False if it is removed meanwhile, and then nothing of it is left."""
    before, place = copier.bytes, Path("repositories", repo.relative_to(settings.REPOSITORIES_DIR))
    try:
        with store.tidy_lock(repo, LOCK_SH):
            _copy_files(copier, repo, place)
    except FileNotFoundError:
        if repo.exists():
            raise
    if repo.exists():
        return True
    store.remove(copier.folder / place)
    copier.bytes = before
    return False


def _copy_files(copier: Copier, repo: Path, place: Path) -> None:
    for name in store.FOLDERS:
        (copier.folder / place / name).mkdir(parents=True)
    for path in store.files_to_copy(repo):
        try:
            target = str(place / path.relative_to(repo))
            copier.copy(path, target, is_immutable=store.is_immutable(path))
        except store.GONE:
            # Refs may be deleted meanwhile; objects and packs stay, because of the lock.
            if store.is_immutable(path):
                raise


def _copy_uploads(copier: Copier, say: Say) -> int:
    count = 0
    for digest in uploads.stored():
        with suppress(FileNotFoundError):  # removed meanwhile, because no text refers to it
            copier.copy_upload(digest)
            count += 1
            if count % (10 * EACH) == 0:
                say(f"uploads: {count} so far")
    say(f"uploads: {count}")
    return count


def _other_files() -> list[Path]:
    """The plain files of DATA_DIR, such as the secret key, without a SQLite database."""
    # A restoration names its own backup.
    others = database.own_files() | {manifest.LAST, uploads.LOCK}
    paths = sorted(Path(settings.DATA_DIR).iterdir())
    return [path for path in paths if path.is_file() and path.name not in others]

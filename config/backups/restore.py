"""Restores a backup into an empty installation. See `manage.py restore --help`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError, OutputWrapper
from django.db import connection

from apps.git import store
from apps.uploads import files as uploads
from apps.uploads.jobs import remove_unused
from config.backups import database, manifest

REMADE = {"secret-key", "static", "wake", uploads.LOCK}
"""Parts of DATA_DIR that are created when a command starts."""
CHECKS = (("reconcile",), ("check_repos", "--fix"), ("check_uploads",))


def restore(folder: Path, stdout: OutputWrapper) -> list[str]:
    """Put everything in place and check it; return sentences about missing parts.

    The database comes last: an interrupted restoration cannot be mistaken for a complete one.
    Errors are those of `database.load`, and `OSError`. `ValueError` if the backup cannot be
    restored here, or if there already is something.
    """
    made = manifest.read(folder)
    manifest.check_restorable(made)
    check_empty()
    stdout.write(f"backup of {made.started}, newest event {made.newest_event}")
    for name, target in (
        ("repositories", settings.REPOSITORIES_DIR),
        ("files", settings.DATA_DIR),
    ):
        if (folder / name).exists():
            _copy_files(folder / name, Path(target))
    for path in (folder / "uploads").glob("??/??/*"):
        uploads.save(path.name, path.read_bytes())
    os.sync()  # a power failure must not leave a database without the files
    database.load(folder)
    problems = list(differences(made))
    call_command("migrate", verbosity=0, interactive=False)
    # The worker may have removed some of their files after the database was copied.
    remove_unused()
    for command in CHECKS:
        try:
            call_command(*command, stdout=stdout)
        except CommandError as error:
            problems.append(f"{command[0]}: {error}")
    made.write_as_last(folder)
    return problems


def _copy_files(source: Path, target: Path) -> None:
    """Copy a folder of the backup without its modes, which may be read-only, or open to others."""
    for parent, _, names in os.walk(source, onerror=_fail):
        copied = target / Path(parent).relative_to(source)
        copied.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copyfile(Path(parent, name), copied / name)


def _fail(error: OSError) -> None:
    raise error


def check_empty() -> None:
    """`ValueError` if DATA_DIR or the database has contents."""
    present = {path.name for path in Path(settings.DATA_DIR).iterdir()}
    if others := sorted(present - REMADE - database.own_files()):
        raise ValueError(f"{settings.DATA_DIR} is not empty: it has {', '.join(others)}.")
    if next(uploads.stored(), None):
        raise ValueError("The storage of uploads is not empty: name a new one with UPLOADS_URL.")
    if tables := connection.introspection.table_names():
        raise ValueError(f"The database is not empty: it has {len(tables)} tables.")


def differences(made: manifest.Manifest) -> Iterator[str]:
    """Sentences about numbers that are not those of the manifest."""
    repositories = sum(1 for _ in store.folders(settings.REPOSITORIES_DIR))
    size = store.bytes_in(settings.REPOSITORIES_DIR) + sum(map(uploads.size, uploads.stored()))
    counts = {
        "repositories": (repositories, made.repositories),
        "uploads": (sum(1 for _ in uploads.stored()), made.uploads),
        "bytes of repositories and uploads": (size, made.bytes),
    }
    rows = database.row_counts(made.rows)
    counts |= {f"rows of {table}": (rows[table], made.rows[table]) for table in made.rows}
    for name, (actual, expected) in counts.items():
        if actual != expected:
            yield f"{name}: {actual} instead of {expected}"

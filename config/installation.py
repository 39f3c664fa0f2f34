"""Ties DATA_DIR to the database: a file in it and a row have the same random id.

A folder without the file may be the mount point of a file system that is not mounted. A server
would write repositories to the wrong disk, and a new secret key would end all sessions.
"""

from __future__ import annotations

import uuid
from functools import cache
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import OperationalError, ProgrammingError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from apps.accounts.models import User
from apps.repos.models import Repo
from apps.site.models import SiteSettings
from config.environment import make_key, write_new

WAY_OUT = (
    "Mount or name the right folder. If you restored this folder or the database on purpose, run "
    '"manage.py adopt_folder".'
)
MISSING = f"DATA_DIR ({{folder}}) is not the folder of this database: it is not marked. {WAY_OUT}"
FOREIGN = f"DATA_DIR ({{folder}}) is the folder of another database. {WAY_OUT}"
UNKNOWN = (
    "DATA_DIR ({folder}) is not marked as the folder of an installation, and the database does not "
    "answer. Mount or name the right folder, or start the database."
)
LOST = f"DATA_DIR ({{folder}}) lacks files of this database. {WAY_OUT}"
NO_KEY = (
    "DATA_DIR ({folder}) has no secret key. Mount or name the right folder; for a new "
    'installation run "manage.py migrate".'
)


def folder_problem() -> str:
    """A line for the operator if DATA_DIR is not the folder of this database, else "".

    Without tables or an id in the database there is no problem: the next `migrate` marks both.
    """
    return _about_folder(_problem())


def start_problem() -> str:
    """As `folder_problem`; a server also needs a secret key."""
    return folder_problem() or _about_folder("" if _has_key() else NO_KEY)


def _about_folder(text: str) -> str:
    return text.format(folder=settings.DATA_DIR)


def _has_key() -> bool:
    try:
        return bool(settings.SECRET_KEY)
    except ImproperlyConfigured:  # it is empty
        return False


def _problem() -> str:
    if connection.vendor == "sqlite" and not Path(connection.settings_dict["NAME"]).exists():
        return ""
    in_folder = _id_in_folder()
    try:
        in_database = _id_in_database()
    except ProgrammingError:  # PostgreSQL has no such table or column
        return ""
    except OperationalError:
        is_marked = in_folder or connection.vendor == "sqlite"
        return "" if is_marked else UNKNOWN
    if in_database == in_folder:
        return ""
    if not (in_database and in_folder) and settings.DATA_DIR_HOLDS_DATABASE:
        return ""  # a database that was restored into its folder
    return FOREIGN if in_folder else MISSING


def _mark() -> Path:
    return Path(settings.DATA_DIR, "installation")


def _id_in_folder() -> str:
    return _mark().read_text(errors="replace").strip() if _mark().exists() else ""


def _id_in_database() -> str:
    row = SiteSettings.objects.filter(pk=SiteSettings.ONLY)
    value = row.values_list("installation", flat=True).first()
    return str(value) if value else ""


def after_migrate() -> None:
    """Mark a new installation, and one from before there were marks; refuse another's folder."""
    if missing_migrations():  # an earlier state was asked for
        return
    problem = folder_problem() or _about_folder(LOST if _lacks_files() else "")
    if problem:
        raise CommandError(problem)
    adopt()


def _lacks_files() -> bool:
    """Whether rows of an installation without an id need files that are not in DATA_DIR."""
    if _id_in_database():
        return False
    lacks_key = not _has_key() and User.objects.exists()
    return lacks_key or (not settings.REPOSITORIES_DIR.exists() and Repo.objects.exists())


def adopt() -> None:
    """Mark DATA_DIR as the folder of this database, and make what a server needs in it."""
    SiteSettings.load()
    row = SiteSettings.objects.filter(pk=SiteSettings.ONLY, installation=None)
    row.update(installation=_id_in_folder() or uuid.uuid4())
    settings.REPOSITORIES_DIR.mkdir(exist_ok=True)
    if _id_in_folder() != (text := _id_in_database()):
        new = _mark().with_suffix(f".{uuid.uuid4().hex}")
        write_new(new, f"{text}\n")
        new.replace(_mark())
    if not _has_key():
        settings.SECRET_KEY = make_key(settings.DATA_DIR)


@cache
def known_migrations() -> frozenset[tuple[str, str]]:
    """The app and name of each migration of this code."""
    return frozenset(MigrationLoader(None).disk_migrations)


def missing_migrations() -> frozenset[tuple[str, str]]:
    """The migrations of this code that the database lacks."""
    return known_migrations() - MigrationRecorder(connection).applied_migrations().keys()

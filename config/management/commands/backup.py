"""`manage.py backup`: copies the whole installation into a folder."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import DatabaseError

from apps.core.command import Command as OurCommand
from apps.core.command import one_line
from apps.core.postgresql.programs import ProgramError
from config.backups.backup import back_up


class Command(OurCommand):
    help = (
        "Copy the database, all repositories, all uploads and the other files of DATA_DIR into "
        "FOLDER, which must be new or empty. People may work meanwhile: everything that was "
        "acknowledged before the start is in the backup. Run it as the user that runs Guildhall. "
        "On PostgreSQL it needs pg_dump, of the server's version or later. The file manifest.json "
        "is written last: a folder without it is an incomplete backup, which you can remove. The "
        "status is 1 if anything could not be copied. The backup contains secrets (the secret key, "
        "password hashes): keep it private. Restore it with manage.py restore."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="the folder for the backup")
        parser.add_argument(
            "--incremental",
            type=Path,
            metavar="PREVIOUS",
            help="a previous backup on the same file system: unchanged objects, packs and uploads "
            "become hard links to its files instead of copies. Each backup is complete, and any "
            "other may be removed",
        )

    def run(self, **options: Any) -> str:
        try:
            made = back_up(options["folder"], options["incremental"], self.stdout.write)
        except (OSError, sqlite3.Error, DatabaseError, ProgramError) as error:
            raise one_line(f"The backup is incomplete: {error}") from error
        return (
            f"{options['folder']}: {made.repositories} repositories, {made.uploads} uploads, "
            f"{made.bytes} bytes, newest event {made.newest_event}"
        )

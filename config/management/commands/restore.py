"""`manage.py restore`: restores a backup into an empty installation."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from apps.core.command import Command as OurCommand
from apps.core.command import one_line
from apps.core.postgresql.programs import ProgramError
from config.backups.restore import restore


class Command(OurCommand):
    help = (
        "Restore a backup of manage.py backup into an empty DATA_DIR and an empty database. No "
        "server may run. The backup may be of an older Guildhall: the database is migrated. Then "
        "reconcile, check_repos --fix and check_uploads run, and the numbers of the manifest are "
        "compared. Pushes that came after the copy of the database and before that of their "
        "repository are recorded now, without their person. The status is 1 if anything is "
        "missing. On PostgreSQL it needs pg_restore, of the version of pg_dump or later."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="the folder of the backup")

    def run(self, **options: Any) -> str:
        try:
            problems = restore(options["folder"], self.stdout)
        except (OSError, sqlite3.Error, DatabaseError, ProgramError) as error:
            raise one_line(f"The backup is not restored: {error}") from error
        for problem in problems:
            self.stdout.write(problem)
        if problems:
            raise CommandError(f"The backup is restored, but {len(problems)} checks have failed.")
        return "The backup is restored, and nothing is missing."

"""`manage.py export_user alice alice.jsonl`: writes the data of a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.principal import Principal
from apps.accounts.rules import named_user
from apps.core.command import Command as OurCommand
from apps.core.command import one_line
from apps.core.views import site_url
from config.moving.archive import new_file
from config.moving.people import write_person


class Command(OurCommand):
    help = (
        "Write the data of a person into FILE as JSON lines: account with e-mail address, teams, "
        "tokens without their text, own repositories, threads, replies, their versions, pulls, "
        "reviews, uploads, pings and events. Texts in repositories that the person can no longer "
        "read are left out. People get the same by GET /users/self/export."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="whose data")
        parser.add_argument("file", type=Path, help="the file, which must not exist yet")

    def run(self, **options: Any) -> str:
        principal = Principal(named_user(options["username"]))
        try:
            with new_file(options["file"]) as file:
                count = write_person(principal, site_url(), file)
        except OSError as error:
            raise one_line(f"The file could not be written: {error}") from error
        return f"{options['file']}: {count} records"

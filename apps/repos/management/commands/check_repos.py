"""`manage.py check_repos`: compares the database with the disk."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.core.command import Command as OurCommand
from apps.core.durations import parse_duration
from apps.core.errors import ApiError
from apps.git.run import GitError
from apps.repos.models import Repo
from apps.repos.upkeep import check, misleading_names, sweep


class Command(OurCommand):
    help = (
        "Compare every repository's rows with its store on disk and say what differs; the status "
        "is 1 if anything does. With --fix, mend it: heads and events follow git, HEAD follows the "
        "database, left-over files go. A store that is missing or broken cannot be mended: the "
        "others are, and the status is 1. Names of branches and tags that can be taken for others "
        "are noted, and are no differences."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--fix", action="store_true", help="mend what can be mended")
        parser.add_argument(
            "--older-than",
            default="1d",
            metavar="DURATION",
            help="how old left-over files and folders must be to go: those of work under way are "
            "younger (default 1d; 0s is right while nothing else runs)",
        )

    def run(self, **options: Any) -> str:
        fix, age = options["fix"], parse_duration(options["older_than"]).total_seconds()
        looked = found = lost = 0
        for repo in Repo.objects.select_related("owner_team", "owner_user").iterator():
            looked += 1
            try:
                for sentence in check(repo, fix=fix, age=age):
                    found += 1
                    self.stdout.write(f"{repo.path}: {sentence}")
                for sentence in misleading_names(repo):
                    self.stdout.write(f"{repo.path}: note: {sentence}")
            except (ApiError, GitError, OSError) as error:
                found, lost = found + 1, lost + 1
                self.stdout.write(f"{repo.path}: {error}")
        for name in sweep(age) if fix else []:
            self.stdout.write(f"{name}: belonged to no repository")
        if found and not fix:
            raise CommandError(f"{found} differences in {looked} repositories; mend with --fix")
        if lost:
            raise CommandError(f"{lost} of {looked} repositories could not be mended")
        return f"{looked} repositories looked at, {found} differences"

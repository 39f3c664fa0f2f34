"""`manage.py check_repos`: compares the database with the disk."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts.models import NOT_GONE
from apps.core.command import Command as OurCommand
from apps.core.durations import parse_duration
from apps.core.errors import ApiError
from apps.git.run import GitError
from apps.repos.jobs import check, misleading_names, sweep
from apps.repos.models import Repo


class Command(OurCommand):
    help = (
        "Compare every repository's rows with its folder on disk and print the differences; the "
        "status is 1 if there are any. --fix repairs them: heads and events follow git, HEAD "
        "follows the database, leftover files are removed. A folder that is missing or broken "
        "cannot be repaired: the others are, and the status is 1. Ambiguous names of branches and "
        "tags are printed as notes and do not count as differences."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--fix", action="store_true", help="repair the differences")
        parser.add_argument(
            "--older-than",
            default="1d",
            metavar="DURATION",
            help="remove only leftover files and folders that are older, because younger ones may "
            "be in use (default 1d; use 0s only if nothing else runs)",
        )

    def run(self, **options: Any) -> str:
        fix, age = options["fix"], parse_duration(options["older_than"]).total_seconds()
        checked = differences = failed = 0
        for repo in (
            Repo.objects.filter(NOT_GONE).select_related("owner_team", "owner_user").iterator()
        ):
            checked += 1
            try:
                for sentence in check(repo, fix=fix, age=age):
                    differences += 1
                    self.stdout.write(f"{repo.path}: {sentence}")
                for sentence in misleading_names(repo):
                    self.stdout.write(f"{repo.path}: note: {sentence}")
            except (ApiError, GitError, OSError) as error:
                differences, failed = differences + 1, failed + 1
                self.stdout.write(f"{repo.path}: {error}")
        for name in sweep(age) if fix else []:
            self.stdout.write(f"{name}: belonged to no repository")
        if differences and not fix:
            raise CommandError(
                f"{differences} differences in {checked} repositories; repair with --fix"
            )
        if failed:
            raise CommandError(f"{failed} of {checked} repositories could not be repaired")
        return f"{checked} repositories checked, {differences} differences"

"""`manage.py export_repo teams/acme/api api.zip`: writes a repository into an archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.principal import Principal
from apps.accounts.rules import named_user
from apps.core.command import Command as OurCommand
from apps.core.command import one_line
from apps.core.views import site_url
from apps.git.run import GitError
from apps.repos.models import Repo
from config.moving.archive import writing
from config.moving.exporting import default_reader, export_repo


class Command(OurCommand):
    help = (
        "Write a repository with its threads, pulls, reviews, protections, events, uploads and "
        "commits into FILE, a ZIP file. import_repo of another Guildhall reads it. People may work "
        "meanwhile. The archive has what the owner sees, or the person of --as. It contains no "
        "secrets, but everything of a private repository: keep it private."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", help="teams/acme/api or users/alice/notes")
        parser.add_argument("file", type=Path, help="the archive, which must not exist yet")
        parser.add_argument(
            "--as",
            dest="reader",
            metavar="USERNAME",
            help="export what this person may read (default: the owner, or the first owner of the "
            "team)",
        )

    def run(self, **options: Any) -> str:
        owner, _, slug = options["path"].lower().rpartition("/")
        repo = Repo.objects.under(owner).filter(slug=slug).first()
        if repo is None:
            raise ValueError(f"There is no repository {options['path']}.")
        name = options["reader"]
        principal = Principal(named_user(name) if name else default_reader(repo))
        try:
            with writing(options["file"]) as archive:
                export_repo(principal, owner, slug, site_url(), archive)
        except (GitError, OSError) as error:
            raise one_line(f"The archive could not be written: {error}") from error
        counts = ", ".join(f"{count} {name}" for name, count in archive.counts.items())
        return f"{options['file']}: {counts}"

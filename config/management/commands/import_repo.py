"""`manage.py import_repo api.zip --team acme`: adds a repository from an archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts.models import User
from apps.accounts.rules import named_user
from apps.core.command import Command as OurCommand
from apps.core.command import one_line
from apps.core.slugs import repo_slug_problem
from apps.core.views import site_url
from apps.git.run import GitError
from apps.teams.models import Team
from config.moving.authors import Authors
from config.moving.importing import import_archive
from config.moving.reading import reading


class Command(OurCommand):
    help = (
        "Add a repository from FILE, an archive of export_repo: all of it, or nothing. Threads, "
        "pulls and replies keep their numbers and times. Authors are the accounts that --map and "
        "--match-usernames name; for everybody else a closed account imported-NAME is added. Use "
        "these options only for an archive that you trust, because it tells who wrote each text. "
        "Approvals do not count here. Nobody is pinged or gets mail. On SQLite others cannot write "
        "meanwhile."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the archive")
        owner = parser.add_mutually_exclusive_group(required=True)
        owner.add_argument("--team", metavar="SLUG", help="the team that will own it")
        owner.add_argument("--user", metavar="USERNAME", help="the person who will own it")
        parser.add_argument("--slug", help="its slug here (default: that of the source)")
        parser.add_argument(
            "--map",
            action="append",
            default=[],
            metavar="OLD=NEW",
            help="the person OLD of the source is the account NEW here; may be repeated",
        )
        parser.add_argument(
            "--match-usernames",
            action="store_true",
            help="people of the source are the accounts of the same username here",
        )

    def run(self, **options: Any) -> str:
        owner, slug = find_owner(options["team"], options["user"]), options["slug"]
        if slug and (problem := repo_slug_problem(slug)):
            raise CommandError(problem)
        mapped = dict(map(read_pair, options["map"]))
        try:
            with reading(options["file"]) as archive:
                source = archive.manifest["source"]
                authors = Authors(source, mapped, match=options["match_usernames"])
                repo = import_archive(archive, owner, authors, site_url(), slug)
        except (GitError, OSError) as error:
            raise one_line(f"Nothing was imported: {error}") from error
        closed = f" Closed accounts added: {', '.join(authors.added)}." if authors.added else ""
        return f"Imported {repo.path}.{closed}"


def find_owner(team: str | None, user: str | None) -> Team | User:
    """The owner that the options name. `ValueError`, 422."""
    if user is not None:
        return named_user(user)
    row = Team.objects.filter(slug=team, deletion=None).first()
    if row is None:
        raise ValueError(f"There is no team {team}.")
    return row


def read_pair(text: str) -> tuple[str, User]:
    """The name in the source, in lower case, and the account here. `ValueError`, 422."""
    old, _, new = text.partition("=")
    if not old or not new:
        raise ValueError(f"--map takes OLD=NEW, not {text}.")
    return old.lower(), named_user(new)

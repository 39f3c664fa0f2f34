"""`manage.py forget_commit`: removes a commit from a repository for good."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.core.command import Command as OurCommand
from apps.git.repo import is_sha
from apps.git.run import GitError
from apps.pulls.actions.forgetting import forget_commit
from apps.repos.models import Repo


class Command(OurCommand):
    help = (
        "Remove a commit that should never have been pushed, and all that only it leads to, so that"
        " neither git nor the API has it any more. First replace the secret that it holds: whoever "
        "has seen it keeps it, and so do clones and forks, which have stores of their own (name "
        "each of them here as well). Then take the commit out of all branches and tags, and close "
        "pulls that have it; until then this refuses and says which. It drops the refs that no "
        "client is shown (former heads of pulls, approved commits), removes every object of the "
        "repository that nothing leads to, and forgets the answers that are stored. Pushes and "
        "merges wait meanwhile, on a large repository for minutes, on SQLite all writes of the "
        "site. Backups keep the commit. An event commit-forgotten says that it was done."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "path", help="the repository: teams/<team>/<repo> or users/<user>/<repo>"
        )
        parser.add_argument("sha", help="the full name of the commit, 40 hexadecimal digits")
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would go, change nothing"
        )

    def run(self, **options: Any) -> str:
        repo, sha = repo_at(options["path"]), options["sha"].lower()
        if not is_sha(sha):
            raise CommandError("A commit has a name of 40 hexadecimal digits here.")
        dry_run: bool = options["dry_run"]
        try:
            names = forget_commit(repo=repo, sha=sha, dry_run=dry_run)
        except GitError as error:
            raise CommandError(f"{repo.path}: {error}") from error
        end = (
            f"{sha} would go; nothing has changed" if dry_run else f"{sha} is gone from {repo.path}"
        )
        return "\n".join([*(f"dropped: {name}" for name in names), end])


def repo_at(path: str) -> Repo:
    owner, _, slug = path.strip("/").lower().rpartition("/")
    repo = Repo.objects.under(owner).filter(slug=slug).first()
    if repo is None:
        raise CommandError(f"There is no repository {path}.")
    return repo

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
        "Remove a commit that should never have been pushed, such as one with a secret, and all "
        "objects that only it reaches. Neither git nor the API has them afterwards. First replace "
        "the secret, because people who have read it keep it, and so do clones and forks: a fork "
        "has objects of its own, and needs this command too. Then remove the commit from all "
        "branches and tags, and close the pulls that contain it; until then the command refuses "
        "and names them. It deletes hidden refs (former heads of pulls, approved commits), all "
        "unreachable objects of the repository, and all cached answers. Pushes and merges wait "
        "meanwhile, on a large repository for minutes; on SQLite all writes of the site wait. "
        "Backups keep the commit. The event commit-forgotten records the removal."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "path", help="the repository: teams/<team>/<repo> or users/<user>/<repo>"
        )
        parser.add_argument("sha", help="the full name of the commit, 40 hexadecimal digits")
        parser.add_argument(
            "--dry-run", action="store_true", help="print what would be deleted, and change nothing"
        )

    def run(self, **options: Any) -> str:
        repo, sha = repo_at(options["path"]), options["sha"].lower()
        if not is_sha(sha):
            raise CommandError("The commit must be a full name of 40 hexadecimal digits.")
        try:
            names = forget_commit(repo=repo, sha=sha, dry_run=options["dry_run"])
        except GitError as error:
            raise CommandError(f"{repo.path}: {error}") from error
        verb, end = "deleted", f"{sha} is gone from {repo.path}"
        if options["dry_run"]:
            verb, end = "would delete", f"{sha} would be removed; nothing has changed"
        return "\n".join([*(f"{verb}: {name}" for name in names), end])


def repo_at(path: str) -> Repo:
    owner, _, slug = path.strip("/").lower().rpartition("/")
    repo = Repo.objects.under(owner).filter(slug=slug).first()
    if repo is None:
        raise CommandError(f"There is no repository {path}.")
    return repo

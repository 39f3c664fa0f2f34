"""`manage.py reconcile`: record all moves of refs that git has made."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from apps.accounts.models import NOT_GONE
from apps.core.command import Command as OurCommand
from apps.core.errors import ApiError
from apps.git.run import GitError
from apps.repos.models import Repo
from apps.repos.pushes import reconcile


class Command(OurCommand):
    help = (
        "Compare the stored heads of every repository with git's refs, and record the moves that "
        "are missing after a crash or a manual change. Safe at any time. The status is 1 if a "
        "repository could not be read."
    )

    def run(self, **_: Any) -> str:
        repos = moves = failed = 0
        for repo in (
            Repo.objects.filter(NOT_GONE).select_related("owner_team", "owner_user").iterator()
        ):
            repos += 1
            try:
                count = reconcile(repo=repo)
            except (ApiError, GitError, OSError) as error:
                failed += 1
                self.stdout.write(f"{repo.path}: {error}")
                continue
            moves += count
            if count:
                self.stdout.write(f"{repo.path}: {count} moves of refs recorded")
        if failed:
            raise CommandError(f"{failed} of {repos} repositories could not be read")
        return f"{repos} repositories checked, {moves} moves recorded"

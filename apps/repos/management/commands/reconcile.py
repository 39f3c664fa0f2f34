"""`manage.py reconcile`: bring rows and events up to what git has."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from apps.core.command import Command as OurCommand
from apps.core.errors import ApiError
from apps.git.run import GitError
from apps.repos.models import Repo
from apps.repos.pushes import reconcile


class Command(OurCommand):
    help = (
        "Compare the stored heads of every repository with git's own, and write down the moves "
        "that a crash or somebody's hand has left unrecorded. Safe at any time. The status is 1 if "
        "a repository could not be looked at."
    )

    def run(self, **_: Any) -> str:
        repos = moves = lost = 0
        for repo in Repo.objects.select_related("owner_team", "owner_user").iterator():
            repos += 1
            try:
                found = reconcile(repo=repo)
            except (ApiError, GitError, OSError) as error:
                lost += 1
                self.stdout.write(f"{repo.path}: {error}")
                continue
            moves += found
            if found:
                self.stdout.write(f"{repo.path}: {found} moves of refs written down")
        if lost:
            raise CommandError(f"{lost} of {repos} repositories could not be looked at")
        return f"{repos} repositories looked at, {moves} moves written down"

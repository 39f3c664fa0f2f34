"""`manage.py reconcile`: bring rows and events up to what git has (engine.md §3)."""

from __future__ import annotations

from typing import Any

from apps.core.command import Command as OurCommand
from apps.repos.models import Repo
from apps.repos.pushes import reconcile


class Command(OurCommand):
    help = (
        "Compare the stored heads of every repository with git's own, and write down the moves "
        "that a crash or somebody's hand has left unrecorded. Safe at any time."
    )

    def run(self, **_: Any) -> str:
        repos = moves = 0
        for repo in Repo.objects.select_related("owner_team", "owner_user").iterator():
            found = reconcile(repo=repo)
            repos, moves = repos + 1, moves + found
            if found:
                self.stdout.write(f"{repo.path}: {found} moves of refs written down")
        return f"{repos} repositories looked at, {moves} moves written down"

"""`manage.py offboard USERNAME [--successor USERNAME] [--dry-run]`: off-boards a person."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.rules import named_user
from apps.core.command import Command as OurCommand
from config.offboarding.actions import offboard
from config.offboarding.serializers import offboarding_record


class Command(OurCommand):
    help = (
        "Off-board a person: deactivate the account, revoke its tokens, end its sessions, live "
        "streams and pushes, and leave all teams. Texts and repositories stay. Staff can do the "
        "same by PUT /users/{username}/offboard and in the admin."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="the person who leaves")
        parser.add_argument(
            "--successor", metavar="USERNAME", help="becomes owner of teams that would have none"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="print what would change, and change nothing"
        )

    def run(self, **options: Any) -> str:
        user = named_user(options["username"])
        plan = offboard(
            principal=None,
            user=user,
            confirm=user.username,
            successor=options["successor"],
            dry_run=options["dry_run"],
        )
        return "\n".join(lines(offboarding_record(plan)))


def lines(record: dict[str, Any]) -> list[str]:
    """One line for each part of a record."""
    verb = "would be" if record["dry_run"] else "is"
    texts = [f"{record['username']} {verb} off-boarded."]
    for name, rows in record.items():
        if isinstance(rows, list) and rows:
            texts.append(f"{name}: {', '.join(map(text_of, rows))}")
    return texts


def text_of(row: Any) -> str:
    if not isinstance(row, dict):
        return str(row)
    if "number" in row:
        return f"{row['repo_path']} {row['number']}"
    if "branch" in row:
        missing = "" if row["is_satisfiable"] else " (too few approvers left)"
        return f"{row['repo_path']} {row['branch']}{missing}"
    if "slug" in row:
        return f"{row['slug']} (last owner)" if row["is_last_owner"] else str(row["slug"])
    return str(row.get("name") or row["device"])

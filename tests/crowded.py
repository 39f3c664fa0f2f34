"""A site with many repositories, threads and pulls, created by a few statements; PostgreSQL only.

`crowd-<n>` are people, each in one team with five repositories. The first repository has a fifth of
everything. A tenth of the repositories had no activity for a year.
"""

from __future__ import annotations

from pathlib import Path

from django.db import connection

REPOS_OF_A_TEAM = 5
STATEMENTS = Path(__file__).with_name("crowded.sql")


def fill(repos: int, rows: int) -> None:
    """Create this many repositories and threads; every second thread is of a pull."""
    sizes = {"repos": repos, "rows": rows, "each": REPOS_OF_A_TEAM}
    statements = STATEMENTS.read_text().format(**sizes, teams=repos // REPOS_OF_A_TEAM)
    with connection.cursor() as cursor:
        for statement in filter(str.strip, statements.split(";\n")):
            cursor.execute(statement)
        cursor.execute("ANALYZE")

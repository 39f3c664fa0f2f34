"""`docs/examples/offboard.sh`, as administrators run it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "examples" / "offboard.sh"
MAKE = """
from apps.accounts.actions import create_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.teams.actions import create_team
create_user(principal=None, username="chief", is_staff=True)
create_user(principal=None, username="heir")
departing = create_user(principal=None, username="departing")
create_team(principal=Principal(departing), name="Zoo", slug="zoo")
"""


def run(server, typed: str, *names: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "SITE": server.url, "TOKEN": server.token("chief")}
    return subprocess.run(
        ["sh", str(SCRIPT), *names],
        env=env,
        input=f"{typed}\n",
        capture_output=True,
        text=True,
        check=False,
    )


def test_ten_lines_off_board_one_person(server):
    server.run(MAKE)
    assert len(SCRIPT.read_text().splitlines()) <= 11
    refused = run(server, "departing", "departing")
    assert refused.returncode and "last_owner" in refused.stdout
    mistyped = run(server, "departed", "departing", "heir")
    assert mistyped.returncode and "Type departing" in mistyped.stdout
    assert server.api("departing").get("/users/self").status == 200
    done = run(server, "departing", "departing", "heir")
    assert done.returncode == 0, done.stderr
    plan, record = done.stdout.splitlines()
    assert '"dry_run":true' in plan and '"dry_run":false' in record
    assert server.api("chief").get("/users/departing").gives()["is_active"] is False

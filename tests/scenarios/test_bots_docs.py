"""The examples of `docs/bots.md`, as a new owner of a team runs them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.server import ROOT, Remote, Server

PAGE = (ROOT / "docs" / "bots.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MAKE = """
from apps.accounts.actions import create_user
from apps.accounts.principal import Principal
from apps.repos.actions import create_repo
from apps.teams.access import access_to_team
from apps.teams.actions import create_team
from tests.browse.code import code_of, push
owner = create_user(principal=None, username="opal")
team = create_team(principal=Principal(owner), name="A", slug="acme")
access = access_to_team(Principal(owner), team)
for slug in ("api", "other"):
    repo = create_repo(access=access, name=slug, slug=slug)
    push(repo, "refs/heads/main", code_of(repo).commit_with({b"a": b"a"}), by=owner)
"""


def test_a_bot_for_one_repository_is_made_from_the_page_alone(server: Server, tmp_path: Path):
    server.run(MAKE)
    assert len(BLOCKS) == 5
    env = {**os.environ, "SITE": server.url, "TOKEN": server.token("opal"), "HOME": str(tmp_path)}
    script = "".join(BLOCKS) + 'echo "DEPLOY=$DEPLOY CI=$CI NEW=$NEW"\n'
    done = subprocess.run(
        ["bash", "-ec", script], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"created_by_username":"acme-ci","created_by_is_bot":true' in done.stdout
    [(deploy, *old_and_new)] = re.findall(
        r"DEPLOY=(ght_\w+) CI=(ght_\w+) NEW=(ght_\w+)", done.stdout
    )
    branch = "/teams/acme/repos/api/branches/bot-update"
    Remote(server, deploy).get(branch).fails(401, "invalid_token")  # deleted, as after a leak
    assert len(set(old_and_new)) == 2
    for token in old_and_new:
        api = Remote(server, token)
        assert api.get(branch).gives()["pushed_by_is_bot"] is True
        api.get("/teams/acme/repos/other").fails(403, "token_scope")
        api.post("/api-tokens", name="x").fails(403, "token_scope")

"""Example data for `serve --demo`: people, two repositories with history, pulls and threads.

`steps.json` lists who calls which action. `files/*.fast-import` hold the commits as streams of
git-fast-import(1): edit them as text, or print one from a clone with
`git fast-export --all --refspec='refs/heads/*:refs/heads/<slug>/*'`.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Q

from apps.accounts.actions import create_token, create_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.views import site_url
from apps.teams.access import access_to_team
from apps.teams.actions import add_member, create_team
from apps.teams.models import Role, Team
from config.demo.history import imported
from config.demo.loader import Loader

STEPS: dict[str, Any] = json.loads((Path(__file__).parent / "steps.json").read_text())
PEOPLE: dict[str, str] = STEPS["people"]


def load() -> str:
    """Make the example data in one transaction; returns a text with the password and the tokens of
    its people.

    They can be shown only now. If one of the names or addresses is taken, nothing is
    changed.
    """
    addresses = {name: f"{name}@example.org" for name in PEOPLE}
    same = Q(username_key__in=PEOPLE) | Q(email_key__in=addresses.values())
    people = User.objects.filter(same).values_list("username", flat=True)
    teams = Team.objects.filter(slug=STEPS["team"]["slug"]).values_list("slug", flat=True)
    taken = [*people, *teams]
    if taken:
        return f"The demo is not loaded (again): there is {', '.join(taken)} already.\n"
    password = secrets.token_urlsafe(12)
    with transaction.atomic():
        users = {
            name: create_user(by=None, username=name, email=address, password=password)
            for name, address in addresses.items()
        }
        tokens = {
            name: create_token(by=None, owner=user, name="demo")[1] for name, user in users.items()
        }
        make(users)
    return summary(tokens, password)


def make(users: Mapping[str, User]) -> None:
    """Make the team of these people, and its repositories."""
    owner = Principal(next(iter(users.values())))
    team = access_to_team(owner, create_team(by=owner, **STEPS["team"]))
    for name, role in STEPS["members"].items():
        add_member(by=team, user=users[name], role=Role(role))
    with imported(time.time()) as history:
        loader = Loader(team, users, history)
        for part in STEPS["repositories"]:
            for person, action, arguments in part["steps"]:
                loader.run(part["repo"], users[person], action, arguments)


def summary(tokens: Mapping[str, str], password: str) -> str:
    """A text that names the people, their password and tokens, a page, and two commands to try."""
    address = site_url()
    scheme, _, host = address.partition("://")
    token = tokens["alice"]
    lines = ["The demo is loaded. Its people and their tokens, shown this once:"]
    lines += [f"    {name:6} {tokens[name]}  {PEOPLE[name]}" for name in PEOPLE]
    lines += [
        "Open in a browser, and sign in as any of them (the same password for all, shown once):"
    ]
    lines += [f"    {address}/teams/acme/tide-table", f"    password  {password}"]
    lines += ["Look around as alice:"]
    lines += [f"    curl -H 'Authorization: Bearer {token}' {address}/api/v1/teams/acme/repos"]
    lines += [f"    git clone {scheme}://alice:{token}@{host}/teams/acme/hello.git"]
    return "\n".join([*lines, ""])

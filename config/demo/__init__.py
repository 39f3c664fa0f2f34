"""Example data for `serve --demo`: people, a small repository and a larger one, with history, pulls
in different states and threads. The actions of the API make all of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from django.db import transaction
from django.db.models import Q

from apps.accounts.actions import create_token, create_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.views import site_url
from apps.teams.access import access_to_team
from apps.teams.actions import add_member, create_team
from apps.teams.models import Role, Team
from config.demo.hello import Hello
from config.demo.tide_table import TideTable

PEOPLE = {
    "alice": "owns team acme",
    "bob": "is a member of it",
    "carol": "is a viewer there",
    "dave": "is a stranger",
}


def load() -> str:
    """Make the example data in one transaction; returns a text with the password and the tokens of
    its people.

    They can be shown only now. If one of the names or addresses is taken, nothing is
    changed.
    """
    addresses = {name: f"{name}@example.org" for name in PEOPLE}
    same = Q(username_key__in=PEOPLE) | Q(email_key__in=addresses.values())
    people = User.objects.filter(same).values_list("username", flat=True)
    teams = Team.objects.filter(slug="acme").values_list("slug", flat=True)
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
    alice, bob, carol, _ = users.values()
    acme = create_team(by=Principal(alice), name="Acme", slug="acme")
    space = access_to_team(Principal(alice), acme)
    add_member(by=space, user=bob, role=Role.MEMBER)
    add_member(by=space, user=carol, role=Role.VIEWER)
    Hello(space, users).make()
    TideTable(space, users).make()


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

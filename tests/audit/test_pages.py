"""`/site/audit` and `/teams/<slug>/~settings/audit`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.events.audit import AuditEntry
from apps.teams.actions import update_member, update_team
from apps.teams.models import Member, Team
from tests.principals import team_access_of
from tests.test_queries import costing
from tests.web.page_client import PageClient

pytestmark = pytest.mark.once
OF_TEAM = "/teams/acme/~settings/audit"


def change(acme: Team, alice: User) -> None:
    """A new name, and another role of bob."""
    access = team_access_of(alice, acme)
    update_team(access=access, name="<b>Bold</b>")
    member = Member.objects.get(team=acme, user__username="bob")
    update_member(access=access, member=member, role="viewer")


def test_the_page_of_a_team_shows_its_changes_to_owners(
    acme: Team, alice: User, bob: User, sam: User
) -> None:
    change(acme, alice)
    PageClient(bob).get(OF_TEAM).gives(403)
    page = PageClient(alice).get(OF_TEAM).gives()
    assert page.h1 == "Audit log of <b>Bold</b>"
    assert "<b>Bold</b>" not in page.html
    assert "gave a member of the team another role: member bob" in page.text
    assert "role: viewer" in page.text and "before: member" in page.text
    assert "signed in: " not in page.text
    assert f'href="{OF_TEAM}"' in PageClient(alice).get("/teams/acme/~settings").gives().html
    whole = PageClient(sam).get("/site/audit").gives()
    assert "alice changed the team: team acme" in whole.text
    assert "→ <b>Bold</b>" in whole.text


def test_filters_keep_their_values_and_name_wrong_ones(acme: Team, alice: User, sam: User) -> None:
    change(acme, alice)
    staff = PageClient(sam)
    page = staff.get("/site/audit?kind=team-updated&actor=alice&target=&since=1+day").gives()
    assert "changed the team: team acme" in page.text and "member bob" not in page.text
    assert page.value("actor") == "alice" and page.value("since") == "1 day"
    assert '<option value="team-updated" selected>' in page.html
    wrong = staff.get("/site/audit?target=bob").gives(422)
    assert "target: Must be one of user:" in wrong.text and wrong.value("target") == "bob"
    assert "There are no such entries." in staff.get("/site/audit?actor=nobody").gives().text
    export = page.find(r'href="(/site/audit/export\?[^"]+)"')
    [line] = staff.client.get(export).getvalue().splitlines()
    assert json.loads(line)["kind"] == "team-updated"
    assert staff.get("/site/audit/export?target=bob").status == 422


def test_pages_of_fifty_cost_the_same_as_one(acme: Team, sam: User) -> None:
    staff, costs = PageClient(sam), []
    staff.get("/site/audit").gives()
    for count in (1, 60):
        for number in range(count):
            values: dict[str, Any] = {"target": {"kind": "team"}, "data": {"role": str(number)}}
            values |= {"team_id": acme.pk, "actor": sam, "created_at": timezone.now()}
            AuditEntry.objects.create(kind="team-updated", **values)
        with costing() as cost:
            page = staff.get("/site/audit").gives()
        costs.append(cost.sql)
    assert costs[0] == costs[1] <= 8
    older = page.find(r'rel="next" href="([^"]+)"')
    last = staff.get(older).gives()
    assert 'rel="prev"' in last.html and 'rel="next"' not in last.html


def test_the_admin_shows_entries_and_finds_an_address(acme: Team, alice: User, sam: User) -> None:
    values: dict[str, Any] = {"target": {"kind": "team", "slug": "acme"}, "data": {"role": "x"}}
    values |= {"team_id": acme.pk, "actor": alice, "created_at": timezone.now()}
    made = AuditEntry.objects.create(kind="team-updated", address="192.0.2.7", **values)
    staff, path = PageClient(sam), "/admin/events/auditentry/"
    page = staff.get(f"{path}?q=192.0.2.7").gives()
    assert "changed the team" in page.text and "teams/acme" in page.text
    assert "changed the team" not in staff.get(f"{path}?q=192.0.2.8").gives().text
    assert "changed the team" in staff.get(f"{path}?q=ALICE&kind=team-updated").gives().text
    page = staff.get(f"{path}{made.pk}/change/").gives()
    assert "192.0.2.7" in page.text and 'name="_save"' not in page.html

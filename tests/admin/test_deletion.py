"""Staff deletes repositories, teams and accounts, and restores them."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import Deletion
from tests.admin.urls import admin_url, row_url


@pytest.mark.parametrize("kind", ["repo", "team", "user"])
def test_staff_deletes_and_restores(staff, team_repo, acme, carol, kind, events):
    rows: dict[str, Any] = {"repo": team_repo, "team": acme, "user": carol}
    row, name = rows[kind], {"repo": "acme/api", "team": "acme", "user": "carol"}[kind]
    confirmation = staff.get(row_url(row, "remove")).gives()
    assert f"Type {name} to confirm" in confirmation.text
    with events():
        staff.post(row_url(row, "remove"), confirm="other")
    assert "to delete it" in staff.get(row_url(row)).text
    with events(f"{kind}-deleted"):
        staff.post(row_url(row, "remove"), confirm=name)
    deletion = Deletion.objects.get()
    page = staff.get(row_url(row)).gives()
    assert "deleted" in page.text
    assert row_url(row, "remove") not in page.html
    assert deletion.path in staff.get(admin_url(Deletion)).gives().text
    with events(f"{kind}-restored"):
        staff.post(row_url(deletion, "restore")).redirects_to(admin_url(Deletion), 302)
    row.refresh_from_db()
    assert row.deletion_id is None

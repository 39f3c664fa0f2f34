"""The pages that delete repositories, teams and accounts."""

from __future__ import annotations

import pytest

from apps.accounts.models import Deletion, User
from apps.repos.models import Repo
from apps.teams.models import Team


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ("/teams/acme/api/settings", "acme/api"),
        ("/teams/acme/~settings", "acme"),
        ("/settings", "carol"),
    ],
    ids=["repository", "team", "account"],
)
def test_a_person_types_the_name_to_delete_it(visit, team_repo, alice, carol, settings, name):
    page, path = visit(carol if name == "carol" else alice), f"{settings}/delete"
    assert f'href="{path}"' in page.get(settings).gives().html
    assert f"Type {name} to confirm." in page.get(path).gives().text
    for typed in ("", name.upper(), "other"):
        refused = page.post(path, confirm=typed)
        assert refused.status == 422
        assert 'id="id_confirm_error"' in refused.html
    assert not Deletion.objects.exists()
    answer = page.post(path, confirm=name)
    assert answer.status == 303
    assert "is deleted. Staff can restore it until" in page.get(answer.header("Location")).text
    gone = (Repo.objects.gone(), Team.objects.filter(deletion__isnull=False))
    people = User.objects.filter(deletion__isnull=False)
    assert [rows.count() for rows in (*gone, people)] == {
        "acme/api": [1, 0, 0],
        "acme": [1, 1, 0],
        "carol": [0, 0, 1],
    }[name]


def test_after_deleting_the_account_nobody_is_signed_in(visit, carol):
    page = visit(carol)
    page.post("/settings/delete", confirm="carol")
    assert page.get("/settings").status == 302

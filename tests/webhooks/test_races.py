"""Webhooks that several people change at once, and those of deleted owners."""

from __future__ import annotations

import pytest
from django.utils import timezone

from apps.accounts.models import Deletion
from apps.repos.actions import delete_repo
from apps.repos.purge import purge_deleted
from apps.teams.actions import delete_team
from apps.webhooks.actions import MOST_WEBHOOKS
from apps.webhooks.models import Delivery, Webhook
from tests.principals import access_of, team_access_of
from tests.races import at_once
from tests.test_queries import webhook_by
from tests.webhooks.conftest import URL


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["repo", "team", "site"])
def test_of_several_who_add_the_last_webhook_one_does(kind, places, alice, team_repo, acme):
    owner = {"repo": {"repo": team_repo}, "team": {"team": acme}, "site": {}}[kind]
    for _ in range(MOST_WEBHOOKS - 1):
        webhook_by(alice, **owner)
    place = places[kind]
    add = lambda: place.api.post(place.path, url=URL)  # noqa: E731 - called several times
    assert at_once(*[add] * 4) == {(201, None): 1, (409, "webhook_limit"): 3}
    assert Webhook.objects.filter(**(owner or {"repo": None, "team": None})).count() == 20


@pytest.mark.django_db(transaction=True)
def test_a_rotation_and_a_change_at_once_both_take_effect(of_repo):
    made = of_repo.create()
    one = f"{of_repo.path}/{made['uuid']}"
    results = at_once(
        lambda: of_repo.api.put(f"{one}/rotate-secret"),
        lambda: of_repo.api.put(one, description="Chat", is_active=False),
    )
    assert results == {(200, None): 2}
    row = Webhook.objects.get()
    assert row.old_secret == made["secret"] != row.secret
    assert (row.description, row.is_active) == ("Chat", False)


@pytest.mark.django_db(transaction=True)
def test_a_webhook_that_is_deleted_meanwhile_is_not_found(of_repo):
    made = of_repo.create()
    one = f"{of_repo.path}/{made['uuid']}"
    results = at_once(
        lambda: of_repo.api.delete(one), lambda: of_repo.api.put(one, description="Chat")
    )
    assert results[(204, None)] == 1
    assert results[(200, None)] + results[(404, "not_found")] == 1
    assert not Webhook.objects.exists()


@pytest.mark.parametrize("kind", ["repo", "team"])
def test_a_deleted_owner_hides_its_webhooks_and_takes_them_along(
    kind, places, alice, team_repo, acme, make_delivery, settings
):
    place = places[kind]
    made = place.create()
    make_delivery(Webhook.objects.get())
    if kind == "repo":
        delete_repo(access=access_of(alice, team_repo), confirm="acme/api")
    else:
        delete_team(access=team_access_of(alice, acme), confirm="acme")
    place.api.get(f"{place.path}/{made['uuid']}").fails(404, "not_found")
    assert Webhook.objects.exists()
    Deletion.objects.update(purge_at=timezone.now())
    purge_deleted(lambda _: None)
    assert not Webhook.objects.exists() and not Delivery.objects.exists()


def test_a_webhook_stays_when_its_creator_leaves_and_the_repository_is_renamed(
    of_repo, api, alice, bob, acme, team_repo
):
    acme.members.filter(user=bob).update(role="owner")
    made = of_repo.create()
    acme.members.filter(user=alice).delete()
    api(bob).put(team_repo.api_path, name="Api", slug="renamed").gives()
    read = api(bob).get(f"/teams/acme/repos/renamed/webhooks/{made['uuid']}").gives()
    assert (read["created_by_username"], read["state"]) == ("alice", "active")
    moved = api(bob).get(f"{of_repo.path}/{made['uuid']}")
    assert moved.status == 301 and "/repos/renamed/webhooks/" in moved.header("Location")

"""Deleting a team with its repositories, `DELETE /teams/{team_slug}`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db.models import Q

from apps.accounts.actions import restore
from apps.accounts.models import Deletion, User
from apps.core.errors import Conflict, NotFound
from apps.events.hub import in_thread
from apps.events.models import Event
from apps.repos.actions import create_repo
from apps.repos.jobs import ignore
from apps.repos.models import Repo
from apps.repos.purge import purge_deleted
from apps.teams.actions import create_bot, delete_team
from apps.teams.models import Team
from tests.api import Api
from tests.dying import deaths_until_done
from tests.events.test_hub import joined
from tests.principals import principal_of, space_access_of, team_access_of
from tests.races import Outcome, at_once
from tests.repos.test_deletion import all_due, delete


def delete_acme(client: Api) -> Any:
    return client.delete("/teams/acme?confirm=acme").gives(202)


def test_it_is_gone_with_its_repositories(api, acme, team_repo, make, alice, bob, sam, events):
    make.thread(team_repo, by=alice, title="Xylophone", body="@bob")
    with events():
        api(alice).delete("/teams/acme").fails(422, "validation_failed")
        api(alice).delete("/teams/acme?confirm=Acme").fails(422, "validation_failed")
    with events("team-deleted") as recorded:
        assert delete_acme(api(alice))["path"] == "teams/acme"
    assert (recorded[0].site, recorded[0].team_id) == (1, None)
    for person in (alice, bob, sam):
        caller = api(person)
        for path in ("/teams/acme", "/teams/acme/members", "/teams/acme/repos", team_repo.api_path):
            caller.get(path).fails(404, "not_found")
        caller.get("/events?scope=team:acme").fails(404, "not_found")
        assert not caller.get("/teams").gives()["results"]
        assert not caller.get("/threads").gives()["results"]
    assert not api(sam).get("/teams?all=true").gives()["results"]
    assert not api(bob).get("/pings").gives()["results"]
    api(alice).post("/teams", name="Acme", slug="acme").fails(409, "slug_taken")
    assert api(alice).get("/check-team-slug?slug=acme").status == 409
    assert api(sam).get("/events?scope=site").gives()["results"][0]["kind"] == "team-deleted"


def test_an_inactive_team_is_deleted_too(api, acme, alice):
    Team.objects.update(is_active=False)
    delete_acme(api(alice))


def test_staff_restores_it_with_what_it_had(api, acme, make, team_repo, alice, bob, sam, events):
    before = make.repo(acme, "before", by=alice)
    delete(api(alice), before)
    earlier = Deletion.objects.get()
    delete_acme(api(alice))
    with pytest.raises(Conflict, match="Restore teams/acme first"):
        restore(principal=principal_of(sam), deletion=earlier)
    with events("team-restored"):
        restore(principal=principal_of(sam), deletion=Deletion.objects.get(path="teams/acme"))
    assert api(bob).get("/teams/acme").gives()["caller_role"] == "member"
    api(bob).get(team_repo.api_path).gives()
    api(bob).get(before.api_path).fails(404, "not_found")
    restore(principal=principal_of(sam), deletion=earlier)
    api(bob).get(before.api_path).gives()


def test_after_two_weeks_only_the_people_are_left(api, acme, make, team_repo, alice, bob):
    make.thread(team_repo, by=bob, title="Xylophone")
    earlier = make.repo(acme, "earlier", by=alice)
    delete(api(alice), earlier)
    other = make.repo(alice, "other", by=alice)
    delete_acme(api(alice))
    all_due()
    purge_deleted(ignore)
    assert not Team.objects.exists()
    assert not Deletion.objects.exists()
    assert [*Repo.objects.values_list("pk", flat=True)] == [other.pk]
    assert not team_repo.git.path.exists()
    assert not earlier.git.path.exists()
    assert User.objects.filter(username__in=["alice", "bob"]).count() == 2
    assert not Event.objects.filter(Q(team_id=acme.pk) | Q(repo_id=team_repo.pk)).exists()
    api(bob).post("/teams", name="Acme", slug="acme").gives(201)


def test_a_request_from_before_it_creates_no_repository(api, acme, alice, bob):
    space = space_access_of(bob, acme)
    delete_acme(api(alice))
    with pytest.raises(NotFound):
        create_repo(access=space, name="New", slug="new")


@pytest.mark.django_db(transaction=True)
def test_a_repository_that_is_created_meanwhile_goes_too_or_is_refused(acme, alice, bob):
    space, access = space_access_of(bob, acme), team_access_of(alice, acme)
    answers = at_once(
        lambda: Outcome(lambda: create_repo(access=space, name="New", slug="new")),
        lambda: Outcome(lambda: delete_team(access=access, confirm="acme")),
    )
    assert answers[200, None] >= 1
    assert not Repo.objects.filter(deletion=None).exists()


@pytest.mark.django_db(transaction=True)
def test_open_streams_of_it_end(make, acme, team_repo, alice, bob):
    def remove() -> None:
        delete_team(access=team_access_of(alice, acme), confirm="acme")

    async def story(scope: str) -> str:
        async with joined(make.token(bob), f"scope={scope}") as client:
            await in_thread(remove)
            return await client.text()

    assert asyncio.run(story(f"repo:{team_repo.path}")) == ""


def test_its_bots_go_and_come_back_with_it(api, acme, team_repo, make, alice, bob, sam):
    bot = create_bot(access=team_access_of(alice, acme), username="ci").user
    thread, by_bot = make.thread(team_repo, by=bot), Api(make.token(bot))
    by_bot.get("/users/self").gives()
    delete_acme(api(alice))
    by_bot.get("/users/self").fails(401, "inactive_user")
    api(bob).get("/users/ci").fails(404, "not_found")
    assert api(bob).get("/check-username?username=ci").status == 409
    restore(principal=principal_of(sam), deletion=Deletion.objects.get())
    by_bot.get(f"{team_repo.api_path}/threads/{thread.number}").gives()
    assert api(bob).get("/teams/acme/bots").gives()["results"][0]["username"] == "ci"


def test_a_bot_that_staff_has_deactivated_stays_so_after_a_restoration(api, acme, make, alice, sam):
    bot = create_bot(access=team_access_of(alice, acme), username="ci").user
    by_bot = Api(make.token(bot))
    api(sam).put("/users/ci", is_active=False).gives()
    delete_acme(api(alice))
    restore(principal=principal_of(sam), deletion=Deletion.objects.get())
    by_bot.get("/users/self").fails(401, "inactive_user")
    assert api(alice).get("/teams/acme/bots/ci").gives()["is_active"] is False


def test_after_two_weeks_a_deactivated_bot_of_it_is_removed_too(api, acme, make, alice, sam):
    bot = create_bot(access=team_access_of(alice, acme), username="ci").user
    make.token(bot)
    api(sam).put("/users/ci", is_active=False).gives()
    delete_acme(api(alice))
    all_due()
    purge_deleted(ignore)
    bot.refresh_from_db()
    assert bot.username == f"deleted-account-{bot.pk}"
    assert not bot.is_active and not bot.tokens.exists()


def test_after_two_weeks_the_texts_of_its_bots_elsewhere_have_no_name(api, acme, make, alice, bob):
    repo = make.repo(bob, "open", by=bob, visibility="public")
    bots = [
        create_bot(access=team_access_of(alice, acme), username=name, display_name="Builder").user
        for name in ("ci", "cd")
    ]
    threads = [make.thread(repo, by=bot) for bot in bots]
    delete_acme(api(alice))
    all_due()
    deaths = deaths_until_done(lambda: purge_deleted(ignore))
    assert deaths > 3 and not Team.objects.filter(slug="acme").exists()
    for bot, thread in zip(bots, threads, strict=True):
        record = api(bob).get(f"{repo.api_path}/threads/{thread.number}").gives()
        name = record["created_by_username"]
        assert (name, record["created_by_is_bot"]) == (f"deleted-account-{bot.pk}", True)
        assert User.objects.get(pk=bot.pk).display_name == ""
    deletion = Deletion.objects.get()
    assert (deletion.purge_at, deletion.path) == (None, f"users/deleted-account-{bots[0].pk}")

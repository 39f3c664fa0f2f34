"""/teams/{team_slug}/bots, and the tokens of a bot."""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth import authenticate
from django.utils import timezone

from apps.accounts.actions import create_invite, set_account, update_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.errors import ApiError
from apps.teams.actions import add_member, create_bot, create_bot_token, update_member
from apps.teams.models import MOST_BOTS, Member, Role
from config.offboarding.actions import offboard
from tests.api import Api
from tests.factories import MemberFactory, TeamFactory, UserFactory
from tests.principals import principal_of, team_access_of

HOME = "/teams/acme/bots"
CI = f"{HOME}/ci"


@pytest.fixture
def bot(acme, alice) -> User:
    """A bot of acme with the role of a member."""
    return create_bot(access=team_access_of(alice, acme), username="ci").user


@pytest.fixture
def by_bot(api, alice, bot) -> Api:
    """A client with a token of the bot that may do everything."""
    made = api(alice).post(f"{CI}/api-tokens", name="tests").gives(201)
    return Api(made["token"])


def test_an_owner_makes_a_bot_that_is_shown_as_one(api, acme, alice, bob, events):
    with events():
        api(bob).post(HOME, username="ci").fails(403, "role_required")
        api(alice).post(HOME, username="a bot").fails(422, "validation_failed")
        api(alice).post(HOME, username="ci", role="owner").fails(422, "validation_failed")
        api(alice).post(HOME, username="BOB").fails(409, "slug_taken")
    with events("user-joined", "member-added") as recorded:
        made = api(alice).post(HOME, username="ci", display_name="Builder").gives(201)
    assert (made["display_name"], made["role"], made["is_active"]) == ("Builder", "member", True)
    assert made["created_by_username"] == "alice"
    assert [event.actor.username for event in recorded] == ["alice", "alice"]
    assert api(bob).get(HOME).gives()["results"] == [made] == [api(bob).get(CI).gives()]
    assert api(bob).get("/users/ci").gives()["is_bot"] is True
    assert api(bob).get("/teams/acme/members/ci").gives()["is_bot"] is True
    assert api(bob).get("/teams/acme/members/bob").gives()["is_bot"] is False


def test_staff_makes_a_bot_of_any_team(api, acme, sam):
    assert api(sam).post(HOME, username="ci", role="admin").gives(201)["role"] == "admin"


def test_a_team_has_at_most_20_bots(api, acme, alice, events):
    access = team_access_of(alice, acme)
    for number in range(MOST_BOTS):
        create_bot(access=access, username=f"bot{number}")
    with events():
        api(alice).post(HOME, username="ci").fails(409, "bot_limit")
    api(alice).delete(f"{HOME}/bot0").gives(204)
    api(alice).post(HOME, username="ci").gives(201)


def test_an_owner_changes_the_name_of_a_bot(api, alice, bob, bot, events):
    with events():
        api(bob).put(CI, display_name="Builder").fails(403, "role_required")
        api(alice).put(CI, display_name="\u202e").fails(422, "validation_failed")
        api(alice).put(f"{HOME}/bob", display_name="Builder").fails(404, "not_found")
    with events("user-updated"):
        assert api(alice).put(CI, display_name="Builder").gives()["display_name"] == "Builder"
    with events():
        api(alice).patch(CI).gives()


def test_the_tokens_of_a_bot_are_managed_by_the_owners(api, make, acme, alice, bob, bot, events):
    make.repo(acme, "api", by=alice)
    tokens, scope = f"{CI}/api-tokens", {"permission": "read", "repo_paths": ["teams/acme/api"]}
    with events():
        api(bob).get(tokens).fails(403, "role_required")
        api(bob).post(tokens, name="ci").fails(403, "role_required")
        refused = api(alice).post(tokens, name="ci", repo_paths=["teams/acme/x"])
        assert "that ci may read" in refused.fails(422, "validation_failed")
        api(alice).post(tokens, name="ci", username="bob").fails(422, "unknown_field")
    with events("token-created"):
        made = api(alice).post(tokens, name="ci", **scope).gives(201)
    assert (made["username"], made["permission"]) == ("ci", "read")
    own = Api(made["token"])
    own.get("/teams/acme/repos/api").gives()
    own.post("/teams/acme/repos/api/threads", title="x", kind="issue").fails(403, "token_scope")
    [listed] = api(alice).get(tokens).gives()["results"]
    assert listed["uuid"] == made["uuid"] and "token" not in listed
    one = f"{tokens}/{made['uuid']}"
    with events("token-rotated"):
        new = api(alice).put(f"{one}/rotate").gives()["token"]
    own.get("/users/self").fails(401, "invalid_token")
    Api(new).get("/users/self").gives()
    with events("token-deleted"):
        api(alice).delete(one).gives(204)
    Api(new).get("/users/self").fails(401, "invalid_token")


def test_a_token_of_somebody_else_is_not_below_a_bot(api, acme, alice, bob, bot):
    uuid = bob.tokens.get().uuid
    api(alice).delete(f"{CI}/api-tokens/{uuid}").fails(404, "not_found")
    api(alice).put(f"{CI}/api-tokens/{uuid}/rotate").fails(404, "not_found")
    assert bob.tokens.exists()


def test_an_owner_of_another_team_does_not_manage_its_tokens(api, carol, by_bot, bot):
    TeamFactory.create(slug="zoo", owner=carol)
    token = bot.tokens.get()
    api(carol).delete(f"/teams/zoo/bots/ci/api-tokens/{token.uuid}").fails(404, "not_found")
    api(carol).delete(f"{CI}/api-tokens/{token.uuid}").fails(403, "forbidden")
    api(carol).delete(f"/api-tokens/{token.uuid}").fails(403, "staff_required")
    by_bot.get("/users/self").gives()


def test_a_token_of_a_bot_does_not_outlive_the_token_that_made_it(api, make, alice, bot):
    soon = timezone.now() + dt.timedelta(hours=1)
    alice.tokens.update(expires_at=soon)
    made = api(alice).post(f"{CI}/api-tokens", name="ci", expires_at="30 days").gives(201)
    assert dt.datetime.fromisoformat(made["expires_at"]) <= soon


def test_a_deleted_bot_can_do_nothing_and_its_texts_stay(api, make, acme, alice, bob, bot, by_bot):
    repo = make.repo(acme, "api", by=alice)
    thread = make.thread(repo, by=bot)
    api(bob).delete(CI).fails(403, "role_required")
    api(alice).delete(CI).gives(204)
    by_bot.get("/users/self").fails(401, "invalid_token")
    assert not User.objects.get(username="ci").is_active
    api(alice).get(CI).fails(404, "not_found")
    record = api(bob).get(f"{repo.api_path}/threads/{thread.number}").gives()
    assert (record["created_by_username"], record["created_by_is_bot"]) == ("ci", True)
    api(alice).post(HOME, username="ci").fails(409, "slug_taken")
    assert not User.objects.get(username="ci").tokens.filter(revoked_at=None).exists()


def test_deleting_a_bot_is_recorded_as_what_it_does(api, alice, by_bot, events):
    with events("token-revoked", "member-removed", "user-deactivated"):
        api(alice).delete(CI).gives(204)
    with events():
        api(alice).delete(CI).fails(404, "not_found")


def test_the_bots_of_an_inactive_team_can_only_be_reduced(api, acme, alice, by_bot, bot):
    token = bot.tokens.get()
    api(alice).patch("/teams/acme", is_active=False).gives()
    api(alice).post(HOME, username="other").fails(403, "team_inactive")
    api(alice).post(f"{CI}/api-tokens", name="x").fails(403, "team_inactive")
    api(alice).delete(f"{CI}/api-tokens/{token.uuid}").gives(204)
    api(alice).delete(CI).gives(204)


def test_events_tell_bots_apart(api, make, acme, alice, bob, bot):
    repo = make.repo(acme, "api", by=alice)
    make.thread(repo, by=bot)
    newest, older = api(bob).get("/events?scope=team:acme").gives()["results"][:2]
    assert (newest["actor_user_username"], newest["actor_user_is_bot"]) == ("ci", True)
    assert (older["actor_user_username"], older["actor_user_is_bot"]) == ("alice", False)


def test_lists_of_people_tell_bots_apart(api, acme, alice, bot):
    def names(path: str) -> list[str]:
        return [row["username"] for row in api(alice).get(path).gives()["results"]]

    assert names("/users?is_bot=true") == ["ci"]
    assert names("/users?is_bot=false") == ["alice", "bob"]
    assert names("/suggest-users?name=c") == ["ci"]
    assert names("/suggest-users?name=c&people_only=true") == []


def test_a_bot_that_is_mentioned_is_pinged(api, make, acme, alice, bot, by_bot):
    make.thread(make.repo(acme, "api", by=alice), by=alice, body="@ci, build this")
    [ping] = by_bot.get("/pings").gives()["results"]
    assert ping["kind"] == "mention"


# Refusals of bots


def test_a_bot_makes_no_tokens_teams_repositories_and_forks_of_its_own(
    api, make, acme, alice, bot, by_bot, events
):
    repo, token = make.repo(acme, "api", by=alice), bot.tokens.get().uuid
    with events():
        by_bot.post("/api-tokens", name="x").fails(403, "person_required")
        by_bot.put(f"/api-tokens/{token}/rotate").fails(403, "person_required")
        by_bot.put(f"/api-tokens/{token}/revoke").fails(403, "person_required")
        by_bot.delete(f"/api-tokens/{token}").fails(403, "person_required")
        by_bot.post("/teams", name="Own", slug="own").fails(403, "person_required")
        by_bot.post("/users/ci/repos", name="Own", slug="own").fails(403, "person_required")
        by_bot.post(f"{repo.api_path}/forks").fails(403, "person_required")
        by_bot.post(f"{repo.api_path}/forks?team_slug=acme").fails(403, "person_required")
        by_bot.put("/users/self", display_name="Alice").fails(403, "person_required")
        by_bot.delete("/users/self?confirm=ci").fails(403, "person_required")
    assert not bot.repos.exists() and not bot.forks.exists()


def test_staff_gives_a_bot_no_repository(api, bot, sam):
    api(sam).post("/users/ci/repos", name="Own", slug="own").fails(403, "person_required")


def test_a_bot_invites_nobody_even_where_all_people_may(api, bot, sam, events):
    open_to_all = {"signup_invite_creators": "users", "signup_invite_min_account_age": "0s"}
    api(sam).patch("/site-settings", **open_to_all).gives()
    tomorrow = timezone.now() + dt.timedelta(days=1)
    with events(), pytest.raises(ApiError, match="no bot"):
        create_invite(principal=Principal(bot), expires_at=tomorrow)


def test_a_bot_has_no_password_and_no_address(api, acme, bot, sam):
    assert authenticate(username="ci", password="") is None
    assert not bot.has_usable_password() and bot.email_key is None
    staff = principal_of(sam)
    for values in ({"email": "ci@example.org"}, {"wants_mail": True}, {"is_staff": True}):
        with pytest.raises(ApiError, match="is a bot"):
            update_user(principal=staff, user=bot, **values)
    with pytest.raises(ApiError, match="is a bot"):
        set_account(principal=staff, user=bot, is_staff=True)
    api(sam).put("/users/ci", is_staff=True).fails(422, "validation_failed")


def test_a_bot_has_one_team_and_never_owns_it(api, acme, alice, carol, bot, by_bot, events):
    zoo = TeamFactory.create(slug="zoo", owner=carol)
    with events():
        api(carol).post("/teams/zoo/members", username="ci", role="viewer").fails(
            422, "validation_failed"
        )
        api(alice).put("/teams/acme/members/ci", role="owner").fails(422, "validation_failed")
        api(alice).delete("/teams/acme/members/ci").fails(409, "invalid_transition")
        by_bot.delete("/teams/acme/members/ci").fails(409, "invalid_transition")
    with pytest.raises(ApiError, match="is a bot"):
        add_member(access=team_access_of(carol, zoo), user=bot, role=Role.VIEWER)
    with events("member-updated"):
        api(alice).put("/teams/acme/members/ci", role="viewer").gives()
    assert list(Member.objects.filter(user=bot).values_list("role", flat=True)) == ["viewer"]


def test_a_bot_succeeds_no_owner(api, acme, alice, bot, sam):
    with pytest.raises(ApiError, match="is a bot"):
        offboard(principal=principal_of(sam), user=alice, confirm="alice", successor="ci")


def test_staff_off_boards_a_bot_like_a_person(api, acme, by_bot, bot, sam):
    plan = api(sam).put("/users/ci/offboard", confirm="ci").gives()
    assert [team["slug"] for team in plan["teams"]] == ["acme"]
    by_bot.get("/users/self").fails(401, "invalid_token")


def test_a_bot_with_the_role_of_an_admin_does_not_manage_bots(api, acme, alice, bot, by_bot):
    api(alice).put("/teams/acme/members/ci", role="admin").gives()
    by_bot.post(HOME, username="other").fails(403, "role_required")
    by_bot.post(f"{CI}/api-tokens", name="x").fails(403, "role_required")


def test_an_owner_who_has_lost_the_role_makes_neither_bot_nor_token(acme, alice, bot, events):
    dora = MemberFactory.create(team=acme, user=UserFactory.create(), role=Role.OWNER)
    access = team_access_of(dora.user, acme)
    update_member(access=team_access_of(alice, acme), member=dora, role=Role.MEMBER)
    with events(), pytest.raises(ApiError, match="needs admin access"):
        create_bot(access=access, username="late")
    with events(), pytest.raises(ApiError, match="needs owner access"):
        create_bot_token(access=access, bot=bot.memberships.get(), name="late")

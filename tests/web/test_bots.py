"""The pages of a team's bots, and the label beside the name of a bot."""

from __future__ import annotations

import re

import pytest

from apps.accounts.models import TOKEN_PREFIX, User
from apps.teams.actions import create_bot
from apps.teams.models import MOST_BOTS
from tests.api import Api
from tests.principals import team_access_of

HOME = "/teams/acme/~settings/bots"
CI = f"{HOME}/ci"
LABEL = '<span class="state none">bot</span>'


@pytest.fixture
def bot(acme, alice) -> User:
    return create_bot(access=team_access_of(alice, acme), username="ci").user


def token_on(page) -> str:
    [text] = re.findall(rf'value="({TOKEN_PREFIX}\w+)"', page.html)
    return str(text)


def test_an_owner_makes_a_bot_in_the_settings(visit, acme, alice, bob, events):
    person = visit(alice)
    assert f'href="{HOME}"' in person.get("/teams/acme/~settings").gives().html
    visit(bob).get(HOME).gives(403)
    with events():
        page = person.post(HOME, username="bob", role="member").gives(409)
        assert "taken" in page.alert() and page.value("username") == "bob"
        person.post(HOME, username="a bot", role="member").gives(422)
        person.post(HOME, username="ci", role="owner").gives(422)
    with events("user-joined", "member-added"):
        person.post(HOME, username="ci", display_name="Builder", role="viewer").redirects_to(CI)
    page = person.get(HOME).gives()
    assert "Builder" in page.text and "viewer" in page.text and LABEL in page.html


def test_the_form_is_gone_at_the_limit(visit, acme, alice):
    for number in range(MOST_BOTS):
        create_bot(access=team_access_of(alice, acme), username=f"bot{number}")
    page = visit(alice).get(HOME).gives()
    assert "the most allowed" in page.text and 'name="username"' not in page.html


def test_a_token_of_a_bot_is_shown_once_rotated_and_revoked(visit, make, acme, alice, bot, events):
    make.repo(acme, "api", by=alice)
    person, fields = visit(alice), {"permission": "read", "repo_paths": "teams/acme/api"}
    assert "teams/acme/api" in person.get(CI).gives().text
    with events():
        refused = person.post(CI, name="x", permission="read", repo_paths="teams/acme/no")
        assert "teams/acme/no" in refused.gives(422).alert()
    with events("token-created"):
        made = person.post(CI, name="deploy", expires_at="90 days", **fields).gives(201)
    first, one = token_on(made), f"{CI}/tokens/{bot.tokens.get().uuid}"
    assert made.header("Cache-Control") == "no-store" and "read, only teams/acme/api" in made.text
    assert first not in person.get(CI).html
    assert Api(first).get("/users/self").gives()["username"] == "ci"
    assert person.get(f"{one}/rotate").gives().h1 == "Rotate deploy?"
    person.post(f"{one}/rotate", keep_old="7").gives(422)
    with events("token-rotated"):
        rotated = person.post(f"{one}/rotate", keep_old="0s").gives(201)
    second = token_on(rotated)
    Api(first).get("/users/self").fails(401, "invalid_token")
    Api(second).get("/users/self").gives()
    assert person.get(f"{one}/revoke").gives().h1 == "Revoke deploy?"
    with events("token-revoked"):
        person.post(f"{one}/revoke").redirects_to(CI)
    Api(second).get("/users/self").fails(401, "invalid_token")
    assert "revoked" in person.get(CI).gives().text


def test_a_bot_is_renamed_and_deleted(visit, alice, bob, bot, events):
    person = visit(alice)
    with events():
        visit(bob).get(CI).gives(403)
        visit(bob).post(f"{CI}/delete").gives(403)
        person.get(f"{HOME}/bob").gives(404)
        assert person.get(f"{CI}/delete").gives().h1 == "Delete ci?"
    with events("user-updated"):
        person.post(f"{CI}/name", display_name="Builder").redirects_to(CI)
    assert person.get(CI).gives().h1 == "Builder"
    with events("member-removed", "user-deactivated"):
        person.post(f"{CI}/delete").redirects_to(HOME)
    assert "no bots" in person.get(HOME).gives().text
    person.get(CI).gives(404)


def test_in_an_inactive_team_tokens_can_only_be_revoked(visit, api, make, alice, bot):
    make.token(bot)
    api(alice).patch("/teams/acme", is_active=False).gives()
    person, one = visit(alice), f"{CI}/tokens/{bot.tokens.get().uuid}"
    page = person.get(CI).gives()
    assert "New token" not in page.text and f'href="{one}/rotate"' not in page.html
    person.post(CI, name="x", permission="read").gives(403)
    person.post(f"{one}/revoke").redirects_to(CI)
    person.post(f"{CI}/delete").redirects_to(HOME)


def test_a_bot_has_its_label_wherever_its_name_is(visit, make, acme, alice, bob, bot):
    repo = make.repo(acme, "api", by=alice)
    thread = make.thread(repo, by=bot)
    make.reply(thread, by=bot)
    pull = make.pull(repo, by=bot)
    make.review(make.pull(repo, by=bob), by=bot)
    person, home = visit(alice), f"/{repo.path}"
    pages = [
        f"{home}/threads",
        f"{home}/threads/{thread.number}",
        f"{home}/threads/{thread.number}/versions",
        f"{home}/pulls",
        f"{home}/pulls/{pull.number}",
        f"{home}/pulls/{pull.number + 1}",
        f"{home}/activity",
        "/teams/acme",
        "/teams/acme/~members",
        "/users/ci",
        "/search?type=users",
        "/search?type=threads&q=Slow",
    ]
    unlabelled = [path for path in pages if LABEL not in person.get(path).gives().html]
    assert unlabelled == []
    assert "reviews of bots do not count" in person.get(f"{home}/pulls/{pull.number + 1}").text
    User.objects.filter(pk=bot.pk).update(is_bot=False)
    assert [path for path in pages if LABEL in person.get(path).gives().html] == []


def test_a_bot_is_managed_among_the_members_and_not_removed(visit, alice, bot):
    page = visit(alice).get("/teams/acme/~members").gives()
    assert f'href="{CI}"' in page.html and "~members/ci/remove" not in page.html
    visit(alice).post("/teams/acme/~members/ci/remove").gives(409)
    visit(alice).post("/teams/acme/~members/ci/role", role="owner").gives(422)


def test_a_ping_by_a_bot_names_it_as_one(visit, make, acme, alice, bot):
    make.thread(make.repo(acme, "api", by=alice), by=bot, body="@alice")
    assert "ci (bot) mentioned you" in visit(alice).get("/inbox").gives().text

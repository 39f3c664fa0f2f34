"""Staff changes users, tokens and invites by the actions of the API, with the same refusals."""

import re

from apps.accounts import actions
from apps.accounts.models import ApiToken, Invite, User
from apps.accounts.principal import ANONYMOUS
from apps.core.durations import parse_future
from apps.site.models import SiteSettings
from tests.admin.urls import admin_url, row_url
from tests.factories import ApiTokenFactory, UserFactory
from tests.principals import principal_of


def errors(page):
    return " ".join(re.findall(r'<ul class="errorlist.*?</ul>', page.html, re.DOTALL))


def profile(user, **changed):
    return {"display_name": user.display_name, "email": user.email, **changed}


def test_a_profile_is_changed_as_over_the_api(staff, events):
    ada, bob = (
        UserFactory.create(username="ada", email="ada@example.org"),
        UserFactory.create(username="bob", email="bob@example.org"),
    )
    with events():
        for email, status in (("nobody", 200), ("ADA@example.org", 422)):
            refused = staff.post(row_url(bob), **profile(bob, email=email)).gives(status)
            assert 'value="' + email in refused.html and "errorlist" in refused.html
        assert "another account" in errors(refused).lower()
        staff.post(row_url(bob), **profile(bob)).redirects_to(admin_url(User), 302)
    with events("user-updated") as recorded:
        staff.post(
            row_url(bob), **profile(bob, display_name="Bob <b>", is_staff="on")
        ).redirects_to(admin_url(User), 302)
    bob.refresh_from_db()
    assert (bob.display_name, bob.is_staff, bob.is_superuser) == ("Bob <b>", True, True)
    assert recorded[0].data == {
        "changed": ["display_name", "is_staff"],
        "before": {"display_name": "", "is_staff": False},
        "after": {"display_name": "Bob <b>", "is_staff": True},
    }
    assert "Bob <b>" not in staff.get(admin_url(User)).html and ada.email


def test_an_old_page_writes_only_what_was_changed_on_it(staff, sam, bob, events):
    """Another member of staff has removed the staff flag meanwhile: an old form does not set it
    again.
    """
    actions.update_user(principal=principal_of(sam), user=bob, is_staff=True)
    shown = staff.get(row_url(bob)).inputs()
    assert shown["is_staff"] == "on"
    by, email = principal_of(sam), "bob@example.org"
    actions.update_user(principal=by, user=bob, is_staff=False, email=email)
    with events("user-updated") as recorded:
        staff.post(row_url(bob), **shown | {"display_name": "Bob"})
    assert recorded[0].data["changed"] == ["display_name"]
    bob.refresh_from_db()
    assert (bob.display_name, bob.is_staff, bob.email) == ("Bob", False, email)
    unticked = staff.get(row_url(sam)).inputs()
    del unticked["is_staff"]
    assert "last active member of staff" in errors(staff.post(row_url(sam), **unticked).gives(409))


def test_a_username_cannot_be_changed_here(staff, bob, events):
    with events():
        staff.post(row_url(bob), **profile(bob, username="eve", is_superuser="on", password="x"))
    bob.refresh_from_db()
    assert (bob.username, bob.is_superuser) == ("bob", False)


def test_the_last_of_the_staff_stays(staff, sam, events):
    with events():
        refused = staff.post(row_url(sam), **profile(sam, display_name="Samantha")).gives(409)
        assert (
            "last active member of staff" in errors(refused) and 'value="Samantha"' in refused.html
        )
        staff.post(row_url(sam, "deactivate")).redirects_to(row_url(sam), 302)
        assert "last active member of staff" in staff.get(row_url(sam)).text
    UserFactory.create(username="kim", staff=True)
    with events("user-deactivated"):
        staff.post(row_url(sam, "deactivate")).redirects_to(row_url(sam), 302)
    staff.get(row_url(sam)).redirects_to(f"/admin/login/?next={row_url(sam)}", 302)


def test_an_account_is_closed_and_opened_again(staff, bob, api, events):
    bobs = api(bob)
    with events():
        assert "closed at once" in staff.get(row_url(bob, "deactivate")).gives().text
        staff.get(row_url(bob, "reactivate")).redirects_to(row_url(bob), 302)
    with events("user-deactivated"):
        staff.post(row_url(bob, "deactivate")).redirects_to(row_url(bob), 302)
        staff.post(row_url(bob, "deactivate")).redirects_to(row_url(bob), 302)
    page = staff.get(row_url(bob))
    assert "Bob" not in page.text and "bob is deactivated." in page.text
    assert "<h1>bob</h1>" in page.html
    bobs.get("/users/self").fails(401, "inactive_user")
    with events("user-updated"):
        staff.post(row_url(bob, "reactivate")).redirects_to(row_url(bob), 302)
    bobs.get("/users/self").gives()


def test_a_token_is_shown_once(staff, bob, api, events):
    new = {"username": "Bob", "name": "laptop", "expires_at": "30 days"}
    with events():
        unknown = staff.post(admin_url(ApiToken, "add"), **{**new, "username": "nobody"})
        assert unknown.gives(422) and "There is no user" in errors(unknown)
        blank = staff.post(admin_url(ApiToken, "add"), **{**new, "name": " "}).gives()
        assert "errorlist" in blank.html and "ght_" not in blank.html
    assert 'value="bob"' in staff.get(admin_url(ApiToken, "add") + "?username=bob").html
    with events("token-created") as recorded:
        made = staff.post(admin_url(ApiToken, "add"), **new).gives(201)
    text = re.findall(r"ght_\w{42}", made.html)[0]
    assert "no-store" in made.header("Cache-Control") and text not in str(recorded[0].data)
    row = ApiToken.objects.get(user=bob, name="laptop")
    for path in (row_url(row), admin_url(ApiToken), row_url(bob), "/admin/"):
        assert text not in staff.get(path).gives().html
    assert user_of_token(api, text)["username"] == "bob"


def test_staff_gives_a_token_a_scope_and_sees_it(staff, make, bob):
    make.repo(bob, "notes", by=bob)
    new = {"username": "bob", "name": "deploy", "expires_at": "", "permission": "read"}
    refused = staff.post(admin_url(ApiToken, "add"), **new, repo_paths="users/bob/missing")
    assert refused.gives(422) and "users/bob/missing" in errors(refused)
    staff.post(admin_url(ApiToken, "add"), **new, repo_paths="users/bob/notes").gives(201)
    row = ApiToken.objects.get(name="deploy")
    assert (row.permission, row.is_limited) == ("read", True)
    assert "users/bob/notes" in staff.get(row_url(row)).gives().text


def user_of_token(api, text):
    found = api()
    found.headers["Authorization"] = f"Bearer {text}"
    return found.get("/users/self").gives()


def test_an_inactive_person_gets_no_token(staff, sam, bob, events):
    actions.deactivate_user(principal=principal_of(sam), user=bob)
    with events():
        refused = staff.post(admin_url(ApiToken, "add"), username="bob", name="x", expires_at="")
    assert "has been deactivated" in errors(refused.gives(422))


def test_a_token_is_revoked_and_deleted(staff, bob, api, events):
    bobs, row = api(bob), bob.tokens.get()
    with events("token-revoked"):
        staff.post(row_url(row, "revoke")).redirects_to(row_url(row), 302)
        staff.post(row_url(row, "revoke")).redirects_to(row_url(row), 302)
    bobs.get("/users/self").fails(401, "invalid_token")
    with events("token-deleted"):
        staff.post(row_url(row, "remove")).redirects_to(admin_url(ApiToken), 302)
    staff.post(row_url(row, "remove")).gives(404)


def test_an_invite_is_made_with_its_link(staff, sam, events):
    SiteSettings.load()
    with events():
        for bad in ({"expires_at": "yesterday"}, {"expires_at": "0s"}, {"email": "nobody"}):
            refused = staff.post(
                admin_url(Invite, "add"), **{"expires_at": "1 day", "email": "", **bad}
            )
            assert "errorlist" in refused.gives().html
        SiteSettings.objects.update(signup_invite_max_per_24h=0)
        refused = staff.post(admin_url(Invite, "add"), expires_at="1 day", email="").gives(429)
        assert "Invites are disabled" in errors(refused)
        SiteSettings.objects.update(signup_invite_max_per_24h=1)
        Invite.objects.create(created_by=sam, expires_at=parse_future("1 day"))
        refused = staff.post(admin_url(Invite, "add"), expires_at="1 day", email="").gives(429)
        assert "reached the limit" in errors(refused) and int(refused.header("Retry-After")) > 0
        Invite.objects.all().delete()
    SiteSettings.objects.update(signup_invite_max_per_24h=1)
    with events("invite-created"):
        made = staff.post(admin_url(Invite, "add"), expires_at="1 day", email="zoe@example.org")
    invite = Invite.objects.get(created_by=sam)
    made.redirects_to(row_url(invite), 302)
    assert f"http://127.0.0.1:8000/signup?invite={invite.uuid}" in staff.get(row_url(invite)).html


def test_an_invite_is_expired_and_renewed(staff, sam, events):
    invite = actions.create_invite(principal=principal_of(sam), expires_at=parse_future("1 day"))
    with events("invite-updated") as recorded:
        staff.post(row_url(invite, "expire")).redirects_to(row_url(invite), 302)
        staff.post(row_url(invite, "expire")).redirects_to(row_url(invite), 302)
    assert recorded[0].data == {"changed": ["expires_at"]}
    shown = staff.get(row_url(invite))
    assert f"invite={invite.uuid}" not in shown.html and "no longer works" in shown.text
    with events("invite-updated"):
        same = {"email": "", "expires_at": shown.value("expires_at")}
        staff.post(row_url(invite), **same).redirects_to(admin_url(Invite), 302)
        staff.post(row_url(invite), **{**same, "email": "zoe@example.org"}).redirects_to(
            admin_url(Invite), 302
        )
    with events("invite-updated"):
        staff.post(row_url(invite), email="zoe@example.org", expires_at="2 days").redirects_to(
            admin_url(Invite), 302
        )
    assert f"invite={invite.uuid}" in staff.get(row_url(invite)).html


def test_an_accepted_invite_can_only_be_read_and_deleted(staff, sam, events):
    SiteSettings.load()
    invite = actions.create_invite(principal=principal_of(sam), expires_at=parse_future("1 day"))
    actions.sign_up(
        principal=ANONYMOUS,
        invite=invite,
        username="zoe",
        email="zoe@example.org",
        password="first horse battery",
    )
    with events():
        staff.post(row_url(invite), email="eve@example.org", expires_at="1 day").gives(403)
        staff.post(row_url(invite, "expire")).redirects_to(row_url(invite), 302)
        assert "already been accepted" in staff.get(row_url(invite)).text
    with events("invite-deleted"):
        staff.post(row_url(invite, "remove")).redirects_to(admin_url(Invite), 302)
    staff.get(row_url(invite)).redirects_to("/admin/", 302)


def test_people_tokens_and_invites_are_found(staff, sam, bob):
    zoe = UserFactory.create(username="Zoe", email="lily@example.org")
    actions.update_user(principal=principal_of(zoe), user=zoe, display_name="Marta")
    invite = actions.create_invite(
        principal=principal_of(sam), expires_at=parse_future("1 day"), email="x@example.org"
    )
    token = ApiTokenFactory.create(user=zoe)
    for model, row, texts in (
        (User, zoe, ("ZO", "mart", "lily@", str(zoe.uuid), str(zoe.uuid)[:8])),
        (ApiToken, token, ("zoe", str(token.uuid), token.token_prefix)),
        (Invite, invite, ("X@", "sam", str(invite.uuid))),
    ):
        for text in texts:
            page = staff.get(f"{admin_url(model)}?q={text}").gives()
            assert row_url(row) in page.html and row_url(bob) not in page.html, (model, text)
        assert row_url(row) not in staff.get(f"{admin_url(model)}?q=nothing").html


def test_staff_signs_a_person_out_everywhere(staff, visit, bob, events):
    browser = visit(bob)
    assert browser.is_signed_in
    with events("user-updated"):
        staff.post(row_url(bob, "signout")).redirects_to(row_url(bob), 302)
    assert not browser.is_signed_in

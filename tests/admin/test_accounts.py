"""Staff changes people, tokens and invites: each change by its action, each refusal in words."""

import re

from apps.accounts import actions
from apps.accounts.models import ApiToken, Invite, User
from apps.core.durations import parse_future
from apps.site.models import SiteSettings
from tests.admin.urls import address, at


def errors(page):
    return " ".join(re.findall(r'<ul class="errorlist.*?</ul>', page.html, re.DOTALL))


def profile(user, **changed):
    return {"display_name": user.display_name, "email": user.email, **changed}


def test_a_profile_is_changed_as_over_the_api(staff, make, events):
    ada, bob = make.user("ada", email="ada@example.org"), make.user("bob", email="bob@example.org")
    with events():
        for email, status in (("nobody", 200), ("ADA@example.org", 422)):
            refused = staff.post(at(bob), **profile(bob, email=email)).gives(status)
            assert 'value="' + email in refused.html and "errorlist" in refused.html
        assert "another account" in errors(refused).lower()
        staff.post(at(bob), **profile(bob)).leads(address(User), 302)
    with events("user-updated") as recorded:
        staff.post(at(bob), **profile(bob, display_name="Bob <b>", is_staff="on")).leads(
            address(User), 302
        )
    bob.refresh_from_db()
    assert (bob.display_name, bob.is_staff, bob.is_superuser) == ("Bob <b>", True, True)
    assert recorded[0].data == {"changed": ["display_name", "is_staff"]}
    assert "Bob <b>" not in staff.get(address(User)).html and ada.email


def test_a_username_cannot_be_changed_here(staff, bob, events):
    with events():
        staff.post(at(bob), **profile(bob, username="eve", is_superuser="on", password="x"))
    bob.refresh_from_db()
    assert (bob.username, bob.is_superuser) == ("bob", False)


def test_the_last_of_the_staff_stays(staff, sam, make, events):
    with events():
        refused = staff.post(at(sam), **profile(sam, display_name="Samantha")).gives(409)
        assert "last of the staff" in errors(refused) and 'value="Samantha"' in refused.html
        staff.post(at(sam, "deactivate")).leads(at(sam), 302)
        assert "last of the staff" in staff.get(at(sam)).text
    make.user("kim", is_staff=True)
    with events("user-deactivated"):
        staff.post(at(sam, "deactivate")).leads(at(sam), 302)
    staff.get(at(sam)).leads(f"/admin/login/?next={at(sam)}", 302)


def test_an_account_is_closed_and_opened_again(staff, bob, api, events):
    bobs = api(bob)
    with events():
        assert "closed at once" in staff.get(at(bob, "deactivate")).gives().text
        staff.get(at(bob, "reactivate")).leads(at(bob), 302)
    with events("user-deactivated"):
        staff.post(at(bob, "deactivate")).leads(at(bob), 302)
        staff.post(at(bob, "deactivate")).leads(at(bob), 302)
    bobs.get("/users/self").fails(401, "inactive_user")
    with events("user-updated"):
        staff.post(at(bob, "reactivate")).leads(at(bob), 302)
    bobs.get("/users/self").gives()


def test_a_token_is_shown_once(staff, bob, api, events):
    new = {"username": "Bob", "name": "laptop", "expires_at": "30 days"}
    with events():
        unknown = staff.post(address(ApiToken, "add"), **{**new, "username": "nobody"})
        assert unknown.gives(422) and "There is no user" in errors(unknown)
        blank = staff.post(address(ApiToken, "add"), **{**new, "name": " "}).gives()
        assert "errorlist" in blank.html and "ght_" not in blank.html
    assert 'value="bob"' in staff.get(address(ApiToken, "add") + "?username=bob").html
    with events("token-created") as recorded:
        made = staff.post(address(ApiToken, "add"), **new).gives(201)
    text = re.findall(r"ght_\w{42}", made.html)[0]
    assert "no-store" in made.header("Cache-Control") and text not in str(recorded[0].data)
    row = ApiToken.objects.get(user=bob, name="laptop")
    for path in (at(row), address(ApiToken), at(bob), "/admin/"):
        assert text not in staff.get(path).gives().html
    assert api_says(api, text)["username"] == "bob"


def api_says(api, text):
    found = api()
    found.headers["Authorization"] = f"Bearer {text}"
    return found.get("/users/self").gives()


def test_an_inactive_person_gets_no_token(staff, sam, bob, events):
    actions.deactivate_user(actor=sam, user=bob)
    with events():
        refused = staff.post(address(ApiToken, "add"), username="bob", name="x", expires_at="")
    assert "has been deactivated" in errors(refused.gives(422))


def test_a_token_is_revoked_and_deleted(staff, bob, api, make, events):
    bobs, row = api(bob), bob.tokens.get()
    with events("token-revoked"):
        staff.post(at(row, "revoke")).leads(at(row), 302)
        staff.post(at(row, "revoke")).leads(at(row), 302)
    bobs.get("/users/self").fails(401, "invalid_token")
    with events("token-deleted"):
        staff.post(at(row, "remove")).leads(address(ApiToken), 302)
    staff.post(at(row, "remove")).gives(404)


def test_an_invite_is_made_with_its_link(staff, sam, events):
    SiteSettings.load()
    with events():
        for bad in ({"expires_at": "yesterday"}, {"expires_at": "0s"}, {"email": "nobody"}):
            refused = staff.post(
                address(Invite, "add"), **{"expires_at": "1 day", "email": "", **bad}
            )
            assert "errorlist" in refused.gives().html
        SiteSettings.objects.update(signup_invite_max_per_24h=0)
        refused = staff.post(address(Invite, "add"), expires_at="1 day", email="").gives(429)
        assert "Nobody may make invites" in errors(refused)
        SiteSettings.objects.update(signup_invite_max_per_24h=1)
        Invite.objects.create(created_by=sam, expires_at=parse_future("1 day"))
        refused = staff.post(address(Invite, "add"), expires_at="1 day", email="").gives(429)
        assert "which is the limit" in errors(refused) and int(refused.header("Retry-After")) > 0
        Invite.objects.all().delete()
    SiteSettings.objects.update(signup_invite_max_per_24h=1)
    with events("invite-created"):
        made = staff.post(address(Invite, "add"), expires_at="1 day", email="zoe@example.org")
    invite = Invite.objects.get(created_by=sam)
    made.leads(at(invite), 302)
    assert f"http://testserver/signup?invite={invite.uuid}" in staff.get(at(invite)).html


def test_an_invite_expires_and_comes_back(staff, sam, events):
    invite = actions.create_invite(actor=sam, expires_at=parse_future("1 day"))
    with events("invite-updated") as recorded:
        staff.post(at(invite, "expire")).leads(at(invite), 302)
        staff.post(at(invite, "expire")).leads(at(invite), 302)
    assert recorded[0].data == {"changed": ["expires_at"]}
    shown = staff.get(at(invite))
    assert f"invite={invite.uuid}" not in shown.html and "works no more" in shown.text
    with events("invite-updated"):
        same = {"email": "", "expires_at": shown.value("expires_at")}
        staff.post(at(invite), **same).leads(address(Invite), 302)
        staff.post(at(invite), **{**same, "email": "zoe@example.org"}).leads(address(Invite), 302)
    with events("invite-updated"):
        staff.post(at(invite), email="zoe@example.org", expires_at="2 days").leads(
            address(Invite), 302
        )
    assert f"invite={invite.uuid}" in staff.get(at(invite)).html


def test_an_accepted_invite_is_only_read_and_deleted(staff, sam, events):
    SiteSettings.load()
    invite = actions.create_invite(actor=sam, expires_at=parse_future("1 day"))
    actions.sign_up(
        invite=invite, username="zoe", email="zoe@example.org", password="first horse battery"
    )
    with events():
        staff.post(at(invite), email="eve@example.org", expires_at="1 day").gives(403)
        staff.post(at(invite, "expire")).leads(at(invite), 302)
        assert "accepted this invite already" in staff.get(at(invite)).text
    with events("invite-deleted"):
        staff.post(at(invite, "remove")).leads(address(Invite), 302)
    staff.get(at(invite)).leads("/admin/", 302)


def test_people_tokens_and_invites_are_found(staff, sam, make, bob):
    zoe = make.user("Zoe", email="lily@example.org")
    actions.update_user(actor=zoe, user=zoe, display_name="Marta")
    invite = actions.create_invite(
        actor=sam, expires_at=parse_future("1 day"), email="x@example.org"
    )
    token = zoe.tokens.get()
    for model, row, texts in (
        (User, zoe, ("ZO", "mart", "lily@", str(zoe.uuid), str(zoe.uuid)[:8])),
        (ApiToken, token, ("zoe", str(token.uuid), token.token_prefix)),
        (Invite, invite, ("X@", "sam", str(invite.uuid))),
    ):
        for text in texts:
            page = staff.get(f"{address(model)}?q={text}").gives()
            assert at(row) in page.html and at(bob) not in page.html, (model, text)
        assert at(row) not in staff.get(f"{address(model)}?q=nothing").html

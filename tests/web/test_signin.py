"""`/signin` and `/signout`: who can sign in, refusals, and the next page."""

import pytest
from django.conf import settings
from django.contrib.auth import hashers

from apps.accounts import actions
from apps.web.signin import WRONG
from tests.factories import UserFactory
from tests.principals import principal_of
from tests.web.page_client import PASSWORD

pytestmark = pytest.mark.once

ELSEWHERE = ["https://evil.example/", "//evil.example/", r"/\evil.example", r"\\evil.example"]
ELSEWHERE += ["javascript:alert(1)", "///evil.example", "settings", "\x01//evil.example"]


def test_username_and_password_sign_in_ignoring_the_case_of_the_name(visit, ada):
    person = visit()
    assert person.sign_in("Ada", "wrong").gives(422).alert() == WRONG
    assert not person.is_signed_in
    person.sign_in("aDA").redirects_to("/")
    assert person.is_signed_in


@pytest.mark.parametrize("fields", [("Ada", ""), ("", PASSWORD), ("", "")])
def test_a_missing_field_is_named_and_linked(visit, ada, fields):
    page = visit().sign_in(*fields).gives(422)
    assert page.alert().count("This field is required.") == fields.count("")
    assert page.value("username") == fields[0] and page.value("password") == ""
    assert ('href="#id_username"' in page.html) == (not fields[0])


def test_unknown_wrong_and_deactivated_answer_the_same_after_the_same_work(visit, ada, monkeypatch):
    work = []
    hasher = type(hashers.get_hasher())
    hashed = hasher.encode

    def encode(*some):
        work.append(some)
        return hashed(*some)

    monkeypatch.setattr(hasher, "encode", encode)
    gone = UserFactory.create(username="gone", clear_password=PASSWORD)
    gone.is_active = False
    gone.save()
    UserFactory.create(username="without")
    answers = set()
    for name in ("nobody", "Ada", "without", "gone"):
        work.clear()
        page = visit().sign_in(name, PASSWORD if name != "Ada" else "wrong")
        answers.add((page.status, page.alert(), len(work)))
    assert answers == {(422, WRONG, 1)}


def test_a_deactivated_user_cannot_sign_in_and_is_signed_out(visit, ada):
    inside = visit(ada)
    assert inside.is_signed_in
    ada.is_active = False
    ada.save()
    assert not inside.is_signed_in
    assert visit().sign_in("Ada").gives(422).alert() == WRONG


@pytest.mark.parametrize("path", ELSEWHERE)
def test_next_leads_to_no_other_host(visit, ada, path):
    assert visit().get("/signin?next=" + path).value("next") == "/"
    visit().sign_in("Ada", next=path).redirects_to("/")


def test_next_leads_back_to_the_page_that_was_asked_for(visit, ada):
    person = visit()
    person.get("/settings/tokens?page=2").redirects_to(
        "/signin?next=/settings/tokens%3Fpage%3D2", 302
    )
    goal = person.get("/signin?next=/settings/tokens%3Fpage%3D2").value("next")
    assert person.sign_in("Ada", "wrong", next=goal).value("next") == goal
    person.sign_in("Ada", next=goal).redirects_to("/settings/tokens?page=2")


def test_signing_in_starts_a_new_session(visit, ada, alice):
    person = visit()
    person.sign_in("Ada")
    first = person.client.cookies[settings.SESSION_COOKIE_NAME].value
    person.sign_in("Ada")
    assert person.client.cookies[settings.SESSION_COOKIE_NAME].value != first
    stolen = visit()
    stolen.client.cookies[settings.SESSION_COOKIE_NAME] = first
    assert not stolen.is_signed_in


def test_signing_out_takes_a_post_and_ends_the_session_for_good(visit, ada):
    person = visit(ada)
    key = person.client.cookies[settings.SESSION_COOKIE_NAME].value
    assert person.get("/signout").status == 405
    assert person.is_signed_in
    person.post("/signout").redirects_to("/")
    person.client.cookies[settings.SESSION_COOKIE_NAME] = key
    assert not person.is_signed_in
    person.post("/signout").redirects_to("/")


def test_signing_out_tells_the_browser_to_forget_what_it_has_stored(visit, ada):
    answer = visit(ada).post("/signout")
    answer.redirects_to("/")
    assert answer.header("Clear-Site-Data") == '"cache"'


def test_who_is_signed_in_already_is_told_so(visit, ada):
    page = visit(ada).get("/signin?next=/settings").gives(200)
    assert "signed in as Ada" in page.text and 'href="/settings">Continue' in page.html


def test_the_admin_uses_the_same_sign_in_page(visit, alice, sam):
    visit().get("/admin/").redirects_to("/admin/login/?next=/admin/", 302)
    asked = visit().get("/admin/login/?next=/admin/")
    asked.redirects_to("/signin?next=/admin/login/%3Fnext%3D/admin/", 302)
    assert visit(alice).get("/admin/login/?next=/admin/").gives(403).h1
    visit(sam).get("/admin/login/?next=/admin/").redirects_to("/admin/", 302)
    visit(sam).get("/admin/").gives(200)


def test_asking_for_the_head_of_a_page_does_not_sign_out(client, ada):
    client.force_login(ada)
    assert client.head("/signout").status_code == 405
    assert client.get("/settings").status_code == 200


def test_the_way_to_sign_in_keeps_the_secret_of_a_link_to_itself(visit):
    """A link from a mail, opened before signing in, is in the address of each step."""
    link = "/settings/email?token=hush"
    steps = [visit().get(link), visit().post(link), visit().get(f"/signin?next={link}")]
    steps += [visit().get("/signup?invite=hush"), visit().get("/admin/login/?next=/reset/new")]
    for step in steps:
        assert step.header("Cache-Control") == "no-store", step.text
        assert step.header("Referrer-Policy") == "strict-origin", step.text


def test_a_session_ends_for_good_when_the_account_is_deactivated(visit, ada, sam):
    """The session is not used while the account is deactivated."""
    inside, staff = visit(ada), principal_of(sam)
    assert inside.is_signed_in
    actions.deactivate_user(principal=staff, user=ada)
    actions.reactivate_user(principal=staff, user=ada)
    assert not inside.is_signed_in
    inside.sign_in("Ada").redirects_to("/")
    actions.update_user(principal=staff, user=ada, email="other@example.org")
    assert inside.is_signed_in

"""`/settings`: the person's name and address."""

import re
from urllib.parse import quote

import pytest

from apps.accounts import actions
from apps.accounts.models import DISPLAY_NAME_MAX, User
from tests.factories import UserFactory
from tests.principals import principal_of
from tests.web.page_client import PASSWORD, PageClient
from tests.web.test_passwords import mails

NEW = "lovelace@example.org"


@pytest.fixture
def named(ada, settings):
    """ada with the name that `save` sends, on a site that sends mail."""
    settings.SENDS_MAIL = True
    ada.display_name = "Ada L."
    ada.save()


def link_in(message):
    return re.findall(r"http://127.0.0.1:8000(/settings/email\S+)", message.body)[0]


def save(person, **changed):
    fields = {"display_name": "Ada L.", "email": "ada@example.org", "current": ""} | changed
    return person.post("/settings", **fields)


def test_a_name_is_changed_without_the_password(visit, ada, events):
    person = visit(ada)
    with events():
        assert "x" * 101 in save(person, display_name="x" * (DISPLAY_NAME_MAX + 1)).gives(422).html
    with events("user-updated"):
        save(person).redirects_to("/settings")
    with events():
        save(person).redirects_to("/settings")
    shown = person.get("/settings")
    assert shown.value("display_name") == "Ada L." and "Account saved" in shown.text
    assert "Ada L." in person.get("/users/ada").h1


def test_letters_that_look_alike_are_another_address(visit, ada, named):
    """U+212A is the Kelvin sign; its lower case is a small k."""
    User.objects.filter(pk=ada.pk).update(email="kevin@example.org", email_key="kevin@example.org")
    person = visit(ada)
    for address in ("\u212aevin@example.org", "Kevin@example.org"):
        assert "Wrong password" in save(person, email=address).gives(422).alert()
    assert User.objects.get(pk=ada.pk).email == "kevin@example.org"


@pytest.mark.parametrize("address", [NEW, ""])
def test_an_address_is_changed_with_the_password_only(visit, ada, named, events, address):
    person = visit(ada)
    with events():
        for wrong in ("", "wrong"):
            page = save(person, email=address, current=wrong).gives(422)
            assert "Wrong password" in page.alert() and page.value("email") == address
    assert not mails()
    with events(*([] if address else ["user-updated"])):
        save(person, email=address, current=PASSWORD).redirects_to("/settings")
    assert person.get("/settings").value("email") == ("ada@example.org" if address else "")
    assert [message.to for message in mails()] == ([[address]] if address else [])


def test_an_address_is_the_accounts_when_its_link_is_opened_there(visit, ada, alice, named, events):
    person = visit(ada)
    save(person, email=NEW, current=PASSWORD).redirects_to("/settings")
    link = link_in(mails()[0])
    with events():
        visit().get(link).redirects_to(f"/signin?next={quote(link)}", 302)
        assert "another account" in visit(alice).get(link).gives(404).text
        page = person.get(link).gives(200)
        assert NEW in page.text and page.header("Cache-Control") == "no-store"
        assert person.get("/settings").value("email") == "ada@example.org"
        for wrong in (link[:-1], "/settings/email", "/settings/email?token=\0"):
            person.get(wrong).gives(404)
    with events("user-updated"):
        person.post("/settings/email", token=page.value("token")).redirects_to("/settings")
    shown = person.get("/settings")
    assert shown.value("email") == NEW and "address confirmed" in shown.text
    person.get(link).gives(404)
    person.post("/settings/email", token=page.value("token")).gives(404)


def test_the_page_says_the_same_whether_the_address_is_known_or_not(visit, ada, named, events):
    UserFactory.create(username="bob", email="bob@example.org")
    person, said = visit(ada), []
    with events():
        for address in ("nobody@example.org", "BOB@example.org"):
            save(person, email=address, current=PASSWORD).redirects_to("/settings")
            shown = person.get("/settings").text
            assert f"sent a link to {address}" in shown
            said.append(shown.replace(address, "…"))
        assert said[0] == said[1]
        assert [message.to for message in mails()] == [["nobody@example.org"], ["BOB@example.org"]]
        link = link_in(mails()[1])
        page = person.post("/settings/email", token=person.get(link).value("token"))
        assert "Another account" in page.gives(422).alert()
    assert person.get("/settings").value("email") == "ada@example.org"


def test_where_no_mail_is_sent_the_page_says_so(visit, ada, named, settings):
    settings.SENDS_MAIL = False
    person = visit(ada)
    save(person, email=NEW, current=PASSWORD).redirects_to("/settings")
    assert "sends no e-mail" in person.get("/settings").text


def test_a_text_that_is_no_address_is_refused_at_its_field(visit, ada, events):
    with events():
        page = save(visit(ada), email="nonsense", current=PASSWORD).gives(422)
    assert 'href="#id_email"' in page.html and page.value("email") == "nonsense"
    assert not mails()


def test_the_address_is_shown_to_its_owner_only(visit, ada, alice):
    visit().get("/settings").redirects_to("/signin?next=/settings", 302)
    assert "ada@example.org" in visit(ada).get("/settings").html
    for path in ("/", "/settings"):
        assert "ada@example.org" not in visit(alice).get(path).html


def test_an_old_page_writes_only_what_the_person_has_changed_on_it(visit, ada, sam, named, events):
    person = visit(ada)
    first, second = (person.get("/settings").inputs() for _ in range(2))
    person.post("/settings", **first | {"display_name": "Countess"}).redirects_to("/settings")
    actions.update_user(principal=principal_of(sam), user=ada, email=NEW)
    with events():
        person.post("/settings", **second).redirects_to("/settings")
    with events("user-updated"):
        person.post("/settings", **second | {"email": "", "current": PASSWORD})
    assert User.objects.filter(display_name="Countess", email="").exists()
    assert not mails()


def test_what_was_typed_into_a_form_that_has_grown_old_is_still_a_change(ada, named):
    person = PageClient(ada, strict=True)
    typed = person.get("/settings").inputs() | {"display_name": "Countess"}
    del typed["csrfmiddlewaretoken"]
    ours = {"Sec-Fetch-Site": "same-origin"}
    again = person.post("/settings", headers=ours, **typed).gives(403)
    assert again.value("display_name") == "Countess"
    person.post("/settings", **again.inputs()).redirects_to("/settings")
    assert User.objects.get(pk=ada.pk).display_name == "Countess"


def test_who_is_signed_out_is_shown_what_they_typed_and_nothing_else(visit, ada, named):
    typed = visit(ada).get("/settings").inputs() | {"display_name": "Countess"}
    page = visit().post("/settings", **typed).gives(401)
    assert "Countess" in page.text and "Ada L." not in page.text and "nitial" not in page.text

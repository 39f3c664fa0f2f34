"""`/settings`: one's own name and address."""

import pytest

from apps.accounts.models import DISPLAY_NAME_MAX
from tests.factories import UserFactory
from tests.web.page_client import PASSWORD


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
    assert shown.value("display_name") == "Ada L." and "is saved" in shown.text
    assert "Ada L." in person.get("/").h1


@pytest.mark.parametrize("address", ["lovelace@example.org", ""])
def test_an_address_is_changed_with_the_password_only(visit, ada, events, address):
    person = visit(ada)
    with events():
        for wrong in ("", "wrong"):
            page = save(person, email=address, current=wrong).gives(422)
            assert "not your password" in page.alert() and page.value("email") == address
    with events("user-updated"):
        save(person, email=address, current=PASSWORD).redirects_to("/settings")
    assert person.get("/settings").value("email") == address


def test_a_refusal_of_the_action_is_shown_at_its_field(visit, ada, events):
    UserFactory.create(username="bob", email="bob@example.org")
    with events():
        for address in ("nonsense", "BOB@example.org"):
            page = save(visit(ada), email=address, current=PASSWORD).gives(422)
            assert 'href="#id_email"' in page.html and page.value("email") == address


def test_the_address_is_shown_to_its_owner_only(visit, ada, alice):
    visit().get("/settings").redirects_to("/signin?next=/settings", 302)
    assert "ada@example.org" in visit(ada).get("/settings").html
    for path in ("/", "/settings"):
        assert "ada@example.org" not in visit(alice).get(path).html

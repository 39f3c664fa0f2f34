"""`/settings/appearance`: theme and shortcuts, for an account or for a browser."""

from __future__ import annotations

import re

import pytest

from apps.accounts.models import User
from tests.web.page_client import PASSWORD

pytestmark = pytest.mark.once
PATH = "/settings/appearance"


def look_of(page):
    """The `<html>` tag, without the attributes for drafts."""
    return re.sub(r' data-(user|sent)="[^"]*"', "", "".join(re.findall(r"<html[^>]*>", page.html)))


def test_an_account_keeps_its_colours_and_shortcuts_in_every_browser(visit, ada, events):
    person = visit(ada)
    assert look_of(person.get("/")) == '<html lang="en">'
    with events():
        assert person.post(PATH, theme="green").gives(422).alert()
    with events("user-updated") as recorded:
        person.post(PATH, theme="dark").redirects_to(PATH)
    assert sorted(recorded[0].data["changed"]) == ["has_shortcuts", "theme"]
    dark = '<html lang="en" data-theme="dark" data-shortcuts="off">'
    for page in (person.get(PATH), visit(ada).get("/nowhere"), visit(ada).get("/teams")):
        assert look_of(page) == dark
    with events("user-updated"):
        person.post(PATH, theme="system", has_shortcuts="on").redirects_to(PATH)
    assert look_of(person.get(PATH)) == '<html lang="en">'


def test_a_browser_keeps_the_colours_for_who_is_signed_out(visit, ada, events):
    nobody = visit()
    assert "shortcuts" not in nobody.get(PATH).gives().text
    with events():
        nobody.post(PATH, theme="light", has_shortcuts="on").redirects_to(PATH)
    assert nobody.client.cookies["theme"]["httponly"]
    assert look_of(nobody.get("/signin")) == '<html lang="en" data-theme="light">'
    User.objects.filter(pk=ada.pk).update(theme="dark")
    nobody.sign_in("Ada", PASSWORD)
    assert 'data-theme="dark"' in look_of(nobody.get("/"))
    nobody.post("/signout")
    nobody.post(PATH, theme="system").redirects_to(PATH)
    nobody.client.cookies["theme"] = 'x"><script>'
    assert look_of(nobody.get("/")) == '<html lang="en">'
